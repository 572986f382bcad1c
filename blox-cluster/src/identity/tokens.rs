//! Tokens with which a user or node joins once.

use super::{IdentityError, Role, digest};
use crate::private;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// First part of a token.
const BEGIN: &str = "blox-join-1";
/// Time for which used and expired tokens are remembered, in seconds.
const REMEMBERED_S: u64 = 30 * 86_400;

/// A token as an admin passes it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Its secret.
    pub secret: String,
    /// Fingerprint of the authority, by which the new user or node recognizes the scheduler.
    pub fingerprint: String,
}

impl Invitation {
    /// Reads a token from a file that is private to its owner, this user or root.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or it has no token.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let (text, _) = private::read(path).map_err(IdentityError::io(path))?;
        text.parse()
    }
}

impl std::fmt::Display for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{BEGIN}.{}.{}", self.secret, self.fingerprint)
    }
}

impl std::str::FromStr for Invitation {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let hex = |part: &str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
        match parts[..] {
            [BEGIN, secret, fingerprint] if hex(secret) && hex(fingerprint) => Ok(Invitation {
                secret: secret.to_owned(),
                fingerprint: fingerprint.to_owned(),
            }),
            _ => Err(IdentityError::Invalid(format!(
                "the token to join is invalid, expected {BEGIN} and two numbers: copy it whole from `blox token create`"
            ))),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    role: Role,
    #[serde(default)]
    name: Option<String>,
    /// End of its validity in seconds of Unix time.
    expires_s: u64,
    #[serde(default)]
    used: bool,
}

/// The tokens of an authority.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// True if the folder has had a list of revoked certificates, which must not be missing later.
    #[serde(default)]
    pub has_denied: bool,
    /// Tokens by the digest of their secret.
    #[serde(default)]
    tokens: BTreeMap<String, Entry>,
    /// Names of nodes that have joined. A token without a name gives none of them.
    #[serde(default)]
    nodes: BTreeSet<String>,
    /// All names with a certificate.
    #[serde(default)]
    names: BTreeSet<String>,
}

impl Tokens {
    pub fn add(&mut self, secret: &str, role: Role, name: Option<&str>, expires_s: u64) {
        let entry = Entry {
            role,
            name: name.map(str::to_owned),
            expires_s,
            used: false,
        };
        self.tokens.insert(digest(secret.as_bytes()), entry);
    }

    /// Returns role and name of the holder of a token. The token stays unused.
    pub fn check(
        &self,
        secret: &str,
        wanted: &str,
        host: &str,
        now_s: u64,
    ) -> Result<(Role, String), IdentityError> {
        let entry = self.tokens.get(&digest(secret.as_bytes()));
        let entry = entry.filter(|e| e.expires_s + REMEMBERED_S > now_s);
        let unknown = IdentityError::Refused("there is no such token to join");
        let entry = entry.ok_or(unknown)?;
        if entry.used {
            return Err(IdentityError::Refused("the token to join was used before"));
        }
        if now_s > entry.expires_s {
            return Err(IdentityError::Refused("the token to join has expired"));
        }
        let name = match &entry.name {
            Some(name) if wanted.is_empty() || wanted == name => name.clone(),
            Some(_) => {
                return Err(IdentityError::Refused(
                    "the token to join is for another name",
                ));
            }
            None => {
                let name = if wanted.is_empty() { host } else { wanted };
                super::check_name(name)?;
                if self.nodes.contains(name) {
                    return Err(IdentityError::Refused(
                        "a node of this name has joined before: create a token with --name",
                    ));
                }
                name.to_owned()
            }
        };
        Ok((entry.role, name))
    }

    /// Marks a token as used by a user or node, whose certificate is issued, and forgets old tokens.
    pub fn take(&mut self, secret: &str, role: Role, name: &str, now_s: u64) {
        self.tokens
            .retain(|_, e| e.expires_s + REMEMBERED_S > now_s);
        if let Some(entry) = self.tokens.get_mut(&digest(secret.as_bytes())) {
            entry.used = true;
        }
        if role == Role::Node {
            self.nodes.insert(name.to_owned());
        }
        self.name(name);
    }

    /// Remembers a name with a certificate.
    pub fn name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// Returns true for a remembered name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the names with a certificate or a token.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let invited = self.tokens.values().filter_map(|entry| entry.name.as_ref());
        let joined = self.names.iter().chain(&self.nodes);
        joined.chain(invited).map(String::as_str)
    }

    /// Removes unused tokens of a name. Returns whether there were some.
    pub fn forget(&mut self, name: &str) -> bool {
        let before = self.tokens.len();
        self.nodes.remove(name);
        self.tokens
            .retain(|_, entry| entry.used || entry.name.as_deref() != Some(name));
        self.tokens.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitation_round_trips_as_text() {
        let invitation = Invitation {
            secret: "a1".repeat(32),
            fingerprint: "0f".repeat(32),
        };
        let text = invitation.to_string();
        assert_eq!(text.parse::<Invitation>().unwrap(), invitation);
        for wrong in ["", "blox-join-1.a1.0f", &text[..100], "x.y.z"] {
            let error = wrong.parse::<Invitation>().unwrap_err().to_string();
            assert!(error.contains("copy it whole"), "{error}");
        }
    }

    #[test]
    fn a_token_for_one_name_gives_no_other() {
        let mut tokens = Tokens::default();
        let take = |tokens: &mut Tokens, secret: &str, wanted: &str, host: &str| {
            let (role, name) = tokens.check(secret, wanted, host, 5)?;
            tokens.take(secret, role, &name, 5);
            Ok::<_, IdentityError>((role, name))
        };
        tokens.add("secret", Role::Node, Some("n1"), 10);
        let error = take(&mut tokens, "secret", "n2", "host").unwrap_err();
        assert_eq!(error.to_string(), "the token to join is for another name");
        let taken = take(&mut tokens, "secret", "n1", "host").unwrap();
        assert_eq!(taken, (Role::Node, "n1".to_owned()));
        for secret in ["second", "third"] {
            tokens.add(secret, Role::Node, None, 10);
        }
        let error = take(&mut tokens, "second", "n1", "host").unwrap_err();
        assert!(error.to_string().contains("has joined before"), "{error}");
        let taken = take(&mut tokens, "second", "", "host").unwrap();
        assert_eq!(taken.1, "host");
        assert!(!tokens.forget("host"));
        let taken = take(&mut tokens, "third", "host", "").unwrap();
        assert_eq!(taken.1, "host");
    }
}
