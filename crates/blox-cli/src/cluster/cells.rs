//! The connection to a scheduler, and texts that several commands print.

use super::args::At;
use super::daemons::credentials;
use crate::failure::{Code, Failure};
use crate::text::plain;
use blox_cluster::client::{Client, ClientError, Credentials};
use blox_cluster::identity::IdentityFile;
use blox_cluster::wire::pb;

/// Maximum number of characters of a name in a table.
const LONGEST_CELL: usize = 40;

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Self {
        let code = match e {
            ClientError::Unreachable { .. } | ClientError::NoRoom(_) => Code::Unreachable,
            ClientError::Credentials(_) => Code::Usage,
            _ => Code::Request,
        };
        Failure::of(code, plain(&e.to_string()))
    }
}

/// Makes text safe as [`plain`] does and truncates it, so that a long name does not widen a table.
pub(super) fn short(text: &str) -> String {
    let mut shown = plain(text);
    if let Some((at, _)) = shown.char_indices().nth(LONGEST_CELL) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

pub(super) async fn client(at: &At) -> Result<Client, Failure> {
    Ok(Client::connect(&at.at, credentials(at)?).await?)
}

/// Returns the name for `--me`: the name in the certificate for a scheduler, or without one `$USER`.
pub(super) fn me(at: &At) -> Result<String, Failure> {
    let certified = match credentials(at)? {
        Credentials::Identity(path) => IdentityFile::read(&path)?.principal,
        _ => None,
    };
    let name = certified.map_or_else(own_name, |who| who.name);
    match name.is_empty() {
        true => Err(Failure::new("--me: $USER is not set: give --user")),
        false => Ok(name),
    }
}

/// Returns the name of the user of this process; empty if unknown.
pub(super) fn own_name() -> String {
    std::env::var("USER").unwrap_or_default()
}

/// Returns the number of a job, with its place in an array.
pub(super) fn id(j: &pb::JobLine) -> String {
    match j.array {
        Some(array) => format!("{array}_{}", j.index),
        None => j.job.to_string(),
    }
}

/// Formats seconds as squeue does, such as `1-02:03:04` or `5:09`.
pub(super) fn span(secs: f64) -> String {
    let s = secs.max(0.0) as u64;
    let (days, hours, minutes, seconds) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}
