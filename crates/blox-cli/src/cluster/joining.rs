//! Tokens with which a user or a node joins a cluster.

use crate::failure::Failure;
use crate::text::plain;
use blox_cluster::identity::IdentityError;
use blox_cluster::identity::tokens::Invitation;
use std::io::{BufRead, Read};
use std::path::Path;

/// Longest line with a token in bytes.
const LONGEST_TOKEN: u64 = 4096;

impl From<IdentityError> for Failure {
    fn from(e: IdentityError) -> Self {
        Failure::new(plain(&e.to_string()))
    }
}

/// Reads a token to join: from a file, from standard input for `-`, or else from the environment.
/// Arguments are visible to all users of a machine, so a token is none.
pub(super) fn invitation(
    file: Option<&Path>,
    input: &mut dyn BufRead,
) -> Result<Option<Invitation>, Failure> {
    let Some(file) = file else {
        let token = std::env::var("BLOX_JOIN").ok();
        return Ok(token.map(|token| token.parse()).transpose()?);
    };
    if file.as_os_str() == "-" {
        return from_input(input).map(Some);
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.parse::<Invitation>().is_ok() {
        return Err(Failure::new(
            "found a token, expected a file with it: other users see the arguments of a program; $BLOX_JOIN and standard input are private, too",
        ));
    }
    Ok(Some(Invitation::read(file)?))
}

/// Reads a token from the first line of standard input.
pub(super) fn from_input(input: &mut dyn BufRead) -> Result<Invitation, Failure> {
    let mut line = String::new();
    input
        .take(LONGEST_TOKEN)
        .read_line(&mut line)
        .map_err(|e| Failure::new(format!("standard input cannot be read: {e}")))?;
    Ok(line.parse()?)
}
