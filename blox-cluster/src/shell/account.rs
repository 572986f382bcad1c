//! Accounts of the operating system, under which jobs run on a node of root.

use nix::unistd::{Gid, Uid, User, getgrouplist, setgid, setgroups, setuid};
use rustix::process::Signal;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// This program, also after it was replaced on disk.
const SELF: &str = "/proc/self/exe";

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: PathBuf,
    shell: PathBuf,
}

impl Account {
    /// Returns the account of a user of this machine.
    ///
    /// # Errors
    /// There is no such user, or it is root.
    pub fn of(name: &str) -> Result<Self, String> {
        let failed = |e: nix::Error| format!("user {name} cannot be looked up on this node: {e}");
        let none = || format!("there is no user {name} on this node");
        let user = User::from_name(name).map_err(failed)?.ok_or_else(none)?;
        if user.uid.is_root() {
            return Err(format!("user {name} is root, which may not run jobs"));
        }
        let c_name = CString::new(name).map_err(|_| none())?;
        let groups = getgrouplist(&c_name, user.gid).map_err(failed)?;
        Ok(Account {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            home: user.dir,
            shell: user.shell,
        })
    }

    /// Returns the variables of a session of the user.
    pub fn environment(&self) -> [(String, String); 4] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            ("HOME", text(&self.home)),
            ("USER", self.name.clone()),
            ("LOGNAME", self.name.clone()),
            ("SHELL", text(&self.shell)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
    }

    /// Gives a file or folder to the user.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }

    fn text(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        format!("{}:{}:{}", self.uid, self.gid, groups.join(","))
    }

    /// Returns program and first arguments of a process that takes this account and becomes another
    /// program; see [`become_program`].
    pub fn starter(&self) -> [String; 3] {
        [SELF.to_owned(), "rank".to_owned(), self.text()]
    }
}

/// Takes an account, and becomes a program. Returns only after an error.
pub fn become_program(account: &str, command: &[OsString]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("a rank needs a program");
    };
    if let Err(error) = enter(account) {
        return error;
    }
    let error = Command::new(program).args(arguments).exec();
    let text = format!("`{}` cannot be started: {error}", program.display());
    io::Error::new(error.kind(), text)
}

/// Gives this process, which must have one thread, an account for good. Its programs get no other
/// rights by set-user-ID bits, and it still ends with its parent.
fn enter(text: &str) -> io::Result<()> {
    let invalid = || io::Error::other("the account of the rank is invalid");
    let (uid, gid, groups) = parsed(text).ok_or_else(invalid)?;
    let parent = rustix::process::getppid();
    rustix::thread::set_no_new_privs(true)?;
    setgroups(&groups)?;
    setgid(gid)?;
    setuid(uid)?;
    // The change of the user has reset it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != parent {
        return Err(io::Error::other("the shim of this rank has ended"));
    }
    // The working directory was entered as root.
    let here = rustix::fs::access(".", rustix::fs::Access::EXEC_OK);
    here.map_err(|e| {
        let text = format!("the user of the job cannot use the working directory: {e}");
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    })
}

fn parsed(text: &str) -> Option<(Uid, Gid, Vec<Gid>)> {
    let mut parts = text.split(':');
    let (uid, gid, groups) = (parts.next()?, parts.next()?, parts.next()?);
    let uid = Uid::from_raw(uid.parse().ok()?);
    let gid = Gid::from_raw(gid.parse().ok()?);
    let groups = groups.split(',').map(|g| g.parse().ok().map(Gid::from_raw));
    let groups = groups.collect::<Option<Vec<Gid>>>()?;
    (!uid.is_root()).then_some((uid, gid, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_unknown_users_run_no_jobs() {
        let root = Account::of("root").unwrap_err();
        assert_eq!(root, "user root is root, which may not run jobs");
        let unknown = Account::of("no-such-user").unwrap_err();
        assert_eq!(unknown, "there is no user no-such-user on this node");
    }

    #[test]
    fn account_round_trips_as_text() {
        let nobody = Account::of("nobody").unwrap();
        let (uid, gid, groups) = parsed(&nobody.text()).unwrap();
        let raw: Vec<u32> = groups.into_iter().map(Gid::as_raw).collect();
        assert_eq!((uid.as_raw(), gid.as_raw()), (nobody.uid, nobody.gid));
        assert_eq!(raw, nobody.groups);
        assert_eq!(nobody.environment()[1].1, "nobody");
        for wrong in ["", "0:0:0", "1:1", "a:b:c"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
