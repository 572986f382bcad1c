//! Slurm's programs, called as an ordinary user.

use crate::error::SlurmError;
use crate::job::JobInfo;
use crate::node::NodeInfo;
use crate::order::Order;
use crate::read::reported;
use crate::tracker::Snapshot;
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Slurm that shows its jobs and takes orders.
///
/// ```
/// use blox_slurm::{Order, Slurm, SlurmError, Snapshot};
///
/// /// A Slurm without jobs and nodes.
/// struct Empty;
///
/// impl Slurm for Empty {
///     fn look(&mut self) -> Result<Snapshot, SlurmError> {
///         Ok(Snapshot::default())
///     }
///
///     fn order(&mut self, _: &Order) -> Result<(), SlurmError> {
///         Ok(())
///     }
/// }
///
/// assert!(Empty.look().is_ok_and(|seen| seen.jobs.is_empty()));
/// ```
pub trait Slurm {
    /// Returns the present jobs and nodes.
    ///
    /// # Errors
    /// Slurm does not answer.
    fn look(&mut self) -> Result<Snapshot, SlurmError>;

    /// Carries out an order.
    ///
    /// # Errors
    /// Slurm refuses it, or does not answer.
    fn order(&mut self, order: &Order) -> Result<(), SlurmError>;
}

/// The Slurm that `squeue`, `sinfo`, `scontrol` and `scancel` in the search path belong to.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Seconds within which each program must end.
    pub limit_s: u64,
    /// Configuration file of the Slurm; `None` for the file that the environment names.
    pub conf: Option<PathBuf>,
}

impl Default for Programs {
    fn default() -> Self {
        Programs {
            limit_s: 20,
            conf: None,
        }
    }
}

impl Programs {
    /// Runs a program, and returns its output.
    ///
    /// # Errors
    /// The program is absent, fails, or does not end in time.
    pub fn run(&self, program: &'static str, args: &[String]) -> Result<Vec<u8>, SlurmError> {
        self.run_with(program, args, &[])
    }

    /// Runs a program with additional variables of the environment.
    pub(crate) fn run_with(
        &self,
        program: &'static str,
        args: &[String],
        env: &[(String, String)],
    ) -> Result<Vec<u8>, SlurmError> {
        let start = |error| SlurmError::Start { program, error };
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.envs(env.iter().map(|(name, value)| (name, value)));
        // Lists of the tasks of an array are otherwise cut short.
        command.env("SLURM_BITSTR_LEN", "0");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(conf) = &self.conf {
            command.env("SLURM_CONF", conf);
        }
        let mut child = command.spawn().map_err(start)?;
        let reader = |from: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                // What was read before an error is still shown.
                let _ = from.map(|mut from| from.read_to_end(&mut all));
                all
            })
        };
        let out = reader(child.stdout.take().map(|out| Box::new(out) as _));
        let err = reader(child.stderr.take().map(|err| Box::new(err) as _));
        let ended = wait(&mut child, Duration::from_secs(self.limit_s)).map_err(start)?;
        let Some(succeeded) = ended else {
            let seconds = self.limit_s;
            return Err(SlurmError::Late { program, seconds });
        };
        let (out, err) = (
            out.join().unwrap_or_default(),
            err.join().unwrap_or_default(),
        );
        match succeeded {
            true => Ok(out),
            false => Err(SlurmError::Failed {
                program,
                message: message(&err, &out),
            }),
        }
    }

    /// Returns the state of a job, such as `RUNNING`, and its reason to wait; `None` if Slurm has
    /// forgotten the job.
    ///
    /// # Errors
    /// See [`Programs::run`].
    pub fn state(&self, job: u32) -> Result<Option<(String, String)>, SlurmError> {
        let job = job.to_string();
        let args = ["-h", "--states=all", "-o", "%T %r", "-j", &job];
        let out = match self.run("squeue", &args.map(str::to_owned)) {
            Ok(out) => out,
            Err(SlurmError::Failed { message, .. }) if message.contains("Invalid job id") => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&out);
        let words = text.lines().next().and_then(|line| line.split_once(' '));
        Ok(words.map(|(state, reason)| (state.to_owned(), reason.trim().to_owned())))
    }

    /// Runs a program, and reads its output as JSON.
    ///
    /// # Errors
    /// See [`Programs::run`]. The output may also be no JSON.
    pub fn json(&self, program: &'static str, args: &[&str]) -> Result<Value, SlurmError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let out = self.run(program, &args)?;
        let value: Value = serde_json::from_slice(&out).map_err(|error| SlurmError::Output {
            program,
            found: error.to_string(),
            expected: "JSON, as Slurm 21.08 and later write it",
        })?;
        match reported(&value) {
            Some(message) => Err(SlurmError::Failed { program, message }),
            None => Ok(value),
        }
    }
}

impl Slurm for Programs {
    fn look(&mut self) -> Result<Snapshot, SlurmError> {
        let jobs = self.json("squeue", &["--json", "--states=all"])?;
        let nodes = self.json("sinfo", &["--json"])?;
        Ok(Snapshot {
            jobs: JobInfo::list(&jobs)?,
            nodes: NodeInfo::list(&nodes)?,
        })
    }

    fn order(&mut self, order: &Order) -> Result<(), SlurmError> {
        for (program, args) in order.commands() {
            self.run(program, &args)?;
        }
        Ok(())
    }
}

/// States of a job that has not ended, as `squeue` writes them.
const ACTIVE: [&str; 9] = [
    "PENDING",
    "RUNNING",
    "CONFIGURING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "REQUEUE_HOLD",
    "STAGE_OUT",
    "SIGNALING",
];

/// Returns whether a job in a state, such as `RUNNING`, has not ended.
pub fn is_active(state: &str) -> bool {
    ACTIVE.contains(&state)
}

/// Waits for the end of a process, which is killed after a limit. Returns whether it succeeded.
#[allow(
    clippy::disallowed_methods,
    reason = "limit of a process, never for a decision"
)]
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<bool>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the messages of a program in one line, without its name.
fn message(err: &[u8], out: &[u8]) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    let text = match text(err) {
        err if err.is_empty() => text(out),
        err => err,
    };
    let lines = text.lines().map(|line| {
        let line = line.trim();
        let after = line
            .split_once(": error: ")
            .map_or(line, |(_, after)| after);
        after.trim_end_matches('.')
    });
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => "failed without a message".to_owned(),
        false => lines.join("; "),
    }
}
