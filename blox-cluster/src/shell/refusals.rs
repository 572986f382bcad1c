//! Refused requests: counted by reason, and reported to the operator.

use super::address::group;
use super::clock;
use super::scheduler::Message;
use crate::excerpt::excerpt;
use crate::protocol::Millis;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// Minimum time between two messages about one address.
const QUIET: Millis = Millis(60_000);
/// Limit on the number of addresses in memory, and of callers.
const MOST: usize = 1_024;
/// Limit on the lines of the audit log for refusals of one caller in a minute.
const LINES: u32 = 60;
/// Longest reason in a message, in characters.
const LONGEST: usize = 200;

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
    /// Lines of the audit log.
    lines: BTreeMap<By, Lines>,
}

/// The caller whose lines are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// The holder of a certificate.
    Name(String),
    /// All callers without a certificate at an address.
    Address(IpAddr),
    /// All further callers while too many are in memory.
    Others,
}

/// Lines of the audit log for one caller.
#[derive(Debug, Default)]
struct Lines {
    /// Begin of the minute.
    since: Millis,
    /// Number of lines since then.
    count: u32,
    /// Number of refusals without a line.
    omitted: u64,
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
        let why = excerpt(why, LONGEST);
        let text = format!("a request from {from} is refused: {why}");
        // The scheduler may be stopping.
        let _ = self.notices.send(Message::Notice(text));
    }

    /// Counts a line of the audit log for a refusal. Returns `None` if the caller has too many lines
    /// this minute, or else the number of its refusals without a line until now.
    pub fn line(&self, name: Option<&str>, from: IpAddr) -> Option<u64> {
        let by = match name {
            Some(name) => By::Name(name.to_owned()),
            None => By::Address(group(from)),
        };
        self.line_at(clock::now(), by)
    }

    fn line_at(&self, now: Millis, by: By) -> Option<u64> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = &mut inner.lines;
        if lines.len() >= MOST && !lines.contains_key(&by) {
            lines.retain(|_, of| now - of.since < QUIET);
        }
        let by = match lines.len() >= MOST && !lines.contains_key(&by) {
            true => By::Others,
            false => by,
        };
        let of = lines.entry(by).or_default();
        if of.count == 0 || now - of.since >= QUIET {
            of.since = now;
            of.count = 0;
        }
        if of.count >= LINES {
            of.omitted += 1;
            return None;
        }
        of.count += 1;
        Some(std::mem::take(&mut of.omitted))
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

    #[test]
    fn a_caller_has_a_limit_on_its_lines_a_minute() {
        let refusals = Refusals::new(mpsc::channel().0);
        let line = |now, by: &By| refusals.line_at(Millis(now), by.clone());
        let (bob, eve) = (By::Name("bob".to_owned()), By::Name("eve".to_owned()));
        for _ in 0..LINES {
            assert_eq!(line(5, &bob), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(line(59_000, &bob), None);
        }
        assert_eq!(line(59_000, &eve), Some(0));
        assert_eq!(line(60_005, &bob), Some(7));
        assert_eq!(line(60_005, &bob), Some(0));
        // Many addresses share one limit, and remove no caller of this minute.
        let address = |n: u32| By::Address(IpAddr::from(n.to_be_bytes()));
        let written = (0..5_000).filter(|n| line(60_006, &address(*n)).is_some());
        assert!(written.count() <= MOST + LINES as usize);
        assert_eq!(line(60_007, &bob), Some(0));
        assert!(refusals.inner.lock().unwrap().lines.len() <= MOST + 1);
    }
}
