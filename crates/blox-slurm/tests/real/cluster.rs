//! A Slurm of this machine: its daemons on loopback, with nodes and GPUs that are not there.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Programs that a Slurm needs.
const PROGRAMS: [&str; 7] = [
    "munged",
    "slurmctld",
    "slurmd",
    "squeue",
    "sinfo",
    "scontrol",
    "sbatch",
];

/// GPUs of each node.
pub const GPUS: u32 = 4;

/// A running Slurm, which ends with this value.
pub struct Cluster {
    dir: tempfile::TempDir,
    nodes: u32,
}

/// Returns what is missing for a Slurm; `None` if nothing is.
fn missing() -> Option<String> {
    let found = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(more)
            .any(|dir| dir.join(name).is_file())
    };
    if let Some(name) = PROGRAMS.iter().find(|name| !found(name)) {
        return Some(format!("no program {name}"));
    }
    let id = Command::new("id").arg("-u").output().ok()?;
    (id.stdout != b"0\n").then(|| "not root, which device files of GPUs need".to_owned())
}

impl Cluster {
    /// Starts a Slurm of `nodes` nodes of four GPUs. Prints why and returns `None` where it cannot
    /// run.
    pub fn start(nodes: u32) -> Option<Self> {
        if let Some(why) = missing() {
            eprintln!("skipped: {why}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster { dir, nodes };
        cluster.write();
        cluster.begin();
        Some(cluster)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file, for `SLURM_CONF`.
    pub fn conf(&self) -> PathBuf {
        self.dir().join("slurm.conf")
    }

    fn write(&self) {
        let d = self.dir().display();
        for folder in [
            "state",
            "spool",
            "log",
            "dev",
            "munge/log",
            "munge/lib",
            "munge/run",
        ] {
            fs::create_dir_all(self.dir().join(folder)).unwrap();
        }
        run(
            "chmod",
            &[
                "755",
                &d.to_string(),
                &format!("{d}/munge"),
                &format!("{d}/munge/run"),
            ],
        );
        run(
            "chmod",
            &["700", &format!("{d}/munge/log"), &format!("{d}/munge/lib")],
        );
        for gpu in 0..GPUS {
            run("mknod", &[&format!("{d}/dev/nvidia{gpu}"), "c", "1", "3"]);
        }
        fs::write(self.dir().join("munge.key"), [7; 128]).unwrap();
        run("chmod", &["600", &format!("{d}/munge.key")]);
        // The ports are free now; no other test takes them in the next second.
        let ports: Vec<u16> = free_ports(self.nodes as usize + 1);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let mut conf = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
             AuthType=auth/munge\nAuthInfo=socket={d}/munge/run/munge.sock\nCredType=cred/munge\n\
             SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={d}/state\n\
             SlurmdSpoolDir={d}/spool/%n\nSlurmctldPidFile={d}/ctld.pid\n\
             SlurmdPidFile={d}/slurmd-%n.pid\nSlurmctldLogFile={d}/log/ctld.log\n\
             SlurmdLogFile={d}/log/slurmd-%n.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             GresTypes=gpu\nReturnToService=2\nMinJobAge=7200\nKillWait=5\nSlurmdTimeout=10\n\
             SchedulerType=sched/builtin\n\
             SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer\n\
             PriorityType=priority/basic\nPreemptType=preempt/none\nJobRequeue=1\nMpiDefault=none\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             SlurmdParameters=config_overrides\n",
            ports[0]
        );
        for node in 1..=self.nodes {
            fs::create_dir_all(self.dir().join(format!("spool/n{node}"))).unwrap();
            conf.push_str(&format!(
                "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=8 Sockets=1 \
                 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:{GPUS} State=UNKNOWN\n",
                ports[node as usize]
            ));
        }
        conf.push_str(&format!(
            "PartitionName=main Nodes=n[1-{}] Default=YES MaxTime=INFINITE State=UP\n",
            self.nodes
        ));
        fs::write(self.conf(), conf).unwrap();
        let gres = format!(
            "NodeName=n[1-{}] Name=gpu File={d}/dev/nvidia[0-{}]\n",
            self.nodes,
            GPUS - 1
        );
        fs::write(self.dir().join("gres.conf"), gres).unwrap();
    }

    fn begin(&self) {
        let d = self.dir().display();
        run(
            "munged",
            &[
                "--force",
                &format!("--key-file={d}/munge.key"),
                &format!("--socket={d}/munge/run/munge.sock"),
                &format!("--pid-file={d}/munge/run/munged.pid"),
                &format!("--log-file={d}/munge/log/munged.log"),
                &format!("--seed-file={d}/munge/lib/seed"),
                "--num-threads=2",
            ],
        );
        self.start_controller();
        for node in 1..=self.nodes {
            self.start_node(node);
        }
        let all = format!("idle {}", self.nodes);
        self.until("all nodes are idle", || {
            self.ask("sinfo", &["-h", "-o", "%T %D"]).trim() == all
        });
    }

    pub fn start_controller(&self) {
        self.daemon("slurmctld", &["-f", &self.conf().display().to_string()]);
    }

    pub fn start_node(&self, node: u32) {
        let conf = self.conf().display().to_string();
        self.daemon("slurmd", &["-f", &conf, "-N", &format!("n{node}")]);
    }

    /// Kills the process of a pid file, such as `ctld` or `slurmd-n1`.
    pub fn kill(&self, name: &str) {
        self.signal(name, "-9");
    }

    /// Stops the controller, which saves its state first.
    pub fn stop_controller(&self) {
        self.signal("ctld", "-15");
        self.until("the controller ends", || {
            !self.dir().join("ctld.pid").exists()
        });
    }

    fn signal(&self, name: &str, signal: &str) {
        if let Ok(pid) = fs::read_to_string(self.dir().join(format!("{name}.pid"))) {
            let _ = Command::new("kill").args([signal, pid.trim()]).output();
        }
    }

    fn daemon(&self, program: &str, args: &[&str]) {
        let mut command = self.command(program);
        let status = command.args(args).stdout(Stdio::null()).status();
        assert!(status.unwrap().success(), "{program}");
    }

    /// Returns a command of this Slurm.
    pub fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .env("SLURM_CONF", self.conf())
            .env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.current_dir(self.dir()).stdin(Stdio::null());
        command
    }

    /// Runs a command of this Slurm, and returns its output.
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Submits a held job, and returns its number.
    pub fn submit(&self, gpus: u32, comment: &str, script: &str) -> u32 {
        let args = [
            "-H",
            "--parsable",
            "--requeue",
            "--open-mode=append",
            &format!("--gpus={gpus}"),
            &format!("--comment={comment}"),
            "--wrap",
            script,
        ];
        let number = self.ask("sbatch", &args);
        number
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("sbatch: {number}"))
    }

    /// Returns the state of a job, such as `RUNNING`; empty if it is gone.
    pub fn state(&self, job: u32) -> String {
        let args = ["-h", "--states=all", "-o", "%T", "-j", &job.to_string()];
        self.ask("squeue", &args).trim().to_owned()
    }

    /// Waits until something holds, at most 40 s.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            if start.elapsed() > Duration::from_secs(40) {
                let queue = self.ask("squeue", &["--states=all", "-o", "%i %T %r %N"]);
                panic!("not in time: {what}\n{queue}\n{}", self.ask("sinfo", &[]));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command("scancel").args(["--user=root"]).output();
        for node in 1..=self.nodes {
            self.kill(&format!("slurmd-n{node}"));
        }
        self.kill("ctld");
        self.kill("munge/run/munged");
    }
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program)
        .args(args)
        .env("PATH", path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {error}");
    output
}

fn path() -> String {
    format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    )
}

fn free_ports(count: usize) -> Vec<u16> {
    let all: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    all.iter().map(|l| l.local_addr().unwrap().port()).collect()
}
