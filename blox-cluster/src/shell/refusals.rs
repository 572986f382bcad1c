//! Refused requests: counted by reason, and reported to the operator.

use super::clock;
use super::scheduler::Message;
use crate::protocol::Millis;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// Minimum time between two messages about one address.
const QUIET: Millis = Millis(60_000);
/// Limit on the number of addresses in memory.
const MOST: usize = 1_024;

/// Refused requests of a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Refusals {
    inner: Arc<Mutex<Inner>>,
    notices: mpsc::Sender<Message>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of refused requests by reason.
    counts: BTreeMap<&'static str, u64>,
    /// Time of the last message about an address.
    noticed: BTreeMap<Option<IpAddr>, Millis>,
}

impl Refusals {
    pub fn new(notices: mpsc::Sender<Message>) -> Self {
        Refusals {
            inner: Arc::default(),
            notices,
        }
    }

    /// Counts a refused request. `reason` is a short name for metrics, `why` is a sentence.
    pub fn add(&self, from: Option<IpAddr>, reason: &'static str, why: &str) {
        self.add_at(clock::now(), from, reason, why);
    }

    fn add_at(&self, now: Millis, from: Option<IpAddr>, reason: &'static str, why: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.counts.entry(reason).or_default() += 1;
        let is_noticed = inner.noticed.get(&from).is_some_and(|at| now - *at < QUIET);
        if is_noticed {
            return;
        }
        if inner.noticed.len() >= MOST {
            inner.noticed.retain(|_, at| now - *at < QUIET);
            if inner.noticed.len() >= MOST {
                return;
            }
        }
        inner.noticed.insert(from, now);
        let from = from.map_or_else(|| "an unknown address".to_owned(), |ip| ip.to_string());
        let text = format!("a request from {from} is refused: {why}");
        // The scheduler may be stopping.
        let _ = self.notices.send(Message::Notice(text));
    }

    /// Returns the number of refused requests by reason.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_counts_and_one_a_minute_is_reported() {
        let (tx, rx) = mpsc::channel();
        let refusals = Refusals::new(tx);
        let ip = Some(IpAddr::from([10, 0, 0, 1]));
        refusals.add_at(Millis(0), ip, "no_token", "it has no token");
        refusals.add_at(Millis(59_000), ip, "wrong_token", "its token is wrong");
        refusals.add_at(Millis(60_000), ip, "no_token", "it has no token");
        let texts: Vec<String> = rx
            .try_iter()
            .filter_map(|message| match message {
                Message::Notice(text) => Some(text),
                _ => None,
            })
            .collect();
        assert_eq!(
            texts,
            ["a request from 10.0.0.1 is refused: it has no token"; 2]
        );
        let counts: Vec<_> = refusals.counts().into_iter().collect();
        assert_eq!(counts, [("no_token", 2), ("wrong_token", 1)]);
    }
}
