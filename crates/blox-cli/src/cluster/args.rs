//! Arguments of the commands of a real cluster.

use crate::args::{SimulateArgs, decides};
use crate::help::Late;
use crate::value::{above_zero, not_negative, seconds, seconds_above_zero};
use blox_core::{Class, Curve, Share};
use blox_experiment::value::{Duration, Expected, parser};
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args, Subcommand, ValueEnum};
use serde_json::Value;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Returns the address of the scheduler without --at.
fn usual_address() -> &'static str {
    static ADDRESS: LazyLock<String> = LazyLock::new(|| address_in(std::env::var("BLOX_AT").ok()));
    &ADDRESS
}

/// Returns the address that an environment variable states, or the default of the scheduler.
fn address_in(variable: Option<String>) -> String {
    let stated = variable.filter(|address| !address.is_empty());
    stated.unwrap_or_else(|| "127.0.0.1:7070".to_owned())
}

/// Address of the scheduler.
#[derive(Args)]
pub(crate) struct At {
    /// Address of the scheduler [default: $BLOX_AT, or 127.0.0.1:7070]
    #[arg(long, value_name = "HOST:PORT", default_value = usual_address(), hide_default_value = true)]
    pub at: String,
    /// File with the secret that the scheduler requires [default: $BLOX_TOKEN_FILE, or your own
    /// token for your scheduler on this machine]
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    pub token_file: Option<PathBuf>,
    /// File with your key and certificate for TLS [default: $BLOX_IDENTITY, or what `blox login`
    /// wrote for this address]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}

/// The first certificates of a cluster.
#[derive(Args)]
pub(crate) struct InitArgs {
    /// New directory of the authority, with its key; only the scheduler needs it
    pub dir: PathBuf,
    /// Host name or address at which clients reach the scheduler; may be given more than once
    /// [default: the host's name; localhost and the loopback addresses are added]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Name of the first admin [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub admin: Option<String>,
}

/// A user who joins.
#[derive(Args)]
pub(crate) struct LoginArgs {
    /// File with a token of `blox token create`; - for standard input [default: $BLOX_JOIN, else
    /// standard input]
    #[arg(value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Address of the scheduler [default: $BLOX_AT, or 127.0.0.1:7070]
    #[arg(long, value_name = "HOST:PORT", default_value = usual_address(), hide_default_value = true)]
    pub at: String,
    /// File to write [default: one for this address in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}

/// Tokens to join, and certificates.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token with which one user or node joins; needs the role admin
    Create(CreateTokenArgs),
    /// Refuse all certificates that a name has until now, or one serial number; needs the role admin
    Revoke(RevokeArgs),
}

#[derive(Args)]
pub(crate) struct CreateTokenArgs {
    #[command(flatten)]
    pub at: At,
    /// viewer, user, operator, admin or node
    #[arg(long, value_name = "ROLE")]
    pub role: String,
    /// Name of the user or node; a node without one gets its host's name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Time in which the token can be used
    #[arg(long = "for", value_name = "SECONDS", default_value = "600")]
    pub valid: Duration,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    pub at: At,
    /// Name, or serial number of a certificate
    pub what: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

fn hide_simulation(arg: Arg) -> Arg {
    let own = arg.get_help_heading().is_none_or(|h| h == "Cluster");
    match arg.get_long() {
        Some("journal") => arg.help_heading("Cluster"),
        Some(key) if !own && decides(key) => arg.help_heading("Policies"),
        _ => arg.hide(!own),
    }
}

/// Shows the formats of a dry run.
fn with_formats(arg: Arg) -> Arg {
    match arg.get_long() {
        Some("output-format") => {
            let arg = arg.help("Format of --dry-run: table, csv or json [default: table]");
            arg.help_heading("Cluster")
        }
        Some("json") => arg.help_heading("Cluster"),
        _ => hide_simulation(arg),
    }
}

#[derive(Args)]
#[command(
    mut_args(with_formats),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct SchedulerArgs {
    #[command(subcommand)]
    pub command: Option<SchedulerCommand>,
    #[command(flatten)]
    pub simulate: SimulateArgs,
    #[command(flatten, next_help_heading = "Cluster")]
    pub daemon: DaemonArgs,
}

/// Commands to a scheduler.
#[derive(Subcommand)]
pub(crate) enum SchedulerCommand {
    /// Stop the scheduler in order: running jobs continue without it
    Stop(StopArgs),
}

#[derive(Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub at: At,
    /// Longest time until the scheduler is started again; jobs of a node that is lost meanwhile wait
    /// for as long [default: --absence of the scheduler]
    #[arg(long = "for", value_name = "SECONDS", value_parser = absence)]
    pub absence: Option<f64>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Carrier of the jobs of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Carrier {
    Nodes,
    Slurm,
}

#[derive(Args)]
pub(crate) struct DaemonArgs {
    /// Directory of the scheduler's log
    #[arg(long, value_name = "DIR", required = true)]
    pub state_dir: Option<PathBuf>,
    /// Carrier of the jobs: nodes with node managers, or slurm with held jobs of users
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "nodes",
        hide_possible_values = true
    )]
    pub on: Carrier,
    /// Schedule only nodes and jobs of this partition of Slurm
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Schedule the jobs of all users of Slurm; needs the rights of an operator
    #[arg(long)]
    pub all_users: bool,
    /// Address and port for nodes and users; encrypted only with --identity. An address other than
    /// loopback requires --identity or --token-file
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7070",
        value_parser = parser::<SocketAddr>("ADDRESS:PORT")
    )]
    pub listen: SocketAddr,
    /// File with a secret that nodes and users must present [default: $BLOX_TOKEN_FILE, or
    /// blox/token in $XDG_STATE_HOME or ~/.local/state, which the scheduler creates]
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    pub token_file: Option<PathBuf>,
    /// Directory of `blox init`: listen with TLS only, and give each user and node the rights of its
    /// certificate
    #[arg(long, value_name = "DIR", conflicts_with = "insecure")]
    pub identity: Option<PathBuf>,
    /// Require no secret: everyone with access to the address can run programs, on loopback each
    /// user of this machine
    #[arg(long)]
    pub insecure: bool,
    /// Number of registered nodes required for the first decision; jobs that request more GPUs than
    /// are registered then are rejected
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub wait_for_nodes: usize,
    /// Default lease of jobs. They outlive a lost scheduler for 5 s less. The jobs of a lost node start
    /// elsewhere after 2 % and 5 s more
    #[arg(long, value_name = "SECONDS", default_value = "135", value_parser = lease)]
    pub lease: f64,
    /// Time for which running jobs continue after SIGTERM or `blox scheduler stop`; 0 for --lease
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = absence)]
    pub absence: f64,
    /// Cluster file with the offers of nodes that the scheduler may request; needs --resume-program
    #[arg(long, value_name = "FILE")]
    pub offers: Option<PathBuf>,
    /// Program that powers nodes on and provides new ones; its argument lists their names,
    /// separated by commas, and $BLOX_NODE_REQUEST names a JSON file with the request
    #[arg(long, value_name = "PROGRAM")]
    pub resume_program: Option<PathBuf>,
    /// Program that powers nodes off and takes them back, called like --resume-program
    #[arg(long, value_name = "PROGRAM")]
    pub suspend_program: Option<PathBuf>,
    /// Longest time from the call of --resume-program until a node reports
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub resume_limit: u64,
    /// Longest time from the call of --suspend-program until a node's last report
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub suspend_limit: u64,
    /// Print what the scheduler would decide next for the jobs of --state-dir, and end. It changes
    /// nothing, and a scheduler may run meanwhile
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Limits of a scheduler process.
#[derive(Args, Clone)]
pub(crate) struct ServiceArgs {
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parser::<SocketAddr>("ADDRESS:PORT"))]
    pub metrics: Option<SocketAddr>,
    /// Compact the log after it has grown by this size
    #[arg(long, value_name = "KIB", default_value_t = 65_536)]
    pub log_kib: u64,
    /// Number of ended jobs that the scheduler keeps in memory; older ones move to the folder
    /// `archive`, where `blox show` and `blox logs` find them
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub keep_ended: usize,
    /// Number of launches of a job, lost in a row without useful running time, after which the job is
    /// held
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub hold_after: u32,
    /// Timeout of a policy, after which it loses its turn
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub policy_limit: u64,
    /// Divide all timers of the protocol by this factor, for tests on one machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub faster: u64,
}

/// Source of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    Slurm,
}

#[derive(Args)]
#[command(mut_args(hide_simulation))]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub simulate: SimulateArgs,
    #[command(flatten, next_help_heading = "Cluster")]
    pub pilot: PilotArgs,
}

/// A cluster in an allocation.
#[derive(Args)]
pub(crate) struct PilotArgs {
    /// Source of the nodes: slurm, which allocates them to a job
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    pub on: Source,
    /// Directory that all nodes reach, with queue, token and logs; another cluster with the same
    /// directory continues the queue
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroU32>("a whole number, at least 1"))]
    pub nodes: Option<NonZeroU32>,
    /// GPUs of each node, such as 8 or a100:8
    #[arg(long, value_name = "GPUS", value_parser = parser::<TypedGpus>("a number of GPUs such as 8 or a100:8"))]
    pub gpus_per_node: Option<TypedGpus>,
    /// CPUs of each node [default: those that Slurm gives to a task]
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroU32>("a whole number, at least 1"))]
    pub cpus_per_node: Option<NonZeroU32>,
    /// Time limit, as sbatch takes it
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Partition of the nodes
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Account that is charged
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Further option of sbatch, such as --slurm-arg=--mem=0; may be given more than once
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub slurm_arg: Vec<String>,
    /// Time before the time limit at which the nodes drain: jobs save their work and return to the
    /// queue
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub grace: u32,
    /// Join the scheduler at this address instead of starting one; needs its --token-file
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["listen", "wait_for_nodes"])]
    pub join: Option<String>,
    /// Address and port of the scheduler for nodes and users; not encrypted
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:0",
        hide_default_value = true,
        value_parser = parser::<SocketAddr>("ADDRESS:PORT")
    )]
    pub listen: SocketAddr,
    /// File with the secret of the scheduler [default: a new one in --state-dir; with --join,
    /// $BLOX_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Number of nodes that must have registered, also in earlier allocations, before the first
    /// decision [default: all nodes]
    #[arg(long, value_name = "N")]
    pub wait_for_nodes: Option<usize>,
    /// Directory for the launches of a node, such as one on its local disk [default: in --state-dir]
    #[arg(long, value_name = "DIR")]
    pub node_dir: Option<PathBuf>,
    /// Submit the job and return; the same command without it waits for the cluster
    #[arg(long)]
    pub detach: bool,
    /// Print the batch script instead of submitting it
    #[arg(long, conflicts_with = "detach")]
    pub dry_run: bool,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// A number of GPUs with an optional type, such as `a100:8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedGpus {
    pub gpu_type: Option<String>,
    pub count: u32,
}

impl std::str::FromStr for TypedGpus {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (gpu_type, count) = match text.rsplit_once(':') {
            Some((gpu_type, count)) => (Some(gpu_type.to_owned()), count),
            None => (None, text),
        };
        let word = |text: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            !text.is_empty() && text.chars().all(plain)
        };
        let count = count.parse().map_err(|_| ())?;
        let fits = (1..=64).contains(&count) && gpu_type.as_ref().is_none_or(word);
        fits.then_some(TypedGpus { gpu_type, count }).ok_or(())
    }
}

impl std::fmt::Display for TypedGpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.gpu_type {
            Some(gpu_type) => write!(f, "{gpu_type}:{}", self.count),
            None => write!(f, "{}", self.count),
        }
    }
}

#[derive(Args)]
pub(crate) struct DownArgs {
    /// Directory of the cluster, as for `blox cluster up`
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Return without waiting for the end
    #[arg(long)]
    pub detach: bool,
}

/// A cluster on nodes of another system.
#[derive(Subcommand)]
pub(crate) enum PilotCommand {
    /// Start a cluster in an allocation of Slurm
    Up(Late<UpArgs>),
    /// End a cluster: its jobs save their work and return to the queue
    Down(DownArgs),
}

#[derive(Args)]
pub(crate) struct NodeArgs {
    /// TOML file with these options as keys of a section [node]; the command line takes precedence
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub at: At,
    /// Directory of the node manager; with --on slurm, the directory of such directories
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Take name, GPUs, CPUs and memory from a step of an allocation: slurm
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true,
        conflicts_with_all = ["gpus", "name"]
    )]
    pub on: Option<Source>,
    /// Requeue the job of Slurm if the scheduler does not answer for this time
    #[arg(long, value_name = "SECONDS", requires = "on")]
    pub requeue_job_after: Option<u64>,
    /// File with a token of `blox token create --role node`, - for standard input; the certificate
    /// for it is written to --state-dir and used from then on [default: $BLOX_JOIN, the token itself]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["on", "token_file", "identity"])]
    pub join: Option<PathBuf>,
    /// GPU slots [default: reported by NVIDIA's driver]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub gpus: Option<u32>,
    /// GPU type [default: reported by NVIDIA's driver]
    #[arg(long, value_name = "TYPE")]
    pub gpu_type: Option<String>,
    /// Node name without blanks and commas; not a number [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Address at which other nodes reach this node [default: the local address of the connection to
    /// the scheduler; with --on slurm, the host's name]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub address: Option<String>,
    /// Log space of a launch on this node, shared equally by outputs and errors of its ranks;
    /// excess output is dropped
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    pub launch_logs_mib: u64,
    /// Log space of ended launches; the oldest logs are removed
    #[arg(long, value_name = "MIB", default_value_t = 10_240)]
    pub ended_logs_mib: u64,
    /// Limit on the processes and threads of a launch, for each of its GPUs
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u64).range(1..))]
    pub processes_per_gpu: u64,
    /// JSON file with the health of each GPU, which a program of the operator writes [default:
    /// NVIDIA's driver, if it reports the GPUs]
    #[arg(long, value_name = "FILE")]
    pub gpu_health: Option<PathBuf>,
    /// Device file of each GPU, in order; a job may open only the files of its own GPUs
    /// [default: /dev/nvidiaN, if NVIDIA's driver reports the GPUs]
    #[arg(long, value_name = "FILE,..", value_delimiter = ',')]
    pub device_files: Vec<PathBuf>,
    /// Time for which running jobs continue after SIGTERM, until the node manager is started again; 0
    /// for their leases [default: 3600; with --on slurm, 0]
    #[arg(long, value_name = "SECONDS", value_parser = absence)]
    pub absence: Option<f64>,
}

#[derive(Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub at: At,
    /// Number of GPUs, all of which start together
    #[arg(long, short, short_alias = 'G', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus: u32,
    /// Part of each GPU, such as 0.5; other jobs may run on the rest [default: the whole GPU]
    #[arg(long, value_name = "PART", value_parser = part)]
    pub gpu_share: Option<f64>,
    /// Part of the memory of each GPU [default: not counted]
    #[arg(long, value_name = "PART", value_parser = part)]
    pub gpu_memory_share: Option<f64>,
    /// CPU cores of the whole job, which are also its limit [default: not counted]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub cpus: Option<f64>,
    /// Memory of the whole job, such as 16G, which is also its limit [default: not counted]
    #[arg(long, value_name = "SIZE", value_parser = gibibytes)]
    pub memory: Option<f64>,
    /// Limit on the processes and threads of a launch on a node [default: the node's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub processes: Option<u64>,
    /// Copies of its GPUs that a service needs, such as '0:2;28800:5/86400': seconds and copies,
    /// then the period; times are Unix time, so that days begin at midnight UTC
    #[arg(long, value_name = "CURVE", value_parser = curve)]
    pub need: Option<Curve>,
    /// guaranteed, best-effort (spot), or spot:SECONDS with the guaranteed time of each launch
    #[arg(
        long,
        value_name = "CLASS",
        default_value = "guaranteed",
        value_parser = parser::<Class>("guaranteed, best-effort, spot or spot:SECONDS")
    )]
    pub class: Class,
    /// Name of the job
    #[arg(long, short = 'J', value_name = "NAME", visible_alias = "job-name")]
    pub name: Option<String>,
    /// User of the job [default: $USER]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Virtual cluster, a name that policies such as quotas use; the partition with --on slurm
    #[arg(long, short = 'p', value_name = "NAME", visible_alias = "partition")]
    pub queue: Option<String>,
    /// Priority; more urgent jobs have larger numbers
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        value_parser = priority()
    )]
    pub priority: i32,
    /// Estimated duration on these GPUs [default: --time, else 3600]
    #[arg(long, value_name = "SECONDS", default_value = "3600", hide_default_value = true, value_parser = seconds)]
    pub duration: f64,
    /// Iterations in that time, as the job writes them to its progress file [default: one per
    /// second]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub iterations: Option<f64>,
    /// Time from SIGTERM to the end when the job is preempted [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub grace: Option<f64>,
    /// Lease of the job. It outlives a lost scheduler for 5 s less. After the loss of its node, it starts
    /// elsewhere after 2 % and 5 s more [default: --lease of the scheduler]
    #[arg(long, value_name = "SECONDS", value_parser = lease)]
    pub lease: Option<f64>,
    /// Running time without an iteration in the progress file after which a launch fails with exit
    /// code 124 and is retried [default: not limited]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub stall: Option<f64>,
    /// Maximum number of retries after failures [default: 3]
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// Meaning of an exit code: retry, fail, complete, or requeue (retry without counting a
    /// failure); with 0=complete, exit code 0 after a stop completes the job
    #[arg(long, value_name = "CODE=MEANING", value_parser = on_exit)]
    pub on_exit: Vec<(i32, Meaning)>,
    /// Deadline in seconds from now
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub deadline: Option<f64>,
    /// GPU counts at which an elastic job may run, in ascending order
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    pub levels: Vec<u32>,
    /// Speed at each of --levels, relative to --duration's speed of 1
    #[arg(
        long,
        value_name = "X,X,..",
        value_delimiter = ',',
        value_parser = not_negative,
        requires = "levels"
    )]
    pub rates: Vec<f64>,
    /// Name of the model in profiles
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Samples per step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: Option<u32>,
    /// JSON file for changes of GPUs and batch size: initial_batch, max_batch, restart (seconds), and
    /// by GPU type per_gpu (samples per pass), one_gpu_rate (samples per second), stages
    #[arg(long, value_name = "FILE")]
    pub training: Option<PathBuf>,
    /// Any other attribute for policies
    #[arg(long, value_name = "NAME=JSON", value_parser = attribute)]
    pub attribute: Vec<(String, String)>,
    /// Environment variable of the job
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// Key of the submission; the same key again is the same job [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Time for retries while the scheduler does not respond or its disk is full
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub patience: f64,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Program and its arguments, run without a shell; or a batch script, whose #SBATCH lines apply;
    /// - reads the script from standard input
    #[arg(
        required_unless_present = "wrap",
        trailing_var_arg = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
    #[command(flatten, next_help_heading = "As sbatch")]
    pub sbatch: SbatchArgs,
    #[command(flatten, next_help_heading = "Slurm")]
    pub slurm: SlurmJobArgs,
}

/// Options as sbatch takes them, on the command line and in `#SBATCH` lines.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SbatchArgs {
    /// Run this line with a shell instead of COMMAND, once for all GPUs
    #[arg(long, value_name = "LINE", conflicts_with_all = ["command", "script"])]
    pub wrap: Option<String>,
    /// Submit a job for each index, such as 0-9, 0-9%3 (3 at once) or 1,5,7-20:2
    #[arg(long, short = 'a', value_name = "INDICES")]
    pub array: Option<String>,
    /// Wait for other jobs: afterok:12:13, afternotok:12, afterany:12_3, singleton, or several,
    /// separated by commas
    #[arg(long, short = 'd', value_name = "CONDITIONS")]
    pub dependency: Option<String>,
    /// Run only on GPUs of this type
    #[arg(long, value_name = "TYPE")]
    pub gpu_type: Option<String>,
    /// GPUs on each of --nodes, such as gpu:2 or gpu:a100:2
    #[arg(long, value_name = "gpu:N")]
    pub gres: Option<String>,
    /// GPUs on each of --nodes, such as 8 or a100:8
    #[arg(long, value_name = "GPUS")]
    pub gpus_per_node: Option<String>,
    /// Number of nodes, which multiplies the GPUs and memory of a node. The job runs on exactly
    /// this number of nodes, with an equal part of its GPUs on each
    #[arg(long, short = 'N', value_name = "N")]
    pub nodes: Option<String>,
    /// Processes of a script: 1, or one for each GPU [default: 1]
    #[arg(long, short = 'n', value_name = "N")]
    pub ntasks: Option<String>,
    /// CPU cores of each of --ntasks
    #[arg(long, short = 'c', value_name = "N")]
    pub cpus_per_task: Option<String>,
    /// Processes on each of --nodes
    #[arg(long, value_name = "N", alias = "tasks-per-node")]
    pub ntasks_per_node: Option<String>,
    /// CPU cores for each GPU
    #[arg(long, value_name = "N")]
    pub cpus_per_gpu: Option<String>,
    /// Memory on each of --nodes, such as 16G; without a letter in MiB
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// Memory for each CPU core
    #[arg(long, value_name = "SIZE")]
    pub mem_per_cpu: Option<String>,
    /// Memory for each GPU
    #[arg(long, value_name = "SIZE")]
    pub mem_per_gpu: Option<String>,
    /// Working directory
    #[arg(long, short = 'D', value_name = "DIR")]
    pub chdir: Option<String>,
    /// File for the output, such as logs/%x-%j.out or %A_%a.out [default: read it with blox logs]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<String>,
    /// File for standard error [default: as --output]
    #[arg(long, short = 'e', value_name = "FILE")]
    pub error: Option<String>,
    /// File for standard input
    #[arg(long, short = 'i', value_name = "FILE")]
    pub input: Option<String>,
    /// Comment, an attribute for policies
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Print the number of the job only, as always
    #[arg(long)]
    pub parsable: bool,
    /// Variables of your environment for the job: ALL, NONE or names, with values if NAME=VALUE
    /// [default: NONE]
    #[arg(long, value_name = "NAMES")]
    pub export: Option<String>,
    /// Subtract this number from the priority
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "100")]
    pub nice: Option<String>,
    /// Time between SIGTERM and the end, as TERM@SECONDS
    #[arg(long, value_name = "SIGNAL")]
    pub signal: Option<String>,
    /// Hold the job until blox release
    #[arg(long, short = 'H')]
    pub hold: bool,
    /// Retry the job after failures, which is the default
    #[arg(long, conflicts_with = "no_requeue")]
    pub requeue: bool,
    /// Do not retry the job after a failure
    #[arg(long)]
    pub no_requeue: bool,
}

impl SbatchArgs {
    /// Returns the options that are given, by their long names.
    pub fn given(self) -> Vec<(&'static str, String)> {
        let flag = |yes: bool| yes.then(String::new);
        let all = [
            ("array", self.array),
            ("chdir", self.chdir),
            ("comment", self.comment),
            ("cpus-per-gpu", self.cpus_per_gpu),
            ("cpus-per-task", self.cpus_per_task),
            ("dependency", self.dependency),
            ("error", self.error),
            ("export", self.export),
            ("gpu-type", self.gpu_type),
            ("gpus-per-node", self.gpus_per_node),
            ("gres", self.gres),
            ("hold", flag(self.hold)),
            ("input", self.input),
            ("mem", self.mem),
            ("mem-per-cpu", self.mem_per_cpu),
            ("mem-per-gpu", self.mem_per_gpu),
            ("nice", self.nice),
            ("no-requeue", flag(self.no_requeue)),
            ("nodes", self.nodes),
            ("ntasks", self.ntasks),
            ("ntasks-per-node", self.ntasks_per_node),
            ("output", self.output),
            ("parsable", flag(self.parsable)),
            ("requeue", flag(self.requeue)),
            ("signal", self.signal),
        ];
        let all = all.into_iter();
        all.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// Options of a job that Slurm runs.
#[derive(Args)]
pub(crate) struct SlurmJobArgs {
    /// Carrier of the job: nodes with node managers, or slurm, which holds it for `blox scheduler
    /// --on slurm`
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "nodes",
        hide_possible_values = true
    )]
    pub on: Carrier,
    /// COMMAND is a batch script, whose #SBATCH lines apply, with its arguments [default: a file with
    /// such lines, or one that no search path contains]
    #[arg(long)]
    pub script: bool,
    /// Account of the job; with node managers, an attribute for policies
    #[arg(long, short = 'A', value_name = "NAME")]
    pub account: Option<String>,
    /// Limit of the running time: minutes, MM:SS, HH:MM:SS, D-HH, or seconds such as 90s; time in
    /// the queue does not count. Also the estimate if --duration is left out
    #[arg(long, short = 't', value_name = "TIME")]
    pub time: Option<String>,
    /// Further option of sbatch, such as --slurm-arg=--mem=2G; may be given more than once
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub slurm_arg: Vec<String>,
    /// Print the command line of sbatch instead of running it
    #[arg(long)]
    pub dry_run: bool,
}

/// A job: its number, or array and index.
#[derive(Clone, Debug)]
pub(crate) enum JobName {
    Number(u32),
    InArray(String),
}

impl std::str::FromStr for JobName {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((array, index)) = text.split_once('_') else {
            return Ok(JobName::Number(text.parse()?));
        };
        let (array, index): (u32, u32) = (array.parse()?, index.parse()?);
        Ok(JobName::InArray(format!("{array}_{index}")))
    }
}

#[derive(Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub at: At,
    /// Number of the job, such as 12, or 12_3 in an array
    #[arg(value_parser = parser::<JobName>("a number such as 12, or 12_3 in an array"))]
    pub job: JobName,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Selection of jobs.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    /// Only jobs of this user
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// Only your jobs
    #[arg(long, conflicts_with = "user")]
    pub me: bool,
    /// Only jobs in these states: pending, held, running or another word of the column, separated by
    /// commas
    #[arg(long, short = 't', value_name = "STATES", alias = "states")]
    pub state: Option<String>,
    /// Only jobs of this name
    #[arg(long, short, value_name = "NAME", aliases = ["job-name", "jobname"])]
    pub name: Option<String>,
    /// Only jobs of this queue
    #[arg(long, short = 'p', value_name = "NAME", visible_alias = "partition")]
    pub queue: Option<String>,
    /// Only jobs on this node
    #[arg(long, short = 'w', value_name = "NODE", alias = "nodelist")]
    pub node: Option<String>,
}

/// A change of several jobs.
#[derive(Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub at: At,
    /// Numbers of jobs: 12, or 12_3 and 12_[0-3,7] of an array; 12 is also a whole array
    #[arg(value_name = "JOB", required_unless_present_any = ["user", "me", "state", "name", "queue", "node"])]
    pub jobs: Vec<String>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct PriorityArgs {
    #[command(flatten)]
    pub at: At,
    /// Number of a job or an array, as for blox cancel
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The priority; more urgent jobs have larger numbers
    #[arg(value_name = "N", allow_negative_numbers = true, value_parser = priority())]
    pub priority: i32,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Grouping of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcctBy {
    User,
    Job,
    Day,
    Queue,
    GpuType,
}

/// Format of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcctFormat {
    Table,
    Csv,
    Parquet,
    Json,
}

/// A Unix time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment(pub f64);

impl std::str::FromStr for Moment {
    type Err = ();

    /// Parses a date, a date with time, or a time ago such as `7d`; in UTC.
    fn from_str(text: &str) -> Result<Self, ()> {
        use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
        for (letter, unit) in [('d', 86_400.0), ('h', 3_600.0), ('m', 60.0)] {
            if let Some(number) = text.strip_suffix(letter) {
                let number: u32 = number.parse().map_err(|_| ())?;
                let now = std::time::SystemTime::UNIX_EPOCH
                    .elapsed()
                    .map_err(|_| ())?;
                return Ok(Moment(now.as_secs_f64() - f64::from(number) * unit));
            }
        }
        let text = text.trim_end_matches('Z').replace('T', " ");
        let date = NaiveDate::parse_from_str(&text, "%Y-%m-%d");
        let time = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"];
        let time = time
            .iter()
            .find_map(|f| NaiveDateTime::parse_from_str(&text, f).ok());
        let at = time.or_else(|| Some(date.ok()?.and_time(NaiveTime::MIN)));
        Ok(Moment(at.ok_or(())?.and_utc().timestamp() as f64))
    }
}

#[derive(Args)]
pub(crate) struct AcctArgs {
    #[command(flatten)]
    pub at: At,
    /// Read the history in this state directory of a scheduler, which need not run
    #[arg(long, value_name = "DIR", conflicts_with_all = ["at", "token_file"])]
    pub state_dir: Option<PathBuf>,
    /// Group by user, job, day, queue or gpu-type
    #[arg(
        long,
        value_enum,
        value_name = "PROPERTY",
        default_value = "user",
        hide_possible_values = true
    )]
    pub by: AcctBy,
    /// Only these jobs, separated by commas; groups by job
    #[arg(
        long,
        short = 'j',
        value_name = "JOBS",
        value_delimiter = ',',
        conflicts_with = "by"
    )]
    pub jobs: Vec<String>,
    /// Only jobs that ended since, such as 7d, 2026-11-01 or 2026-11-01T12:00; in UTC
    #[arg(long, short = 'S', value_name = "TIME", value_parser = parser::<Moment>("a time such as 7d, 12h, 2026-11-01 or 2026-11-01T12:00"))]
    pub since: Option<Moment>,
    /// Only jobs that ended before this time
    #[arg(long, short = 'E', value_name = "TIME", value_parser = parser::<Moment>("a time such as 7d, 12h, 2026-11-01 or 2026-11-01T12:00"))]
    pub until: Option<Moment>,
    /// Only jobs of this user
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// Only your jobs
    #[arg(long, conflicts_with = "user")]
    pub me: bool,
    /// table, csv, parquet or json [default: by the ending of --output, else table]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<AcctFormat>,
    /// Write to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub at: At,
    /// Time between two views
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = above_zero)]
    pub every: f64,
    /// Print one view and end, as without a terminal
    #[arg(long)]
    pub once: bool,
}

/// Options of the forecast under a scheduler.
fn hide_all_but_forecast(arg: Arg) -> Arg {
    match arg.get_long() {
        Some("json") => arg
            .help("Print as JSON")
            .help_heading("Cluster")
            .hide(false),
        Some("journal") => arg.hide(true),
        _ if arg.get_id() == "positional" => {
            arg.help("Scheduler for --on slurm [default: the one that the journals name]")
        }
        _ => hide_simulation(arg),
    }
}

#[derive(Args)]
#[command(mut_args(hide_all_but_forecast))]
pub(crate) struct WhenArgs {
    /// Number of one job, such as 12, or 12_3 in an array; 12 is also a whole array [default: all
    /// queued jobs]
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    #[command(flatten)]
    pub simulate: SimulateArgs,
    #[command(flatten, next_help_heading = "Cluster")]
    pub queue: WhenQueue,
}

/// Source of the queue of a forecast.
#[derive(Args)]
pub(crate) struct WhenQueue {
    #[command(flatten)]
    pub at: At,
    /// A scheduler with node managers, or the queue of Slurm under a scheduler
    #[arg(
        long,
        value_name = "nodes|slurm",
        hide_possible_values = true,
        default_value = "nodes"
    )]
    pub on: Carrier,
    /// Folder of a scheduler on Slurm, whose journals show its jobs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["at", "token_file"])]
    pub state_dir: Option<PathBuf>,
    /// Output of `squeue --json` for --on slurm, instead of running it
    #[arg(
        long,
        value_name = "FILE",
        requires = "sinfo",
        conflicts_with = "state_dir"
    )]
    pub squeue: Option<PathBuf>,
    /// Output of `sinfo --json` for --on slurm, instead of running it
    #[arg(long, value_name = "FILE", requires = "squeue")]
    pub sinfo: Option<PathBuf>,
    /// Output of `sacct --json`: ended jobs, from which running times and arrivals follow
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    pub sacct: Option<PathBuf>,
    /// Only nodes and jobs of this partition, for --on slurm
    #[arg(long, value_name = "NAME", conflicts_with = "state_dir")]
    pub partition: Option<String>,
    /// Unix time of the files [default: the time that --squeue states, else the latest in it]
    #[arg(long, value_name = "S", requires = "squeue", value_parser = not_negative)]
    pub now: Option<f64>,
}

#[derive(Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub at: At,
    /// Numbers of jobs, as for blox cancel [default: all]
    #[arg(value_name = "JOB")]
    pub jobs: Vec<String>,
    /// Numbers of jobs, separated by commas, as squeue takes them
    #[arg(
        long = "jobs",
        short = 'j',
        value_name = "JOBS",
        value_delimiter = ',',
        conflicts_with = "jobs"
    )]
    pub listed: Vec<String>,
    /// Include jobs that have ended
    #[arg(long)]
    pub all: bool,
    /// Largest number of jobs; those submitted first are shown
    #[arg(long, value_name = "N")]
    pub limit: Option<NonZeroUsize>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Columns in this order: id, name, user, state, time, gpus, nodes, reason, queue, priority,
    /// launch, submitted
    #[arg(long, short = 'o', value_name = "COLUMNS", value_delimiter = ',')]
    pub format: Vec<String>,
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

/// The list of nodes.
#[derive(Args)]
pub(crate) struct ListNodesArgs {
    #[command(flatten)]
    pub nodes: NodesArgs,
    /// One line for each node, as always
    #[arg(long = "Node", short = 'N')]
    pub by_node: bool,
}

/// Meaning of an exit code.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Meaning {
    Retry,
    Fail,
    Complete,
    Requeue,
}

fn lease(text: &str) -> Result<f64, Expected> {
    let (least, most) = (10.0, 86_400.0);
    let lease = text.parse().ok();
    lease
        .filter(|s| (least..=most).contains(s))
        .ok_or(Expected("10 to 86400 seconds"))
}

fn absence(text: &str) -> Result<f64, Expected> {
    let longest = 7.0 * 86_400.0;
    let absence = text.parse().ok();
    absence
        .filter(|s| (0.0..=longest).contains(s))
        .ok_or(Expected("0 to 604800 seconds"))
}

/// Parses an IP address or a host name.
fn address(text: &str) -> Result<String, Expected> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let is_ip = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<IpAddr>().is_ok(),
    };
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let ends = part.starts_with('-') || part.ends_with('-');
        (1..=63).contains(&part.len()) && part.chars().all(plain) && !ends
    };
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_name = name.len() <= 253 && name.split('.').all(is_part) && !is_number(last);
    (is_ip || is_name).then(|| text.to_owned()).ok_or(Expected(
        "an IP address, or a host name of letters, digits, '-' and '.'",
    ))
}

fn part(text: &str) -> Result<f64, Expected> {
    let part = text.parse().ok();
    part.filter(|part| Share::of(*part).is_some())
        .ok_or(Expected("a part from 1/21000 to 1"))
}

fn curve(text: &str) -> Result<Curve, Expected> {
    text.parse().map_err(Expected)
}

/// Parses a size of memory such as `16G`, in GiB.
fn gibibytes(text: &str) -> Result<f64, Expected> {
    let expected = Expected("a size above 0 such as 16G or 500M");
    let unit = |unit: char| match unit.to_ascii_uppercase() {
        'K' => Some(1.0 / 1_048_576.0),
        'M' => Some(1.0 / 1024.0),
        'G' => Some(1.0),
        'T' => Some(1024.0),
        _ => None,
    };
    let size = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let size = size.strip_suffix('i').unwrap_or(size);
    let mut number = size.chars();
    let unit = number.next_back().and_then(unit);
    let amount = number.as_str().trim().parse::<f64>().ok().zip(unit);
    amount
        .map(|(amount, unit)| amount * unit)
        .filter(|gib| gib.is_finite() && *gib > 0.0)
        .ok_or(expected)
}

fn pair(text: &str) -> Result<(String, String), Expected> {
    let (name, value) = text.split_once('=').ok_or(Expected("NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn priority() -> impl Fn(&str) -> Result<i32, Expected> + Clone {
    parser("a whole number from -2147483648 to 2147483647")
}

fn attribute(text: &str) -> Result<(String, String), Expected> {
    let (name, value) = pair(text).map_err(|_| Expected("NAME=JSON"))?;
    let value = match serde_json::from_str::<Value>(&value) {
        Ok(_) => value,
        Err(_) if value.parse::<f64>().is_ok_and(|v| !v.is_finite()) => {
            return Err(Expected("NAME=JSON, whose numbers are finite"));
        }
        // A plain word is a string.
        Err(_) => Value::from(value).to_string(),
    };
    Ok((name, value))
}

fn on_exit(text: &str) -> Result<(i32, Meaning), Expected> {
    let (code, meaning) = text.split_once('=').unwrap_or_default();
    let both = code
        .parse()
        .ok()
        .zip(Meaning::from_str(meaning, false).ok());
    both.ok_or(Expected(
        "CODE=MEANING, a number and retry, fail, complete or requeue",
    ))
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub at: At,
    /// Name or number of the node
    pub node: String,
    /// Reason
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "drained",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub why: String,
    /// Preempt the jobs that still run on the node after this time [default: they continue]
    #[arg(long, value_name = "SECONDS")]
    pub evict_after: Option<Duration>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub at: At,
    /// Name or number of the node
    pub node: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct OffersArgs {
    #[command(flatten)]
    pub at: At,
    /// Name of the offer to change
    pub offer: Option<String>,
    /// Set the price of an hour of a node
    #[arg(long, value_name = "PRICE", requires = "offer")]
    pub price: Option<f64>,
    /// Announce that the provider takes back a number of nodes: those that joined last
    #[arg(long, value_name = "NODES", requires = "offer")]
    pub reclaim: Option<u32>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub at: At,
    /// Number of the job, such as 12, or 12_3 in an array
    #[arg(value_parser = parser::<JobName>("a number such as 12, or 12_3 in an array"))]
    pub job: JobName,
    /// Continue until the job has ended, across launches
    #[arg(long, short)]
    pub follow: bool,
    /// Rank whose output is printed
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub rank: u32,
    /// Number of the launch [default: the last]
    #[arg(long, value_name = "N")]
    pub launch: Option<u32>,
    /// Print standard error instead of standard output
    #[arg(long)]
    pub err: bool,
    /// Print each part as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Commands about the log of a scheduler that does not run.
#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Verify every file of the log; the exit status is 1 if one is damaged
    Check(LogDir),
    /// Print the state at the oldest snapshot and all records since, as lines of JSON
    Dump(LogDir),
    /// Keep what precedes the damage, print what is lost, and keep the originals in DIR/repair-N
    Repair(LogDir),
}

#[derive(Args)]
pub(crate) struct LogDir {
    /// The --state-dir of the scheduler
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The commands of a real cluster.
#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// Run the scheduler of a real cluster
    Scheduler(Late<SchedulerArgs>),
    /// Run the node manager of one machine of a real cluster
    Node(Late<NodeArgs>),
    /// Create the authority of a cluster with TLS, and the certificate of its first admin
    Init(InitArgs),
    /// Get a certificate for a token, to use a cluster with TLS
    Login(LoginArgs),
    /// Create tokens to join a cluster with TLS, and revoke certificates
    #[command(subcommand, arg_required_else_help = true)]
    Token(TokenCommand),
    /// Show your name and role on a cluster
    Whoami(NodesArgs),
    /// Submit a job to a real cluster
    #[command(visible_alias = "sbatch")]
    Submit(Late<SubmitArgs>),
    /// List the jobs of a real cluster
    #[command(visible_alias = "squeue")]
    Queue(QueueArgs),
    /// Show nodes and jobs of a real cluster, live
    Top(TopArgs),
    /// Account for the ended jobs of a real cluster
    #[command(visible_alias = "sacct")]
    Acct(AcctArgs),
    /// Cancel jobs
    #[command(visible_alias = "scancel")]
    Cancel(ChangeArgs),
    /// Hold waiting jobs
    Hold(ChangeArgs),
    /// Release held jobs
    Release(ChangeArgs),
    /// Preempt running jobs, which save their work and return to the queue
    Requeue(ChangeArgs),
    /// Change the priority of jobs
    Priority(PriorityArgs),
    /// List the nodes of a real cluster
    #[command(visible_alias = "sinfo")]
    Nodes(ListNodesArgs),
    /// Place no new jobs on a node
    #[command(visible_alias = "cordon")]
    Drain(DrainArgs),
    /// Use a drained node again
    #[command(visible_alias = "uncordon")]
    Resume(ResumeArgs),
    /// Permanently remove a node that is lost, or drained and empty
    Remove(ResumeArgs),
    /// Declare a silent node powered off: its jobs start elsewhere at once
    ///
    /// Without this, the jobs of a node that is lost start elsewhere after their leases. If the node
    /// still runs, its jobs run twice.
    Down(ResumeArgs),
    /// List offers of nodes, set a price, or announce that nodes are taken back
    Offers(OffersArgs),
    /// Explain the state of a job
    Why(JobArgs),
    /// Forecast when the queued jobs start and end
    ///
    /// The table shows the median of simulated futures, and an interval that contains nine of ten.
    /// Running times follow from ended jobs, and arrivals from the last day.
    When(Late<WhenArgs>),
    /// Show a job and the accounts of its launches
    #[command(visible_alias = "describe")]
    Show(JobArgs),
    /// Print the output of a rank
    Logs(LogsArgs),
    /// Verify, print and repair the log of a scheduler
    #[command(subcommand, arg_required_else_help = true)]
    Log(LogCommand),
    /// Start and end a cluster on nodes of another system
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(PilotCommand),
    /// Run a cluster of four small nodes for half a minute, and remove it
    Demo,
    /// Become a program with the account of a job's user (shims call this)
    #[command(hide = true)]
    Rank {
        /// Numbers of user, group and groups
        account: String,
        /// Program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Run the processes of one launch (node managers call this)
    #[command(hide = true)]
    Shim {
        /// Folder of the launch
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_refused() {
        for text in ["nan", "-1", "inf", "1e300"] {
            assert!(
                seconds(text).is_err() && seconds_above_zero(text).is_err(),
                "{text}"
            );
        }
        assert_eq!(
            (seconds("0").ok(), seconds_above_zero("0").ok()),
            (Some(0.0), None)
        );
        for text in ["x=NaN", "x=inf", "x=1e400"] {
            assert!(attribute(text).is_err(), "{text}");
        }
        let word = attribute("x=nano").ok();
        assert_eq!(word, Some(("x".to_owned(), "\"nano\"".to_owned())));
        assert_eq!(priority()("-7").ok(), Some(-7));
        let expected = priority()("nan").unwrap_err().to_string();
        assert!(expected.contains("from -2147483648"), "{expected}");
    }

    #[test]
    fn address_is_an_ip_or_a_host_name() {
        let long = format!("{}.example", "a".repeat(63));
        for good in [
            "10.0.0.1",
            "::1",
            "[fe80::1]",
            "node-7",
            "node-7.lab.example.",
            "localhost",
            &long,
        ] {
            assert_eq!(address(good).ok().as_deref(), Some(good));
        }
        let long = "a.".repeat(128);
        for bad in [
            "",
            ".",
            "a b",
            "$(reboot)",
            "a/b",
            "-a",
            "a-",
            "a..b",
            "n1:80",
            "10.0.0",
            "1.2.3.400",
            "[10.0.0.1]",
            "http://n1",
            "n1\n",
            "knoten-ä",
            &long,
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
