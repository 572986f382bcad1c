//! Node managers with an open stream. If two have copies of one state folder, the first one stays.

use super::clock;
use crate::protocol::{Millis, Session};
use blox_core::Name;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Time for which a node manager with an open stream counts as present after a report. Reports come
/// every two seconds.
const PRESENT: Millis = Millis(6_000);
/// Time for which a node manager must have reported beside another one, which is then refused.
/// A restarted node manager may come before the end of its old stream is known.
const BESIDE: Millis = Millis(2_000);

/// Answer to the first report of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// No other manager of the node is present.
    Free,
    /// Another one may be present: try again.
    Later,
    /// Another one is present.
    Taken,
}

/// Node managers with an open stream, by the persistent name of the node.
#[derive(Clone, Default)]
pub(super) struct Speakers(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    last: u64,
    nodes: BTreeMap<Name, Speaker>,
}

struct Speaker {
    session: Session,
    /// Number of its stream.
    stream: u64,
    reported_at: Millis,
    /// Another session, and the time of its first claim.
    rival: Option<(Session, Millis)>,
}

impl Speakers {
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Claims a node for the stream of a session. Returns the number of the stream.
    pub fn claim(&self, node: &Name, session: Session) -> (u64, Claim) {
        self.claim_at(clock::now(), node, session)
    }

    fn claim_at(&self, now: Millis, node: &Name, session: Session) -> (u64, Claim) {
        self.with(|inner| {
            inner.last += 1;
            let stream = inner.last;
            if let Some(speaker) = inner.nodes.get_mut(node)
                && speaker.session < session
                && now - speaker.reported_at < PRESENT
            {
                let since = match speaker.rival {
                    Some((rival, since)) if rival == session => since,
                    _ => now,
                };
                speaker.rival = Some((session, since));
                let claim = match speaker.reported_at >= since + BESIDE {
                    true => Claim::Taken,
                    false => Claim::Later,
                };
                return (stream, claim);
            }
            let speaker = Speaker {
                session,
                stream,
                reported_at: now,
                rival: None,
            };
            // An older session is refused by its number.
            let later = inner.nodes.get(node).is_some_and(|s| s.session > session);
            if !later {
                inner.nodes.insert(node.clone(), speaker);
            }
            (stream, Claim::Free)
        })
    }

    /// Records a report of a stream.
    pub fn reported(&self, node: &Name, stream: u64) {
        self.reported_at(clock::now(), node, stream);
    }

    fn reported_at(&self, now: Millis, node: &Name, stream: u64) {
        self.with(|inner| {
            let speaker = inner.nodes.get_mut(node).filter(|s| s.stream == stream);
            if let Some(speaker) = speaker {
                speaker.reported_at = now;
            }
        });
    }

    /// Records the end of a stream.
    pub fn ended(&self, node: &Name, stream: u64) {
        self.with(|inner| {
            if inner.nodes.get(node).is_some_and(|s| s.stream == stream) {
                inner.nodes.remove(node);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_that_starts_beside_its_original_is_refused() {
        let speakers = Speakers::default();
        let node = Name::from("n");
        let claim = |now, session| speakers.claim_at(Millis(now), &node, Session(session));
        let (first, answer) = claim(0, 5);
        assert_eq!(answer, Claim::Free);
        // The manager may just have been restarted.
        assert_eq!(claim(1_000, 6).1, Claim::Later);
        speakers.reported_at(Millis(2_000), &node, first);
        assert_eq!(claim(2_500, 6).1, Claim::Later);
        speakers.reported_at(Millis(3_500), &node, first);
        assert_eq!(claim(4_000, 6).1, Claim::Taken);
        // The original reconnects, and stays.
        let (again, answer) = claim(5_000, 5);
        assert_eq!(answer, Claim::Free);
        speakers.ended(&node, first);
        assert_eq!(claim(5_500, 7).1, Claim::Later);
        // Once its stream has ended or it is silent, a new session is the node.
        speakers.ended(&node, again);
        assert_eq!(claim(6_000, 7).1, Claim::Free);
        assert_eq!(claim(12_000, 8).1, Claim::Free);
    }
}
