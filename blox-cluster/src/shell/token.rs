//! Shared secret of the scheduler and its clients and nodes.

use super::listen::Peer;
use super::refusals::Refusals;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

const HEADER: &str = "authorization";
/// Minimum length of a secret in characters. A shorter one could be guessed.
const SHORTEST: usize = 16;

/// A secret, or none.
#[derive(Clone, Default)]
pub struct Token(Option<Arc<MetadataValue<Ascii>>>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = if self.is_some() {
            "Token(..)"
        } else {
            "Token(none)"
        };
        f.write_str(text)
    }
}

impl Token {
    /// Returns a token without a secret.
    pub fn none() -> Self {
        Token(None)
    }

    /// Reads the secret from a file that is private to its owner.
    ///
    /// # Errors
    /// The file cannot be read, other users can read it, or its content is not a valid secret.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(bad("others may read it: expected mode 600"));
        }
        let text = fs::read_to_string(path)?;
        let text = text.trim();
        if text.len() < SHORTEST {
            return Err(bad(
                "the token is too short: expected 16 characters or more",
            ));
        }
        let value = format!("Bearer {text}").parse();
        let value =
            value.map_err(|_| bad("the token holds other than visible ASCII characters"))?;
        Ok(Token(Some(Arc::new(value))))
    }

    /// Returns true if there is a secret.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Adds the secret to outgoing requests.
impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(secret) = &self.0 {
            request.metadata_mut().insert(HEADER, (**secret).clone());
        }
        Ok(request)
    }
}

/// Checks the secret of incoming requests.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub token: Token,
    pub refusals: Refusals,
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let peer = request.extensions().get::<Peer>();
        let shown = request.metadata().get(HEADER);
        let (reason, why) = match (&self.token.0, shown) {
            (Some(secret), Some(shown)) if !same(shown.as_bytes(), secret.as_bytes()) => {
                ("wrong_token", "the token is not this scheduler's")
            }
            (Some(_), None) => (
                "no_token",
                "this scheduler asks for a token: give --token-file",
            ),
            _ => {
                if let Some(peer) = peer {
                    peer.admit();
                }
                return Ok(request);
            }
        };
        self.refusals.add(peer.map(|peer| peer.ip), reason, why);
        Err(Status::unauthenticated(why))
    }
}

/// Compares in a time that does not depend on the position of a difference.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    fn shown(to: &Token, by: &Token) -> Result<(), String> {
        let request = by.clone().call(Request::new(())).unwrap();
        let (notices, _) = std::sync::mpsc::channel();
        let mut guard = Guard {
            token: to.clone(),
            refusals: Refusals::new(notices),
        };
        let answer = guard.call(request);
        answer.map(drop).map_err(|s| s.message().to_owned())
    }

    #[test]
    fn only_requests_with_the_token_pass() {
        let (_d, path) = file("0123456789abcdef\n", 0o600);
        let ours = Token::read(&path).unwrap();
        let (_d, path) = file("0123456789abcdeF\n", 0o600);
        let other = Token::read(&path).unwrap();
        assert_eq!(shown(&ours, &ours), Ok(()));
        assert_eq!(shown(&Token::none(), &other), Ok(()));
        assert!(
            shown(&ours, &other)
                .unwrap_err()
                .contains("not this scheduler's")
        );
        assert!(
            shown(&ours, &Token::none())
                .unwrap_err()
                .contains("--token-file")
        );
    }

    #[test]
    fn a_token_that_is_no_secret_is_refused() {
        let message = |text, mode| {
            let (_d, path) = file(text, mode);
            Token::read(&path).unwrap_err().to_string()
        };
        assert!(message("0123456789abcdef", 0o644).contains("mode 600"));
        assert!(message("short", 0o600).contains("too short"));
    }
}
