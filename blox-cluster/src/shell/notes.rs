//! Notes of calls and refusals: the audit log, counters, and messages for the operator.

use super::refusals::Refusals;
use crate::identity::audit::{Audit, Entry};
use crate::identity::{Principal, unix_ms};
use std::net::SocketAddr;
use std::sync::Arc;

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

    /// Writes a line of the audit log, with the reason of a refusal or error.
    pub fn line(
        &self,
        peer: SocketAddr,
        who: Option<&Principal>,
        method: &str,
        object: &str,
        why: Option<&str>,
    ) {
        if let Some(audit) = &self.audit {
            audit.add(&Entry {
                at_ms: unix_ms(),
                peer: &peer.to_string(),
                name: who.map_or("", |who| &who.name),
                role: who.map_or("", |who| who.role.as_str()),
                method,
                object,
                allowed: why.is_none(),
                reason: why.unwrap_or_default(),
            });
        }
    }
}
