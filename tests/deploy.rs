//! Walks the page about deployment on two network namespaces, and checks its units.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src")
}

fn page() -> String {
    std::fs::read_to_string(docs().join("how-to/deploy.md")).unwrap()
}

/// Runs a program, and returns whether it succeeded.
fn works(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    let command = command.args(&words[1..]).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Two network namespaces with a cable between them.
struct Network {
    names: [String; 2],
    daemons: Vec<Child>,
}

impl Network {
    /// Returns `None` if this user may not create any.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let names = ["head", "node1"].map(|name| format!("blox-{name}-{id}"));
        let network = Network {
            names,
            daemons: Vec::new(),
        };
        let [head, node] = &network.names;
        let ends = [format!("bloxa{id}"), format!("bloxb{id}")];
        let made = works(&["ip", "netns", "add", head])
            && works(&["ip", "netns", "add", node])
            && works(&[
                "ip", "link", "add", &ends[0], "netns", head, "type", "veth", "peer", "name",
                &ends[1], "netns", node,
            ]);
        let addresses = ["10.77.0.1/24", "10.77.0.2/24"];
        let up = |i: usize| {
            let (name, end) = (&network.names[i], &ends[i]);
            works(&["ip", "-n", name, "link", "set", "lo", "up"])
                && works(&["ip", "-n", name, "addr", "add", addresses[i], "dev", end])
                && works(&["ip", "-n", name, "link", "set", end, "up"])
        };
        (made && up(0) && up(1)).then_some(network)
    }

    /// Returns a shell on a machine of the page.
    fn shell(&self, host: &str, line: &str, dir: &Path) -> Command {
        let name = &self.names[usize::from(host != "head")];
        let mut command = Command::new("ip");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["netns", "exec", name, "sh", "-c", line])
            .env("PATH", format!("{}:{path}", dir.join("bin").display()))
            .env_remove("BLOX_TOKEN_FILE")
            .current_dir(dir)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in &self.names {
            works(&["ip", "netns", "del", name]);
        }
    }
}

#[test]
fn page_leads_to_a_job_on_two_nodes() {
    let Some(mut network) = Network::new() else {
        eprintln!("skipped: this user may not create network namespaces");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // The folders of the page are below a temporary one for each machine.
    let here = |host: &str, text: &str| {
        let root = dir.path().join(host);
        text.replace("/etc/blox", &format!("{}/etc", root.display()))
            .replace("/var/lib/blox", &format!("{}/var", root.display()))
    };
    std::fs::create_dir_all(dir.path().join("bin")).unwrap();
    let program = env!("CARGO_BIN_EXE_blox");
    std::os::unix::fs::symlink(program, dir.path().join("bin/blox")).unwrap();
    let config = std::fs::read_to_string(docs().join("deploy/blox.toml")).unwrap();
    let config = config.replace("127.0.0.1:9170", "127.0.0.1:0");
    let faster = config.replace("round = 30", "round = 0.5\nfaster = 5");
    for host in ["head", "node1"] {
        let etc = dir.path().join(host).join("etc");
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::write(etc.join("blox.toml"), here(host, &faster)).unwrap();
    }
    let page = page();
    let (mut script, mut started) = (String::new(), 0);
    for line in page.lines() {
        if line.starts_with("mkdir ") || line.starts_with("(umask") {
            let line = here("head", line);
            let status = network.shell("head", &line, dir.path()).status();
            assert!(status.unwrap().success(), "{line}");
            let token = dir.path().join("head/etc/token");
            // The page copies it to each machine.
            let _ = std::fs::copy(token, dir.path().join("node1/etc/token"));
        }
        let Some((host, line)) = line.split_once("$ ") else {
            continue;
        };
        match line.strip_suffix(" &") {
            _ if line.contains("systemctl") => {}
            Some(line) => {
                let mut daemon =
                    network.shell(host, &format!("exec {}", here(host, line)), dir.path());
                let log = std::fs::File::create(dir.path().join(format!("log-{started}")));
                network
                    .daemons
                    .push(daemon.stderr(log.unwrap()).spawn().unwrap());
                started += 1;
                if line.contains("scheduler") {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            None => script += &format!("{}\n", here(host, line)),
        }
    }
    assert_eq!(started, 3);
    let begin = Instant::now();
    let (export, _) = script.split_once('\n').unwrap();
    let nodes = format!("{export}\nblox nodes --at 10.77.0.1:7070");
    loop {
        let out = network.shell("head", &nodes, dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if text.matches(" up ").count() == 2 {
            break;
        }
        let logs = (0..3).map(|i| std::fs::read_to_string(dir.path().join(format!("log-{i}"))));
        let logs: Vec<String> = logs.map(Result::unwrap_or_default).collect();
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{text}\n{logs:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let out = network.shell("head", &script, dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let why = String::from_utf8_lossy(&out.stderr);
    let rank = "rank 0 of 4 at 10.77.0.";
    assert!(text.lines().any(|l| l.starts_with(rank)), "{text}\n{why}");
}

#[test]
fn units_are_valid_for_systemd() {
    for unit in ["blox-scheduler.service", "blox-node.service"] {
        let text = std::fs::read_to_string(docs().join("deploy").join(unit)).unwrap();
        assert!(text.contains("Restart=always") && text.contains("LimitNOFILE="));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(unit);
        let text = text.replace("/usr/local/bin/blox", env!("CARGO_BIN_EXE_blox"));
        std::fs::write(&path, text).unwrap();
        let out = Command::new("systemd-analyze")
            .arg("verify")
            .arg(&path)
            .output();
        let Ok(out) = out else {
            eprintln!("skipped: there is no systemd-analyze");
            return;
        };
        let why = String::from_utf8_lossy(&out.stderr);
        assert!(!why.contains(unit), "{why}");
    }
}

#[test]
fn ready_services_report_to_systemd() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut scheduler = Command::new(env!("CARGO_BIN_EXE_blox"))
        .args([
            "scheduler",
            "fifo",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
        ])
        .arg(dir.path().join("state"))
        .env("NOTIFY_SOCKET", &path)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = [0; 16];
    let read = socket.recv(&mut text);
    scheduler.kill().unwrap();
    scheduler.wait().unwrap();
    assert_eq!(&text[..read.unwrap()], b"READY=1");
}
