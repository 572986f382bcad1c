//! The settings of an experiment: each is declared once, with its key in configuration files and on
//! command lines, its type and its effect.

use crate::field::{Field, is_key_of};
use crate::origin::Origin;
use crate::parameters::{OfOverheads, OfWorkload, Parameters};
#[cfg(feature = "clap")]
use crate::value::format_help;
use crate::value::{
    By, Duration, Hours, Limit, Loads, MeanTime, Measured, Period, Risk, RoundLength, Seeds,
    Written,
};
use blox_registry::ComponentSpec;
use blox_traces::{ColumnMap, Format};
use serde::Deserializer;
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Records that are kept of each run beside the rows of its jobs.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Collectors, whose figures are in the report.
    pub collectors: Vec<Written<ComponentSpec>>,
    /// A row for each decision.
    pub rounds: bool,
    /// A row for each change of the use of GPUs.
    pub timeline: bool,
    /// The reasons for which jobs waited.
    pub waits: bool,
    /// A column of the workload. Every figure is also given for each group of jobs with the same value.
    pub by: Option<Written<By>>,
    /// Hashes of the files that the experiment reads.
    pub hashes: bool,
}

macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$of:meta])* pub $field:ident: $kind:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        pub struct $name {
            $($(#[$of])* pub $field: $kind,)*
            /// Records that are kept of each run. No key of a file.
            #[cfg_attr(feature = "clap", arg(skip))]
            pub records: Records,
            /// Origin of the settings, for messages.
            #[cfg_attr(feature = "clap", arg(skip))]
            pub origin: Origin,
        }

        impl $name {
            /// Returns the keys of all settings, in order.
            pub fn keys() -> Vec<String> {
                let keys = [$(<$kind as Field>::keys(stringify!($field))),*];
                keys.into_iter().flatten().collect()
            }

            /// Sets the value of a key, as a configuration file does.
            ///
            /// # Errors
            /// There is no such key, or the value is invalid.
            pub fn set<'de, D: Deserializer<'de>>(
                &mut self,
                key: &str,
                value: D,
            ) -> Result<(), D::Error> {
                $(if is_key_of::<$kind>(stringify!($field), key) {
                    return Field::read(&mut self.$field, key, value);
                })*
                Err(D::Error::custom(format!("there is no setting `{key}`")))
            }

            /// Removes the value of a key.
            pub fn clear(&mut self, key: &str) {
                $(if is_key_of::<$kind>(stringify!($field), key) {
                    Field::clear(&mut self.$field, key);
                })*
            }

            /// Returns the given settings by key.
            ///
            /// # Errors
            /// A path is not Unicode.
            pub fn try_values(&self) -> Result<Map<String, Value>, serde_json::Error> {
                let mut all = Map::new();
                $(Field::write(&self.$field, stringify!($field), &mut all)?;)*
                Ok(all)
            }
        }
    };
}

settings! {
    /// Jobs, a cluster, a simulated world and schedulers, with the values that vary.
    ///
    /// The keys of a configuration file are the names of these fields, with `-` for `_`, and the
    /// keys of [`PARAMETERS`](crate::PARAMETERS).
    pub struct Experiment {
        /// Scheduler, if there is one.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub scheduler: Option<String>,
        /// Schedulers, as NAME or NAME{PARAMETER=VALUE,...}; alternatives are separated by `|`.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub schedulers: Option<Vec<String>>,
        /// Seeds, instead of one.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub seeds: Option<Written<Seeds>>,
        /// Loads in jobs an hour, instead of one.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub loads: Option<Written<Loads>>,
        /// Values of other settings that vary, by key.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub vary: BTreeMap<String, Vec<Value>>,
        /// Scheduler with which the others are compared; by default the first.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub baseline: Option<String>,
        /// Workload file, plain or gzip
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Workload"))]
        pub trace: Option<PathBuf>,
        /// Its format [default: detected from the file; synergy and gavel must be given]
        #[cfg_attr(
            feature = "clap",
            arg(long, long_help = format_help(), value_name = "FORMAT", help_heading = "Workload")
        )]
        pub format: Option<Written<Format>>,
        /// Its columns, for a table of another format:
        /// submit=COLUMN:date,gpus=COLUMN,duration=COLUMN:min
        ///
        /// FIELD=COLUMN or FIELD=COLUMN:UNIT, separated by commas. Fields: submit, gpus, duration (or
        /// start and end), job_id, user, virtual_cluster, group, model, priority, batch_size, cpus,
        /// memory, deadline, user_estimate, attributes.NAME. Units of submit, start, end and deadline:
        /// s (the default), ms, us, ns, min, h, d, epoch, epoch-ms, epoch-us, epoch-ns, date. Units of
        /// durations: s to d, clock (D-HH:MM:SS). Units of GPUs and CPUs: count, percent, milli; less
        /// than one GPU is a part of it. Units of memory: gib, mib, kib, bytes, gb, mb.
        #[cfg_attr(feature = "clap", arg(long, value_name = "MAP", help_heading = "Workload"))]
        pub map: Option<Written<ColumnMap>>,
        /// Folder of throughput tables MODEL.csv, which make jobs with model and batch size elastic; or
        /// Gavel's JSON file with speeds of models by GPU type
        #[cfg_attr(feature = "clap", arg(long, value_name = "PATH", help_heading = "Workload"))]
        pub throughputs: Option<PathBuf>,
        /// Folder of published application tables, one folder per application with step times and
        /// validation curves; used by jobs of the format `sia`
        #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", help_heading = "Workload"))]
        pub data: Option<PathBuf>,
        /// Workload without a file: blox (Blox's published jobs), poisson, bursty, diurnal or another
        /// registered one [default: blox]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME{..}", help_heading = "Workload"))]
        pub workload: Option<Written<ComponentSpec>>,
        /// Parameters of the workload by the keys of [`PARAMETERS`](crate::PARAMETERS).
        #[cfg_attr(feature = "clap", command(flatten))]
        pub workload_parameters: Parameters<OfWorkload>,
        /// Services beside the jobs, such as services{count=2,gpus=4,need=sine:1,6,15}, which need 1 to
        /// 6 copies of 4 GPUs over the day
        ///
        /// `blox policies services` lists the parameters.
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME{..}", help_heading = "Workload"))]
        pub services: Option<Written<ComponentSpec>>,
        /// Add generated losses to jobs that report none, for schedulers that end jobs by their loss
        #[cfg_attr(feature = "clap", arg(long, help_heading = "Workload"))]
        pub losses: bool,
        /// Only the first N jobs
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = crate::value::parser::<NonZeroU64>("a whole number, at least 1"), help_heading = "Workload"))]
        pub jobs: Option<NonZeroU64>,
        /// Seed of workload, faults and policies
        ///
        /// The default, 1, is the seed of Blox's published workload.
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Workload"))]
        pub seed: Option<u64>,

        /// The cluster, such as `8x4:v100,2x8`, or a TOML file.
        #[cfg_attr(
            feature = "clap",
            arg(
                long,
                value_name = "CLUSTER",
                help = "NODESxGPUS[:TYPE][@LAYOUT][=PRICE], separated by commas, with + before an offer of nodes, or a TOML file [default: 32x4]",
                help_heading = "Cluster and policies"
            )
        )]
        pub cluster: Option<String>,
        /// Use only the nodes of this partition, and only the jobs submitted to it
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster and policies"))]
        pub virtual_cluster: Option<String>,
        /// Admission policy that replaces the scheduler's own
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster and policies"))]
        pub admission: Option<Written<ComponentSpec>>,
        /// Placement policy that replaces the scheduler's own
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster and policies"))]
        pub placement: Option<Written<ComponentSpec>>,
        /// Cluster manager that replaces the scheduler's own
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster and policies"))]
        pub cluster_manager: Option<Written<ComponentSpec>>,
        /// Decide in rounds of S seconds [default: the scheduler's own, mostly 300]
        #[cfg_attr(feature = "clap", arg(long, value_name = "S", help_heading = "Cluster and policies"))]
        pub round: Option<RoundLength>,
        /// Decide after each event, at least GAP_S seconds apart
        #[cfg_attr(feature = "clap", arg(long, value_name = "GAP_S", help_heading = "Cluster and policies"))]
        pub on_event: Option<Duration>,

        /// Rule for the time at which ends of jobs are detected: round, exact or a registered NAME{..}
        /// [default: round if there are rounds]
        #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", help_heading = "World"))]
        pub completion: Option<Written<ComponentSpec>>,
        /// Execution model, which defines the speed of jobs [default: the scheduler's own, mostly
        /// as-specified]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME{..}", help_heading = "World"))]
        pub execution: Option<Written<ComponentSpec>>,
        /// Overheads of launches, stops and changes: typical (30 s for each launch), none or another
        /// NAME{..} [default: the next five options. Without these, none for the workload blox, otherwise typical]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME{..}", help_heading = "World"))]
        pub overheads: Option<Written<ComponentSpec>>,
        /// Costs by the keys of [`PARAMETERS`](crate::PARAMETERS), which replace the overheads of every
        /// scheduler.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub overhead_parameters: Parameters<OfOverheads>,
        /// Prices of the cluster's offers over time, and nodes that their provider takes back: a CSV
        /// table with the columns time_s, offer, price and reclaim
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "World"))]
        pub prices: Option<PathBuf>,
        /// Mean hours between failures of a node [default: never]
        #[cfg_attr(feature = "clap", arg(long, value_name = "H", help_heading = "World"))]
        pub node_mtbf_h: Option<MeanTime>,
        /// Mean hours until a failed node returns [default: 1]
        #[cfg_attr(feature = "clap", arg(long, value_name = "H", help_heading = "World"))]
        pub node_mttr_h: Option<Hours>,
        /// Mean running hours between crashes of a job [default: never]
        #[cfg_attr(feature = "clap", arg(long, value_name = "H", help_heading = "World"))]
        pub job_mtbf_h: Option<MeanTime>,
        /// Seconds between checkpoints of a running job [default: none, a crash loses all since its
        /// launch]
        ///
        /// A run ends after 1,000,000 crashes in a row in which no job kept more of its work.
        #[cfg_attr(feature = "clap", arg(long, value_name = "S", help_heading = "World"))]
        pub checkpoint_every_s: Option<Period>,
        /// Probability that a launch fails [default: 0]
        #[cfg_attr(feature = "clap", arg(long, value_name = "P", help_heading = "World"))]
        pub launch_failure: Option<Risk>,
        /// End a run with an error if its scheduler reads true durations of jobs, which no real cluster
        /// knows
        #[cfg_attr(feature = "clap", arg(long, help_heading = "World"))]
        pub forbid_true_durations: bool,
        /// Also visit rounds in which nothing can change; the results are the same
        #[cfg_attr(feature = "clap", arg(long, help_heading = "World"))]
        pub visit_every_round: bool,

        /// Measured jobs, both ends included: numbers 3000..4000 or times 10h..2d (s, m, h, d)
        ///
        /// The simulation ends when they have ended. Numbers are the trace's own ids if all of these
        /// are whole numbers. Otherwise jobs are numbered from 0 in order of submission. Default: all
        /// jobs; 3000..4000 for the endless workload of Blox.
        #[cfg_attr(feature = "clap", arg(long, value_name = "A..B", help_heading = "Results"))]
        pub measure: Option<Written<Measured>>,
        /// End earlier: at a time such as 2000000 or 30d (s, m, h, d), or after a number of completed
        /// jobs such as 5000jobs
        ///
        /// Without it, a run ends when the measured jobs have ended. If the workload is endless, it also
        /// ends when they starve: in 6,000,000 s none of them ended, and none did a tenth of its
        /// remaining work. `finished` continues such a run.
        #[cfg_attr(feature = "clap", arg(long, value_name = "WHEN", help_heading = "Results"))]
        pub until: Option<Written<Limit>>,
        /// Compare each job with a run alone on its fair share of the cluster (finish-time fairness).
        #[cfg_attr(feature = "clap", arg(skip))]
        pub fairness: bool,
    }
}

impl Experiment {
    /// Returns the given settings by key. A path that is not Unicode leaves none.
    pub fn values(&self) -> Map<String, Value> {
        self.try_values().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{CLUSTER, NODE_MTTR_H, SEED, WORKLOAD};
    use blox_registry::ComponentSpec;
    use blox_sim::Measure;
    use blox_sim::faults::Faults;
    use blox_sim::registry::World;

    #[test]
    fn documented_defaults_are_those_in_use() {
        let registry = blox_sim::registry::register(blox_registry::Registry::new());
        let registry = blox_traces::registry::register(registry);
        let blox = ComponentSpec::plain(WORKLOAD);
        let blox = registry.workloads().build(&blox, SEED).unwrap();
        let Measure::Ids(first, last) = blox.measured() else {
            panic!("{:?}", blox.measured());
        };
        let risk = Faults::default().launch_failure;
        let text = include_str!("settings.rs");
        for line in [
            format!("/// registered one [default: {WORKLOAD}]\n"),
            format!("/// The default, {SEED}, is the seed"),
            format!("or a TOML file [default: {CLUSTER}]\","),
            format!("/// Mean hours until a failed node returns [default: {NODE_MTTR_H}]\n"),
            format!("/// Probability that a launch fails [default: {risk}]\n"),
            format!("/// jobs; {first}..{last} for the endless workload of Blox.\n"),
        ] {
            assert!(text.contains(&line), "{line}");
        }
    }
}
