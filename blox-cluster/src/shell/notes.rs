//! Notes of calls and refusals: the audit log, counters, and messages for the operator.

use super::refusals::Refusals;
use crate::excerpt::excerpt;
use crate::identity::audit::{Audit, Entry};
use crate::identity::{Principal, unix_ms};
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest object, method and reason in a line, in characters.
const LONGEST: usize = 200;

/// Notes of a scheduler.
#[derive(Clone)]
pub(super) struct Notes {
    pub refusals: Refusals,
    pub audit: Option<Arc<Audit>>,
}

impl Notes {
    /// Notes a connection or a call that is refused.
    pub fn refused(
        &self,
        peer: SocketAddr,
        who: Option<&Principal>,
        method: &str,
        label: &'static str,
        why: &str,
    ) {
        self.refusals.add(Some(peer.ip()), label, why);
        self.line(peer, who, method, "", Some(why));
    }

    /// Writes a line of the audit log, with the reason of a refusal or error. A caller with many
    /// refusals gets only some lines.
    pub fn line(
        &self,
        peer: SocketAddr,
        who: Option<&Principal>,
        method: &str,
        object: &str,
        why: Option<&str>,
    ) {
        let Some(audit) = &self.audit else {
            return;
        };
        let omitted = match why {
            Some(_) => self.refusals.line(who.map(|who| &*who.name), peer.ip()),
            None => Some(0),
        };
        let Some(omitted) = omitted else {
            return;
        };
        audit.add(&Entry {
            at_ms: unix_ms(),
            peer: &peer.to_string(),
            name: who.map_or("", |who| &who.name),
            role: who.map_or("", |who| who.role.as_str()),
            method: &excerpt(method, LONGEST),
            object: &excerpt(object, LONGEST),
            allowed: why.is_none(),
            reason: &excerpt(why.unwrap_or_default(), LONGEST),
            omitted,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::scheduler::Message;
    use std::sync::mpsc;

    #[test]
    fn long_texts_are_cut_in_lines_and_messages() {
        let dir = tempfile::tempdir().unwrap();
        let (tx, rx) = mpsc::channel();
        let notes = Notes {
            refusals: Refusals::new(tx),
            audit: Some(Arc::new(Audit::open(dir.path()).unwrap())),
        };
        let (long, peer) = ("x".repeat(100_000), ([10, 0, 0, 1], 1).into());
        notes.line(peer, None, &long, &long, Some(&long));
        notes.refused(peer, None, "Jobs/List", "role", &long);
        let text = std::fs::read_to_string(dir.path().join("refused.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.len() < 2_000, "{}", text.len());
        let Ok(Message::Notice(text)) = rx.try_recv() else {
            panic!("no message");
        };
        assert!(text.len() < 300, "{text}");
    }

    #[test]
    fn repeated_refusals_of_an_address_share_lines() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes {
            refusals: Refusals::new(mpsc::channel().0),
            audit: Some(Arc::new(Audit::open(dir.path()).unwrap())),
        };
        for port in 1..=10_000 {
            let peer = ([10, 0, 0, 1], port).into();
            notes.refused(peer, None, "", "plain", "it does not use TLS");
        }
        notes.line(([10, 0, 0, 1], 1).into(), None, "Jobs/Submit", "", None);
        let lines = |name: &str| {
            let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
            text.lines().count()
        };
        assert!(lines("refused.jsonl") <= 120);
        assert_eq!(lines("audit.jsonl"), 1);
        assert_eq!(notes.refusals.counts()["plain"], 10_000);
    }
}
