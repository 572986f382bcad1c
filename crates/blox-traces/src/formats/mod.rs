//! Formats of workload files, one module for each, and their list.

pub mod acme;
pub mod blox_jobs;
pub mod csv;
pub mod gavel;
pub mod genai;
pub mod helios;
pub mod itp;
pub mod jsonl;
pub mod openb;
pub mod pai;
pub mod philly;
pub mod philly_log;
pub mod sia;
pub mod slurm;
pub mod spot;
pub mod supercloud;
pub mod swf;
pub mod synergy;
pub mod tiresias;

use super::file::Clock;
use super::rows::Opened;
use super::source::Source;
use blox_workloads::Notices;

/// Defines the formats. Each has documentation, a name, lists of columns that identify it (none
/// without a header), its module, a time origin, and the field whose values must be unique.
macro_rules! formats {
    ($($(#[$meta:meta])* $format:ident $name:literal [$([$($column:literal),*]),*]
        $module:ident, $clock:expr, $unique:expr;)*) => {
        /// A file format of workloads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$meta])* $format,)*
        }

        impl Format {
            /// All formats.
            pub const ALL: [Format; [$($name),*].len()] = [$(Format::$format),*];

            pub(crate) fn entry(self) -> Entry {
                match self {
                    $(Format::$format => Entry {
                        name: $name,
                        columns: &[$(&[$($column),*]),*],
                        open: $module::open_rows,
                        example: $module::EXAMPLE,
                        clock: $clock,
                        unique: $unique,
                    },)*
                }
            }
        }
    };
}

/// A format, as [`formats`] defines it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static [&'static str]],
    pub(crate) open: fn(&Source, &mut Notices) -> Opened,
    pub(crate) example: &'static str,
    pub(crate) clock: Clock,
    pub(crate) unique: Option<&'static str>,
}

formats! {
    /// The toolkit's own CSV, `csv`: see [`csv`].
    Csv "csv" [["submit_s", "gpus"]] csv, Clock::Kept, Some("job_id");
    /// JSON lines, `jsonl`: see [`jsonl`].
    Jsonl "jsonl" [] jsonl, Clock::Kept, Some("name");
    /// The Philly trace as a table, `philly`: see [`philly`].
    Philly "philly" [["timestamp", "num_gpus"]] philly, Clock::Wall(0.0), Some("job_id");
    /// The Philly trace as it was published, `philly-log`: see [`philly_log`].
    PhillyLog "philly-log" [] philly_log, Clock::Wall(0.0), Some("jobid");
    /// Microsoft's ITP traces and ElasticFlow's traces, `itp`: see [`itp`].
    Itp "itp" [["submission_time", "num_iteration"], ["submit_time", "ddl"]] itp, Clock::Kept, Some("job_id");
    /// Shanghai AI Laboratory's Acme traces, `acme`: see [`acme`].
    Acme "acme" [["gpu_num", "submit_time", "type"]] acme, Clock::Wall(0.0), Some("job_id");
    /// The Helios traces, `helios`: see [`helios`].
    Helios "helios" [["gpu_num", "submit_time"]] helios, Clock::Wall(0.0), Some("job_id");
    /// Alibaba's PAI trace of 2020, `pai`: see [`pai`].
    Pai "pai" [["job_name", "plan_gpu"]] pai, Clock::Wall(pai::AHEAD_OF_UTC_S), Some("job_name");
    /// Alibaba's GPU trace of 2023, `openb`: see [`openb`].
    Openb "openb" [["gpu_milli", "creation_time"]] openb, Clock::Shifted, Some("name");
    /// Alibaba's trace of spot GPUs of 2026, `spot`: see [`spot`].
    Spot "spot" [["gpu_request", "worker_num", "job_type"]] spot, Clock::Kept, Some("job_name");
    /// Requests of Alibaba's image generation of 2026, `genai`: see [`genai`].
    Genai "genai" [["gmt_create", "exec_time_seconds"]] genai, Clock::Wall(0.0), None;
    /// Output of Slurm's `sacct --parsable2`, `slurm`: see [`slurm`].
    // Slurm restarts its job numbers at 1 eventually.
    Slurm "slurm" [["JobID", "Submit"], ["JobIDRaw", "Submit"]] slurm, Clock::Wall(0.0), None;
    /// The MIT Supercloud trace, `supercloud`: see [`supercloud`].
    Supercloud "supercloud" [["id_job", "time_submit"]] supercloud, Clock::Wall(0.0), None;
    /// The Standard Workload Format, `swf`: see [`swf`].
    Swf "swf" [] swf, Clock::Kept, None;
    /// Jobs of the Blox simulator, `blox-jobs`: see [`blox_jobs`].
    BloxJobs "blox-jobs" [["arrival_s", "total_iteration"]] blox_jobs, Clock::Kept, Some("job_id");
    /// Jobs of Tiresias' simulator, `tiresias`: see [`tiresias`].
    Tiresias "tiresias" [["num_gpu", "submit_time", "duration"]] tiresias, Clock::Kept, Some("job_id");
    /// Jobs of the Synergy simulator, `synergy`: see [`synergy`]. The format has no header and must
    /// be given.
    Synergy "synergy" [] synergy, Clock::Kept, Some("job_id");
    /// Jobs of Gavel's and Shockwave's simulators, `gavel`: see [`gavel`]. The format has no header
    /// and must be given.
    Gavel "gavel" [] gavel, Clock::Kept, Some("job_id");
    /// Training jobs of Sia's and Pollux' simulators, `sia`: see [`sia`].
    Sia "sia" [["application", "num_replicas"]] sia, Clock::Kept, Some("name");
}
