//! What can be said to the commands of a real cluster.

use crate::args::{Options, SimulateArgs};
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args, Subcommand};
use std::path::PathBuf;

/// Where the scheduler is.
#[derive(Args)]
pub(crate) struct At {
    /// The scheduler's address
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    pub at: String,
    /// A file with the secret that the scheduler asks for [default: $BLOX_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Options of `simulate` that say how is decided; the others say what is simulated.
macro_rules! that_decide {
    ($($option:ident)*) => {
        /// Returns whether an option, by its long name, says how is decided.
        pub(crate) fn decides(key: &str) -> bool {
            [$(stringify!($option)),*].contains(&&*key.replace('-', "_"))
        }

        /// Only what says how is decided.
        pub(crate) fn deciding(all: Options) -> Options {
            Options { $($option: all.$option,)* ..Options::default() }
        }
    };
}
that_decide!(seed admission placement cluster_manager round on_event);

fn hide_simulation(arg: Arg) -> Arg {
    let own = arg.get_help_heading().is_none_or(|h| h == "Cluster");
    match arg.get_long() {
        Some("journal") => arg.help_heading("Cluster"),
        Some(key) if !own && decides(key) => arg.help_heading("Policies"),
        _ => arg.hide(!own),
    }
}

#[derive(Args)]
pub(crate) struct SchedulerArgs {
    #[command(flatten)]
    pub simulate: SimulateArgs,
    /// Where its log is kept
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub state_dir: PathBuf,
    /// Address and port for nodes and users; not encrypted. Other than a loopback address it
    /// takes --token-file
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7070",
        help_heading = "Cluster"
    )]
    pub listen: String,
    /// A file with a secret that nodes and users have to show [default: $BLOX_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub token_file: Option<PathBuf>,
    /// Let everybody who reaches the address run programs
    #[arg(long, help_heading = "Cluster")]
    pub insecure: bool,
    /// Serve numbers for Prometheus at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Cluster")]
    pub metrics: Option<String>,
    /// Compact the log when it has grown by this
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = 65_536,
        help_heading = "Cluster"
    )]
    pub log_kib: u64,
    /// Nodes that must have come before the first decision: jobs that ask for more GPUs than
    /// there are then are rejected
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Cluster")]
    pub wait_for_nodes: usize,
    /// Seconds after which a policy that gives no answer loses its turn
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        help_heading = "Cluster"
    )]
    pub policy_limit: u64,
    /// Divide all timers of the protocol by this, for tests on one machine
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Cluster")]
    pub faster: u64,
}

#[derive(Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub at: At,
    /// Its own directory
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// GPU slots [default: what NVIDIA's driver says]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// Their type [default: what NVIDIA's driver says]
    #[arg(long, value_name = "TYPE")]
    pub gpu_type: Option<String>,
    /// Its name, without blanks and commas, and no number [default: the host's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where other nodes reach it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    /// Room for the logs of a launch here: its ranks' outputs and errors have equal shares, and
    /// what is more is dropped
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    pub launch_logs_mib: u64,
    /// Room for the logs of launches that have ended; the oldest are removed
    #[arg(long, value_name = "MIB", default_value_t = 10_240)]
    pub ended_logs_mib: u64,
    /// Divide all timers of the protocol by this, as the scheduler does
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub faster: u64,
}

#[derive(Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub at: At,
    /// GPUs, all of which start together
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub gpus: u32,
    /// The job's name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Who submits it [default: $USER]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// The virtual cluster: any name, by which policies such as quotas count
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// More urgent jobs have larger numbers
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub priority: i32,
    /// How long it runs on these GPUs, as far as you know
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0)]
    pub duration: f64,
    /// Iterations in that time, as it writes them to its progress file [default: one a second]
    #[arg(long, value_name = "N")]
    pub iterations: Option<f64>,
    /// From SIGTERM to the end when it is preempted [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub grace: Option<f64>,
    /// How often it may fail and is tried again [default: 3]
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// What an exit code means: retry, fail, complete, or requeue (try again and count nothing);
    /// with 0=complete exit code 0 after a stop completes the job
    #[arg(long, value_name = "CODE=MEANING")]
    pub on_exit: Vec<String>,
    /// Seconds in which it should be done
    #[arg(long, value_name = "SECONDS")]
    pub deadline: Option<f64>,
    /// GPU counts at which an elastic job may run, ascending
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    pub levels: Vec<u32>,
    /// How fast it is at each of --levels, relative to --duration's speed of 1
    #[arg(
        long,
        value_name = "X,X,..",
        value_delimiter = ',',
        requires = "levels"
    )]
    pub rates: Vec<f64>,
    /// What it trains, as profiles call it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Samples in a step
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u32>,
    /// A file in JSON by which a job that trains can be given other GPUs and batches: initial_batch, max_batch,
    /// restart (seconds), and by type of GPU per_gpu (least and most samples of a pass), one_gpu_rate
    /// (samples a second) and stages
    #[arg(long, value_name = "FILE")]
    pub training: Option<PathBuf>,
    /// Anything else that a policy wants to know
    #[arg(long, value_name = "NAME=JSON")]
    pub attribute: Vec<String>,
    /// A variable for its environment
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The same key again is the same job [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How long to try while the scheduler does not answer, or has no room on its disk
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub patience: f64,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; no shell
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub at: At,
    /// The job's number
    pub job: u32,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub at: At,
    /// Jobs that have ended as well
    #[arg(long)]
    pub all: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    pub at: At,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub at: At,
    /// The node's name or number
    pub node: String,
    /// Why
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "drained",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub why: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub at: At,
    /// The node's name or number
    pub node: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub at: At,
    /// The job's number
    pub job: u32,
    /// Go on until the job has ended, from launch to launch
    #[arg(long, short)]
    pub follow: bool,
    /// Whose
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub rank: u32,
    /// Of this launch [default: the last]
    #[arg(long, value_name = "N")]
    pub launch: Option<u32>,
    /// What it wrote to standard error
    #[arg(long)]
    pub err: bool,
    /// Print each part as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands of a real cluster.
#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// Run the scheduler of a real cluster
    #[command(
        mut_args(hide_simulation),
        after_help = "A --config file has the keys of `blox simulate`; what does not say how is decided is ignored.

Examples:
  blox scheduler --scheduler las --round 30 --state-dir /var/lib/blox"
    )]
    Scheduler(Box<SchedulerArgs>),
    /// Run the node manager of one machine of a real cluster
    #[command(after_help = "Examples:
  blox node --gpus 8 --state-dir node-state
  blox node --at scheduler.example:7070 --state-dir /var/lib/blox/node")]
    Node(NodeArgs),
    /// Submit a job to a real cluster
    #[command(
        visible_alias = "sbatch",
        after_help = "Examples:
  blox submit --gpus 4 -- python train.py --epochs 10"
    )]
    Submit(Box<SubmitArgs>),
    /// List the jobs of a real cluster
    #[command(
        visible_alias = "squeue",
        after_help = "Examples:
  blox queue
  blox queue --all --json"
    )]
    Queue(QueueArgs),
    /// End a job
    #[command(
        visible_alias = "scancel",
        after_help = "Its processes get SIGTERM, and 5 s to end.

Examples:
  blox cancel 17"
    )]
    Cancel(JobArgs),
    /// Hold a waiting job back
    #[command(after_help = "Examples:
  blox hold 17")]
    Hold(JobArgs),
    /// Let a held job go on
    #[command(after_help = "Examples:
  blox release 17")]
    Release(JobArgs),
    /// Have a running job save its work and wait again
    #[command(after_help = "Examples:
  blox requeue 17")]
    Requeue(JobArgs),
    /// List the nodes of a real cluster
    #[command(
        visible_alias = "sinfo",
        after_help = "Examples:
  blox nodes
  blox nodes --json"
    )]
    Nodes(NodesArgs),
    /// Place nothing new on a node
    #[command(
        visible_alias = "cordon",
        after_help = "Examples:
  blox drain node-3 --why 'a fan is broken'"
    )]
    Drain(DrainArgs),
    /// Use a drained node again
    #[command(
        visible_alias = "uncordon",
        after_help = "Examples:
  blox resume node-3"
    )]
    Resume(ResumeArgs),
    /// Have a node leave for good that is lost, or drained and empty
    #[command(
        after_help = "Its number and its GPUs go, and its manager is turned away: with a new --state-dir the machine
joins again as another node.

Examples:
  blox remove node-3"
    )]
    Remove(ResumeArgs),
    /// Say why a job is where it is
    #[command(after_help = "Examples:
  blox why 17")]
    Why(JobArgs),
    /// Show a job and the accounts of its launches
    #[command(
        visible_alias = "describe",
        after_help = "Examples:
  blox show 17 --json"
    )]
    Show(JobArgs),
    /// Print what a rank wrote
    #[command(after_help = "Examples:
  blox logs 17
  blox logs -f 17 --rank 2 --err")]
    Logs(LogsArgs),
    /// Show a cluster of four small nodes on this machine at work, and leave nothing behind
    #[command(after_help = "Examples:
  blox demo")]
    Demo,
    /// Run the processes of one launch (node managers call this)
    #[command(hide = true)]
    Shim {
        /// The launch's folder
        dir: PathBuf,
    },
}
