//! Shared secret of the scheduler and its clients and nodes.

use crate::private;
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::codegen::http::HeaderValue;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Header of a request with the secret.
pub(super) const HEADER: &str = "authorization";
/// Minimum length of a secret in characters. A shorter one could be guessed.
const SHORTEST: usize = 16;

/// A secret, or none.
#[derive(Clone, Default)]
pub struct Token(Option<Arc<Secret>>);

struct Secret {
    value: MetadataValue<Ascii>,
    /// Owner of its file.
    owner: Option<u32>,
}

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

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Returns 256 random bits as hexadecimal digits.
pub(crate) fn random() -> io::Result<String> {
    let mut bits = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Token {
    /// Returns a token without a secret.
    pub fn none() -> Self {
        Token(None)
    }

    /// Returns a new secret that is in no file.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        Self::of(&random()?, None)
    }

    fn of(text: &str, owner: Option<u32>) -> io::Result<Self> {
        if text.len() < SHORTEST {
            return Err(bad(
                "the token is too short: expected 16 characters or more",
            ));
        }
        let value = format!("Bearer {text}").parse();
        let value =
            value.map_err(|_| bad("the token holds other than visible ASCII characters"))?;
        Ok(Token(Some(Arc::new(Secret { value, owner }))))
    }

    /// Reads the secret from a file that is private to its owner: this user or root.
    /// Root may read the file of any user.
    ///
    /// # Errors
    /// The file cannot be read, other users can read it, another user owns it, or its content is
    /// not a valid secret.
    pub fn read(path: &Path) -> io::Result<Self> {
        let (text, owner) = private::read(path)?;
        Self::of(text.trim(), Some(owner))
    }

    /// Returns the file with the user's own token, which this user's schedulers on this machine
    /// share: `blox/token` in `$XDG_STATE_HOME`, or else in `~/.local/state`. `None` if both
    /// variables are missing.
    pub fn own_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let absolute = |name: &str| {
            let path = variable(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME");
        let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(state.join("blox").join("token"))
    }

    /// Reads the user's own token, and creates it if it is missing.
    ///
    /// # Errors
    /// The file cannot be created or read, or other users can read it.
    pub fn create_own(path: &Path) -> io::Result<Self> {
        if !path.exists() {
            let folder = path.parent().unwrap_or(Path::new("/"));
            private::folder(folder)?;
            // The file appears as a whole, and the first of two processes wins.
            let new = path.with_extension(format!("{}", std::process::id()));
            let mut options = private::options();
            options.write(true).create(true).truncate(true);
            options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
            let mut file = options.open(&new)?;
            writeln!(file, "{}", random()?)?;
            file.sync_all()?;
            let linked = fs::hard_link(&new, path);
            fs::remove_file(&new)?;
            match linked {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        Self::read(path)
    }

    /// Returns true if there is a secret.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Checks the header of an incoming request. Returns a label of metrics and the error.
    pub(super) fn check(&self, shown: Option<&HeaderValue>) -> Result<(), (&'static str, Status)> {
        let Some(secret) = &self.0 else {
            return Ok(());
        };
        let (label, what) = match shown {
            Some(shown) if same(shown.as_bytes(), secret.value.as_bytes()) => return Ok(()),
            Some(_) => ("wrong_token", "the token is not this scheduler's"),
            None => ("no_token", "this scheduler asks for a token"),
        };
        let text = format!("{what}: give --token-file, or be the user that started it");
        Err((label, Status::unauthenticated(text)))
    }

    /// Returns the owner of the secret's file.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.0.as_ref()?.owner
    }
}

/// Adds the secret to outgoing requests.
impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(secret) = &self.0 {
            request.metadata_mut().insert(HEADER, secret.value.clone());
        }
        Ok(request)
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    fn shown(to: &Token, by: &Token) -> Result<(), String> {
        let request = by.clone().call(Request::new(())).unwrap();
        let (metadata, _, ()) = request.into_parts();
        let answer = to.check(metadata.into_headers().get(HEADER));
        answer.map_err(|(_, status)| status.message().to_owned())
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

    #[test]
    fn own_token_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let home = |name: &str| (name == "XDG_STATE_HOME").then(|| state.clone().into());
        let path = Token::own_file(home).unwrap();
        assert_eq!(path, state.join("blox").join("token"));
        let (first, second) = (Token::create_own(&path), Token::create_own(&path));
        assert_eq!(shown(&first.unwrap(), &second.unwrap()), Ok(()));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let relative = |name: &str| (name == "HOME").then(|| "home".into());
        assert_eq!(Token::own_file(relative), None);
    }
}
