//! Tests that files, secrets and rights of a cluster hold against other users.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

#[path = "support/codes.rs"]
mod codes;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user without rights.
const NOBODY: u32 = 65_534;

/// A process that is killed at the end of the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that keeps its token in a folder.
fn blox(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
    command.env("XDG_STATE_HOME", home.join("state"));
    command.env_remove("BLOX_TOKEN_FILE").stdin(Stdio::null());
    command
}

/// Starts a process, and returns the first line of its standard error that starts as given.
fn started(command: &mut Command, begin: &str) -> (Daemon, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let daemon = Daemon(child);
    let mut all = String::new();
    loop {
        let from = all.len();
        assert!(err.read_line(&mut all).unwrap() > 0, "never {begin}: {all}");
        if let Some(rest) = all[from..].strip_prefix(begin) {
            let rest = rest.trim().to_owned();
            std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
            return (daemon, rest);
        }
    }
}

/// Runs a command to its end.
fn ended(command: &mut Command) -> Result<String, String> {
    let out = command.output().unwrap();
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(codes::without(&out.stderr)),
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns each file and folder below a folder.
fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        next += 1;
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            all.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    all
}

/// Starts a scheduler with a node in a folder, under a mask that hides nothing.
fn cluster(home: &Path) -> (Daemon, Daemon, String) {
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_blox");
        std::fs::write(home.join("inherited"), "").unwrap();
        let script = format!("umask 000; exec 9<inherited; exec {program} {line}");
        shell.args(["-c", &script]).current_dir(home);
        shell.env("XDG_STATE_HOME", home.join("state"));
        shell.env_remove("BLOX_TOKEN_FILE").stdin(Stdio::null());
        shell
    };
    let line = "scheduler fifo --on-event 0.05 --faster 5 --listen 127.0.0.1:0 \
        --state-dir scheduler --journal journal";
    let (scheduler, at) = started(&mut run(line), "listening on ");
    let line = format!("node --at {at} --gpus 1 --name n --state-dir node");
    let (node, _) = started(&mut run(&line), "node n");
    (scheduler, node, at)
}

#[test]
fn no_other_user_reads_a_file_of_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    std::fs::create_dir(home.join("node")).unwrap();
    let looser = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.join("node"), looser).unwrap();
    let (_scheduler, _node, at) = cluster(home);
    let submit = ["submit", "--at", &at, "--env", "KEY=secret", "--"];
    let files = "ls -l /proc/self/fd /proc/$PPID/fd | grep -c inherited >&2";
    let job = ["sh", "-c", &format!("{files}; echo secret; sleep 600")];
    ended(blox(home).args(submit).args(job)).unwrap();
    let log = || ended(blox(home).args(["logs", "--at", &at, "0"]));
    until("the job writes", || {
        log().is_ok_and(|text| text == "secret\n")
    });
    // An open file of the node manager reaches neither the job nor its shim.
    let err = ended(blox(home).args(["logs", "--err", "--at", &at, "0"]));
    assert_eq!(err.unwrap(), "0\n");
    for folder in ["scheduler", "node", "state/blox", "journal"] {
        for path in all_below(&home.join(folder)) {
            // The program of a job uses the umask of its node manager.
            let mode = std::fs::metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
        }
    }
    ended(blox(home).args(["cancel", "--at", &at, "0"])).unwrap();
}

#[test]
fn another_local_user_is_refused_on_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let (_scheduler, _node, at) = cluster(home);
    ended(blox(home).args(["nodes", "--at", &at])).unwrap();
    let other = tempfile::tempdir().unwrap();
    let message = ended(blox(other.path()).args(["nodes", "--at", &at])).unwrap_err();
    let expected = "error: this scheduler asks for a token: give --token-file, or be the user that started it\n";
    assert_eq!(message, expected);
}

#[test]
fn insecure_scheduler_accepts_without_token() {
    let dir = tempfile::tempdir().unwrap();
    let mut scheduler = blox(dir.path());
    let args = ["scheduler", "fifo", "--listen", "127.0.0.1:0", "--insecure"];
    scheduler.args(args).arg("--state-dir").arg(dir.path());
    let (_scheduler, at) = started(&mut scheduler, "listening on ");
    let other = tempfile::tempdir().unwrap();
    ended(blox(other.path()).args(["nodes", "--at", &at])).unwrap();
    assert!(!dir.path().join("state").exists());
}

#[test]
fn a_port_of_another_user_receives_no_token() {
    if rustix_user() != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    // The first start makes the token.
    drop(cluster(home));
    let script = "import socket,sys,time\ns=socket.socket()\ns.bind(('127.0.0.1',0))\ns.listen()\n\
        print(s.getsockname()[1],file=sys.stderr,flush=True)\nc=s.accept()[0]\n\
        c.settimeout(3)\nprint('received',len(c.recv(1)),file=sys.stderr,flush=True)";
    let mut thief = Command::new("python3");
    thief.args(["-c", script]).uid(NOBODY).gid(NOBODY);
    let Ok(mut child) = thief.stderr(Stdio::piped()).spawn() else {
        return;
    };
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let _thief = Daemon(child);
    let mut port = String::new();
    err.read_line(&mut port).unwrap();
    let at = format!("127.0.0.1:{}", port.trim());
    let message = ended(blox(home).args(["nodes", "--at", &at])).unwrap_err();
    let expected = format!(
        "error: the scheduler at {at} does not answer: user {NOBODY} serves this address, and \
         would receive the token\n"
    );
    assert_eq!(message, expected);
    let mut received = String::new();
    err.read_line(&mut received).unwrap();
    assert_eq!(received, "received 0\n");
}

fn rustix_user() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// A cluster with TLS, whose authority is in the folder `ca`.
struct Secure {
    dir: tempfile::TempDir,
    at: String,
    _scheduler: Daemon,
}

impl Secure {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let init = ["init", "ca", "--admin", "ada", "--host", "localhost"];
        let shown = ended(blox(home).args(init).current_dir(home)).unwrap();
        assert!(shown.contains("ca/admin.pem"), "{shown}");
        let mut scheduler = blox(home);
        let line = "scheduler fifo --on-event 0.05 --faster 5 --listen 127.0.0.1:0 \
            --state-dir scheduler --identity ca";
        scheduler.args(line.split_whitespace()).current_dir(home);
        let (scheduler, at) = started(&mut scheduler, "listening on ");
        Secure {
            dir,
            at,
            _scheduler: scheduler,
        }
    }

    /// Runs a command as a user, whose certificate is in the user's own folder.
    fn run(&self, user: &str, line: &str) -> Result<String, String> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let after = 1 + usize::from(words[0] == "token");
        words.splice(after..after, ["--at", &self.at]);
        let mut command = blox(&self.dir.path().join(user));
        if user == "ada" {
            command.env("BLOX_IDENTITY", self.dir.path().join("ca/admin.pem"));
        }
        ended(command.args(words).current_dir(self.dir.path()))
    }

    fn token(&self, role: &str, name: &str) -> String {
        let line = format!("token create --role {role} --name {name}");
        self.run("ada", &line).unwrap().trim().to_owned()
    }

    /// Writes a token to a private file, and returns its name.
    fn file(&self, token: &str) -> String {
        let path = self.dir.path().join("token");
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn login(&self, user: &str, token: &str) -> Result<String, String> {
        self.run(user, &format!("login {}", self.file(token)))
    }

    fn node(&self, token: &str, dir: &str, begin: &str) -> (Daemon, String) {
        let mut node = blox(self.dir.path());
        let line = format!(
            "node --at {} --gpus 1 --join {} --state-dir {dir}",
            self.at,
            self.file(token)
        );
        node.args(line.split_whitespace());
        started(node.current_dir(self.dir.path()), begin)
    }
}

#[test]
fn users_and_nodes_join_with_tokens() {
    let c = Secure::new();
    let who = c.run("ada", "whoami").unwrap();
    assert!(who.starts_with("ada is admin until 20"), "{who}");
    // Without a certificate, nothing but joining is possible.
    let none = c.run("bob", "queue").unwrap_err();
    assert!(none.contains("does not answer"), "{none}");
    let token = c.token("node", "n1");
    let (node, _) = c.node(&token, "n1", "node n1 with 1 GPU slots");
    let up = || {
        let nodes = c.run("ada", "nodes --json").unwrap();
        nodes.contains(r#""name":"n1""#) && nodes.contains(r#""status":"up""#)
    };
    until("the node is up", up);
    // A stolen copy of the token joins no second node.
    let (_, again) = c.node(&token, "n2", "error: ");
    assert!(
        again.starts_with("the token to join was used before"),
        "{again}"
    );
    drop(node);
    // The node has a certificate now, and the used token does not matter.
    let (_node, _) = c.node(&token, "n1", "node n1 with 1 GPU slots");
    let token = c.token("user", "bob");
    let shown = c.login("bob", &token).unwrap();
    assert!(shown.starts_with("bob is user at "), "{shown}");
    let again = c.login("eve", &token).unwrap_err();
    assert_eq!(again, "error: the token to join was used before\n");
    let job = c.run("bob", "submit --gpus 1 -- true").unwrap();
    let shown = c
        .run("bob", &format!("show {} --json", job.trim()))
        .unwrap();
    assert!(shown.contains(r#""user":"bob""#), "{shown}");
    // A user is known by the certificate, whatever the name on this machine.
    for (who, jobs) in [("bob", 1), ("ada", 0)] {
        let mine = c.run(who, "queue --all --me --json").unwrap();
        assert_eq!(mine.matches(r#""job":"#).count(), jobs, "{mine}");
    }
    let spoofed = c.run("bob", "submit --user ada -- true").unwrap_err();
    let expected = "error: user is `ada`, expected `bob`: only an operator submits for others\n";
    assert_eq!(spoofed, expected);
    let urgent = c.run("bob", "submit --priority 1000 -- true").unwrap_err();
    let expected = "error: priority is 1000, expected 0 or less: only an operator raises it\n";
    assert_eq!(urgent, expected);
    let denied = c.run("bob", "drain n1").unwrap_err();
    assert_eq!(
        denied,
        "error: bob is user, which has no right to Jobs/Drain\n"
    );
    let unknown = c.run("ada", "token revoke bobb").unwrap_err();
    let expected = "error: no certificate and no token of `bobb` is known, did you mean `bob`? Certificates of this name until now are refused all the same\n";
    assert_eq!(unknown, expected);
    c.run("bob", "whoami").unwrap();
    c.run("ada", "token revoke bob").unwrap();
    let revoked = c.run("bob", "queue").unwrap_err();
    assert_eq!(revoked, "error: the certificate is revoked\n");
    until("the node is still up", up);
    for folder in ["ca", "scheduler", "n1", "bob/state/blox"] {
        for path in all_below(&c.dir.path().join(folder)) {
            let mode = std::fs::metadata(&path).unwrap().mode();
            // Folders of launches let users pass.
            let spared = if path.is_dir() { 0o066 } else { 0o077 };
            assert_eq!(mode & spared, 0, "{} {mode:o}", path.display());
        }
    }
}

/// Arguments are visible to all users, and files that others can read are no secrets.
#[test]
fn tokens_and_keys_are_read_from_private_places() {
    let c = Secure::new();
    let token = c.token("user", "bob");
    let shown = c.run("bob", &format!("login {token}")).unwrap_err();
    assert_eq!(
        shown,
        "error: found a token, expected a file with it: other users see the arguments of a program; $BLOX_JOIN and standard input are private, too\n"
    );
    let file = c.file(&token);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let shown = c.run("bob", &format!("login {file}")).unwrap_err();
    let expected =
        format!("error: {file}: it has mode 644, so others may use it: expected mode 600\n");
    assert_eq!(shown, expected);
    let login = |user: &str, words: &[&str]| {
        let mut command = blox(&c.dir.path().join(user));
        command.args(["login", "--at", &c.at]).args(words);
        command
    };
    // The token still works, from standard input and from the environment.
    let input = std::fs::File::open(c.file(&token)).unwrap();
    ended(login("bob", &["-"]).stdin(input)).unwrap();
    ended(login("eve", &[]).env("BLOX_JOIN", c.token("viewer", "eve"))).unwrap();
    let key = all_below(&c.dir.path().join("bob/state/blox"));
    let key = key.iter().find(|path| path.extension().is_some()).unwrap();
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let shown = c.run("bob", "queue").unwrap_err();
    let key = key.display();
    let expected =
        format!("error: {key}: it has mode 640, so others may use it: expected mode 600\n");
    assert_eq!(shown, expected);
    let absent = "whoami --identity no.pem";
    let shown = c.run("bob", absent).unwrap_err();
    assert!(shown.starts_with("error: no.pem: No such file"), "{shown}");
    let mut node = blox(c.dir.path());
    let line = format!("node --at {} --gpus 1 --state-dir n2 --address a_b", c.at);
    let shown = ended(node.args(line.split_whitespace())).unwrap_err();
    assert!(
        shown.starts_with("error: --address is `a_b`, expected an IP address, or a host name"),
        "{shown}"
    );
}

/// A token in the environment of a node manager stays there.
#[test]
fn secrets_of_a_node_reach_no_shim_and_no_job() {
    let c = Secure::new();
    let home = c.dir.path();
    std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o711)).unwrap();
    let token = c.token("node", "n1");
    let mut node = blox(home);
    let line = format!("node --at {} --gpus 1 --state-dir n1", c.at);
    node.args(line.split_whitespace()).current_dir(home);
    node.env("BLOX_JOIN", &token).env("BLOX_TOKEN", &token);
    let (node, _) = started(&mut node, "node n1");
    c.login("nobody", &c.token("user", "nobody")).unwrap();
    c.run("nobody", "submit -- sleep 600").unwrap();
    until("the job runs", || {
        let shown = c.run("nobody", "show 0 --json").unwrap();
        shown.contains(r#""phase":"running""#)
    });
    let mut all = [Vec::new(), Vec::new()];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let home = home.display().to_string();
        let parts = [token.clone(), format!("BLOX_PROGRESS_FILE={home}")];
        for (found, part) in all.iter_mut().zip(parts) {
            if environ.contains(&part) {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    let [holders, ranks] = all;
    assert_eq!(holders, [node.0.id().to_string()]);
    assert!(!ranks.is_empty());
    c.run("nobody", "cancel 0").unwrap();
}

#[test]
fn jobs_on_a_node_of_root_run_as_their_users() {
    if rustix_user() != 0 {
        return;
    }
    let c = Secure::new();
    let home = c.dir.path();
    // As /home, in which users pass.
    std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o711)).unwrap();
    let (_node, _) = c.node(&c.token("node", "n1"), "n1", "node n1");
    for user in ["nobody", "bob"] {
        c.login(user, &c.token("user", user)).unwrap();
    }
    let script = home.join("script");
    let secrets = "cat ../../../identity.pem ../launch.json; ls ..";
    let text = format!(
        "id -un; id -u; echo $HOME $USER; echo 7 7 > $BLOX_PROGRESS_FILE; echo again >> /dev/stdout
        cd $(dirname $BLOX_PROGRESS_FILE); {secrets}; ls; grep NoNewPrivs /proc/self/status
        sleep 3\n"
    );
    std::fs::write(&script, text).unwrap();
    let line = format!("submit -- sh {}", script.display());
    let show = |user: &str, job: &str| c.run(user, &format!("show {} --json", job.trim())).unwrap();
    let job = c.run("nobody", &line).unwrap();
    let over = |text: &str| {
        text.contains(r#""phase":"completed""#) || text.contains(r#""phase":"failed""#)
    };
    until("the job of nobody ends", || over(&show("nobody", &job)));
    let logs = |user: &str, more: &str| c.run(user, &format!("logs {} {more}", job.trim()));
    let out = logs("nobody", "").unwrap();
    let nobody = "nobody\n65534\n/nonexistent nobody\nagain\nprogress\nNoNewPrivs:\t1\n";
    assert_eq!(
        out,
        nobody,
        "{:?}\n{}",
        logs("nobody", "--err"),
        show("nobody", &job)
    );
    let err = logs("nobody", "--err").unwrap();
    assert_eq!(err.matches("Permission denied").count(), 3, "{err}");
    let denied = logs("bob", "").unwrap_err();
    assert!(
        denied.contains("bob has rights to own jobs only"),
        "{denied}"
    );
    // There is no account of this name.
    let job = c.run("bob", "submit --max-retries 0 -- true").unwrap();
    until("the job of bob ends", || over(&show("bob", &job)));
    let shown = show("bob", &job);
    assert!(
        shown.contains("there is no user bob on this node"),
        "{shown}"
    );
}

#[test]
fn node_started_before_the_first_scheduler_joins() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap().to_string();
    drop(free);
    // The scheduler writes the user's own token at its first start, after the node has looked for it.
    let mut node = blox(dir.path());
    node.args(["node", "--name", "n", "--gpus", "1", "--at", &at]);
    node.arg("--state-dir").arg(dir.path().join("node"));
    let (_node, _) = started(&mut node, "the scheduler at");
    let mut scheduler = blox(dir.path());
    scheduler.args(["scheduler", "fifo", "--listen", &at, "--state-dir"]);
    let (_scheduler, _) = started(scheduler.arg(dir.path().join("log")), "listening on");
    until("the node joins", || {
        let nodes = ended(blox(dir.path()).args(["nodes", "--at", &at]));
        nodes.is_ok_and(|text| text.contains(" up "))
    });
}
