//! Names and rights: certificates of users and nodes, tokens to join, and the audit log.
//!
//! An [`authority::Authority`] issues the certificates of a cluster. A certificate states the name
//! and the [`Role`] of its holder. [`access::right`] is the only rule of what a role may do.

pub mod access;
pub mod audit;
pub mod authority;
mod pem;
pub mod tls;
pub mod tokens;

pub use pem::{IdentityFile, request};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thiserror::Error;
use x509_parser::prelude::parse_x509_certificate;

/// Error of a certificate, a key or a token.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file, certificate or token is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A token to join is refused.
    #[error("{0}")]
    Refused(&'static str),
}

impl IdentityError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| IdentityError::Io { path, error }
    }

    fn invalid(what: impl fmt::Display) -> Self {
        IdentityError::Invalid(what.to_string())
    }
}

/// Role of the holder of a certificate; [`access::right`] states its rights.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the queue, the nodes and forecasts.
    Viewer,
    /// Submits jobs, and changes and reads its own.
    User,
    /// Changes all jobs and nodes.
    Operator,
    /// Also creates and revokes certificates.
    Admin,
    /// Runs jobs, as one node.
    Node,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 5] = [
        Role::Viewer,
        Role::User,
        Role::Operator,
        Role::Admin,
        Role::Node,
    ];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::User => "user",
            Role::Operator => "operator",
            Role::Admin => "admin",
            Role::Node => "node",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| {
            IdentityError::Invalid(format!(
                "role is `{text}`, expected viewer, user, operator, admin or node"
            ))
        })
    }
}

/// The holder of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name of the user or node.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Serial number of the certificate, in hexadecimal digits.
    pub serial: String,
    /// Time of issue, in milliseconds of Unix time.
    pub issued_ms: u64,
    /// Time until which the certificate is valid, in seconds of Unix time.
    pub until_s: u64,
}

impl Principal {
    /// Reads a certificate of the authority. Its validity is not checked.
    ///
    /// # Errors
    /// The certificate has no name or no role.
    pub fn of(der: &[u8]) -> Result<Self, IdentityError> {
        let (_, certificate) = parse_x509_certificate(der).map_err(IdentityError::invalid)?;
        let subject = certificate.subject();
        let text = |found: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
            let found = found.and_then(|value| value.as_str().ok());
            found.map(str::to_owned)
        };
        let missing = || IdentityError::invalid("the certificate names no user or node");
        let name = text(subject.iter_common_name().next()).ok_or_else(missing)?;
        let role = text(subject.iter_organizational_unit().next()).ok_or_else(missing)?;
        let raw = certificate.raw_serial();
        // The first byte is 1, then follows the time of issue.
        let time = raw.get(1..).and_then(|rest| rest.first_chunk());
        let time = time.map_or(0, |time| u64::from_be_bytes(*time));
        let until = certificate.validity().not_after.timestamp();
        Ok(Principal {
            name,
            role: role.parse()?,
            serial: hex(raw),
            issued_ms: time,
            until_s: u64::try_from(until).unwrap_or(0),
        })
    }
}

/// Returns an error unless the text is a name of a user or node: 1 to 64 letters, digits, or
/// `.`, `_`, `-`, `@`.
///
/// # Errors
/// The text is no such name.
pub fn check_name(name: &str) -> Result<(), IdentityError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-');
    fits.then_some(()).ok_or_else(|| {
        IdentityError::Invalid(format!(
            "name is `{}`, expected 1 to 64 letters, digits, or . _ - @",
            name.escape_debug()
        ))
    })
}

/// Returns hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the digest of bytes, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Returns the time of day. No decision of a policy depends on it.
pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.as_millis() as u64
}
