//! The toolkit's own CSV: one row for each job, columns identified by name, see [`Columns`].
//!
//! A row is one line. An empty cell means that the value is unknown. A list may also be a JSON
//! array, for names with a semicolon. Other columns are ignored, with a notice.

use crate::cell::{self, number, values};
use crate::rows::{LONGEST_S, Opened, TOO_LONG, jobs, sensible, work};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{
    Class, Curve, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Share, Time, Work,
};
use blox_core::{LossReports, Sensitivity, SortedMap, TypeSpeeds};
use blox_workloads::text::number_of;
use blox_workloads::{Notices, WorkloadError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::num::NonZeroU32;
use std::sync::Arc;

mod inputs;
mod write;

pub use inputs::{input_cell, input_column_names, input_columns, is_input_column};
pub use write::CsvWriter;

/// Defines the columns in the order in which they are written: for the reader, the writer and the
/// documentation.
macro_rules! columns {
    ($(#[doc = $meaning:literal] $column:ident: $cell:ty,)*) => {
        /// The columns that a set of jobs needs.
        ///
        /// | column | meaning |
        /// |---|---|
        $(#[doc = concat!("| `", stringify!($column), "` |", $meaning, " |")])*
        /// | `attributes.NAME` | an attribute of this name: a number, `true`, `false`, a JSON list or a text; results keep integers beyond 2^53 as texts |
        #[derive(Clone, Debug)]
        pub struct Columns {
            used: [bool; COLUMNS.len()],
        }

        const COLUMNS: [&str; [$(stringify!($column)),*].len()] = [$(stringify!($column)),*];

        #[derive(Deserialize)]
        struct Row {
            $($column: $cell,)*
        }

        #[derive(Default)]
        struct Texts {
            $($column: String,)*
        }

        impl Texts {
            fn into_array(self) -> [String; COLUMNS.len()] {
                [$(self.$column),*]
            }
        }
    };
}

columns! {
    /// the job's identifier
    job_id: Option<Column>,
    /// submission, in seconds since the start (needed)
    submit_s: Column<Time>,
    /// requested GPUs, at least 1 (needed)
    gpus: Column<Gang>,
    /// the part of each GPU, from 1/21000 to 1
    gpu_share: Option<Column<Part>>,
    /// the part of the memory of each GPU, from 1/21000 to 1
    gpu_memory_share: Option<Column<Part>>,
    /// seconds on these GPUs (needed; empty if `iterations` and `rate_per_s` are given)
    duration_s: Column<Seconds>,
    /// work
    iterations: Option<Column<f64>>,
    /// iterations per second on these GPUs
    rate_per_s: Option<Column<Rate>>,
    /// name of the user
    user: Option<Column>,
    /// name of the virtual cluster
    virtual_cluster: Option<Column>,
    /// name of the group
    group: Option<Column>,
    /// a whole number, larger is more urgent
    priority: Option<Column<i32>>,
    /// name of the model
    model: Option<Column>,
    /// samples in one step over all GPUs
    batch_size: Option<Column<Samples>>,
    /// for all GPUs together
    cpus: Option<Column<f64>>,
    /// for all GPUs together
    memory_gib: Option<Column<f64>>,
    /// `600`, or `600:2.5` with the value of meeting it; several separated by `;`
    deadline_s: Option<Column<Vec<Deadline>>>,
    /// `guaranteed`, `best-effort`, or `spot:3600` with the seconds that a launch should run
    class: Option<Column<Class>>,
    /// GPU counts of an elastic job, such as `1;2;4`
    levels: Option<Column<Vec<GpuCount>>>,
    /// iterations per second at each level, such as `1.5;2.8;5`; on these GPUs equal to `rate_per_s`
    rates: Option<Column<Vec<f64>>>,
    /// the only GPU types, such as `v100;a100`
    gpu_types: Option<Column<Vec<Name>>>,
    /// the number of nodes on which the job must run, with an equal part of the GPUs on each
    nodes: Option<Column<NonZeroU32>>,
    /// iterations per second on each GPU type, such as `v100:1;a100:2.5`; or JSON, see [`TypeSpeeds`](blox_core::TypeSpeeds)
    speeds: Option<Column<Arc<TypeSpeeds>>>,
    /// the user's estimate of the duration
    user_estimate_s: Option<Column<Seconds>>,
    /// JSON: an array of strings
    command: Option<Column<Vec<String>>>,
    /// JSON: an object
    attributes: Option<Column<SortedMap<Name, Value>>>,
    /// JSON: speed by CPUs and memory, see [`Sensitivity`](blox_core::Sensitivity)
    sensitivity: Option<Column<Arc<Sensitivity>>>,
    /// JSON: its loss curve, see [`LossReports`](blox_core::LossReports)
    loss: Option<Column<LossReports>>,
    /// share of a step spent on exchange over the best links, from 0 to below 1
    communication: Option<Column<Exchange>>,
    /// Gbit/s over the network within an iteration: `SECONDS:VALUE` pairs with `;` between them, then `/` and the seconds of an iteration
    traffic: Option<Column<Curve>>,
    /// copies of its GPUs that a service needs, such as `0:2;28800:5/86400`: seconds and copies, then the period
    need: Option<Column<Curve>>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&[], notices)?;
    let mut names = SharedNames::default();
    jobs(table, sensible, move |t, _| Ok(job(t, &row, &mut names)?))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, WorkloadError> {
    let (submit, Gang(gpus)) = (t.get(row.submit_s)?, t.get(row.gpus)?);
    if submit.secs() > LONGEST_S {
        return Err(t.wrong(row.submit_s, TOO_LONG));
    }
    let mut job = JobSpec::new(submit, gpus, Seconds::ZERO);
    let extras = extras(t, row, names)?;
    job.work = work_of(t, row, gpus, &extras)?;
    job.name = t.optional(row.job_id).map(|(_, text)| text.into());
    job.user = name(t, row.user, names);
    job.virtual_cluster = name(t, row.virtual_cluster, names);
    job.priority = t.value(row.priority)?.unwrap_or(0);
    if extras != Extras::default() {
        job = job.with_extras(extras);
    }
    Ok(job)
}

/// Returns the work. Iterations and rate take precedence; the duration supplies the missing one.
fn work_of(t: &Table, row: &Row, gpus: GpuCount, extras: &Extras) -> Result<Work, WorkloadError> {
    let duration = t.value(Some(row.duration_s))?.map(Seconds::secs);
    let iterations = t.value(row.iterations)?;
    let rate = t.value(row.rate_per_s)?.map(|Rate(rate)| rate);
    match (duration, iterations, rate) {
        (duration, Some(iterations), Some(rate)) => {
            let implied = iterations / rate;
            if duration.is_some_and(|d| (d - implied).abs() > 1e-6 * implied.max(1.0)) {
                let expected = format!("{implied} as iterations / rate_per_s, or an empty cell");
                return Err(t.wrong(row.duration_s, &expected));
            }
            Ok(Work { iterations, rate })
        }
        (Some(duration), Some(iterations), None) if iterations / duration > 0.0 => {
            Ok(work(iterations, duration))
        }
        (Some(duration), None, rate) => {
            let rate = rate.map_or_else(|| profiled(t, row, gpus, extras), Ok)?;
            let iterations = duration * rate;
            Ok(Work { iterations, rate })
        }
        (Some(_), Some(_), None) => {
            let expected = "above 0 and iterations too, or rate_per_s beside them";
            Err(t.wrong(row.duration_s, expected))
        }
        (None, _, _) => {
            let expected = "a number of seconds, or iterations and rate_per_s beside it";
            Err(t.wrong(row.duration_s, expected))
        }
    }
}

/// Returns the rate on the GPUs that the job requests, in the unit of `rates`; 1 if the job has no
/// `rates`.
fn profiled(t: &Table, row: &Row, gpus: GpuCount, extras: &Extras) -> Result<f64, WorkloadError> {
    let Some((rates, _)) = t.optional(row.rates) else {
        return Ok(1.0);
    };
    let mut profile = extras.levels.iter().zip(&extras.rates);
    match profile.find(|(level, _)| **level == gpus) {
        Some((_, rate)) if *rate > 0.0 => Ok(*rate),
        _ => {
            let own = number_of(u64::from(gpus.get()), "GPU");
            let expected = format!("one above 0 on {own} too, or rate_per_s beside duration_s");
            Err(t.wrong(rates, &expected))
        }
    }
}

fn extras(t: &Table, row: &Row, names: &mut SharedNames) -> Result<Extras, WorkloadError> {
    Ok(Extras {
        model: name(t, row.model, names),
        group: name(t, row.group, names),
        batch_size: t.value(row.batch_size)?.map(|Samples(n)| n),
        share: share(t, row)?,
        cpus: t.value(row.cpus)?.unwrap_or(0.0),
        memory_gib: t.value(row.memory_gib)?.unwrap_or(0.0),
        deadlines: t.value(row.deadline_s)?.unwrap_or_default(),
        class: t.value(row.class)?.unwrap_or_default(),
        levels: t.value(row.levels)?.unwrap_or_default(),
        rates: t.value(row.rates)?.unwrap_or_default(),
        gpu_types: t.value(row.gpu_types)?.unwrap_or_default(),
        nodes: t.value(row.nodes)?,
        speeds: t.value(row.speeds)?,
        user_estimate: t.value(row.user_estimate_s)?,
        command: t.value(row.command)?.unwrap_or_default(),
        attributes: t.value(row.attributes)?.unwrap_or_default(),
        sensitivity: t.value(row.sensitivity)?,
        loss: t.value(row.loss)?,
        communication: t
            .value(row.communication)?
            .map_or(0.0, |Exchange(part)| part),
        traffic: t.value(row.traffic)?,
        need: t.value(row.need)?,
        ..Extras::default()
    })
}

/// Returns the part of each GPU.
fn share(t: &Table, row: &Row) -> Result<Share, WorkloadError> {
    let compute = t
        .value(row.gpu_share)?
        .map_or(Share::WHOLE, |Part(part)| part);
    Ok(match t.value(row.gpu_memory_share)? {
        Some(Part(memory)) => compute.with_memory_of(memory),
        None => compute,
    })
}

/// A number of GPUs, at least 1.
struct Gang(GpuCount);

impl cell::Value for Gang {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let part = number(text, |x| x > 0.0 && x.fract() != 0.0);
        GpuCount::parse(text)
            .map(Gang)
            .map_err(|expected| match part {
                Some(_) => "a whole number of at least 1; gpu_share states the part of each GPU",
                None => expected,
            })
    }
}

/// A number above 0.
struct Rate(f64);

/// A number of samples.
struct Samples(u32);

/// A share of a step of at least 0 and below 1.
struct Exchange(f64);

/// A part from 1/21000 to 1.
struct Part(Share);

values! {
    Rate: "a number above 0", |t| number(t, |x| x > 0.0).map(Rate);
    Samples: "a whole number of at least 0", |t| t.trim().parse().ok().map(Samples);
    Exchange: "a share of at least 0 and below 1", |t| number(t, |x| (0.0..1.0).contains(&x)).map(Exchange);
    Part: "a part from 1/21000 to 1", |t| t.trim().parse().ok().and_then(Share::of).map(Part);
    i32: "a whole number of 32 bits", |t| t.trim().parse().ok();
    Class: "guaranteed, best-effort, spot or spot:SECONDS", |t| t.trim().parse().ok();
    Vec<Deadline>: "SECONDS or SECONDS:VALUE, joined by `;`, the earliest first", |t| {
        list(t, deadline).filter(|all| all.is_sorted_by_key(|d| d.at))
    };
    Vec<GpuCount>: "ascending counts of at least 1, joined by `;`", |t| {
        list(t, |n| n.parse().ok().map(GpuCount))
            .filter(|l| l.is_sorted() && l.first() != Some(&GpuCount::ZERO))
    };
    Vec<f64>: "a number of at least 0 a level, joined by `;`", |t| {
        list(t, |r| r.parse().ok()).filter(|all| all.iter().all(|r: &f64| r.is_finite() && *r >= 0.0))
    };
    Vec<Name>: "names joined by `;`, or a JSON array", |t| match t.starts_with('[') {
        true => json(t),
        // Types are joined by `;`: a name with a comma is a list that no reader splits.
        false => list(t, |name| (!name.contains(',')).then(|| Name::from(name))),
    };
    Arc<TypeSpeeds>: "TYPE:RATE with a rate of at least 0 iterations per second, joined by `;`, each type once", speeds;
    Vec<String>: "a JSON array of strings", json;
    SortedMap<Name, Value>: "a JSON object", json;
    Arc<Sensitivity>: "a JSON object of cpus, memory_gib and speed, with a row of speeds a number of CPUs", json;
    Curve: "SECONDS:VALUE joined by `;`, ascending from 0, then /PERIOD, above the last", |t| t.parse().ok();
    LossReports: "a JSON object of curve, with b0, b1 and b2, and epoch", json;
}

fn name(t: &Table, column: Option<Column>, names: &mut SharedNames) -> Option<Name> {
    t.optional(column).map(|(_, text)| names.get(text))
}

fn json<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Parses a list of values separated by `;`.
fn list<'a, T>(text: &'a str, parse: impl Fn(&'a str) -> Option<T>) -> Option<Vec<T>> {
    text.split(';').map(|part| parse(part.trim())).collect()
}

/// Parses speeds by GPU type. A type occurs once.
fn speeds(text: &str) -> Option<Arc<TypeSpeeds>> {
    let speeds = match text.trim().starts_with('{') {
        true => json(text)?,
        false => {
            let mut speeds = TypeSpeeds::default();
            for (gpu_type, rate) in list(text, speed)? {
                if speeds.alone(gpu_type).is_some() {
                    return None;
                }
                speeds.set(gpu_type, rate);
            }
            speeds
        }
    };
    speeds.is_sound().then(|| speeds.into())
}

fn speed(text: &str) -> Option<(&str, f64)> {
    let (gpu_type, rate) = text.rsplit_once(':')?;
    let gpu_type = gpu_type.trim();
    Some((gpu_type, rate.trim().parse().ok()?)).filter(|_| !gpu_type.is_empty())
}

fn deadline(text: &str) -> Option<Deadline> {
    let (at, value) = text.split_once(':').unwrap_or((text, "1"));
    let value: f64 = value.trim().parse().ok()?;
    Some(Deadline {
        at: Time::try_new(at.trim().parse().ok()?)?,
        value: value.is_finite().then_some(value)?,
    })
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = r#"job_id,submit_s,gpus,duration_s,iterations,rate_per_s,user,priority,deadline_s,levels,gpu_types,command,attributes,loss,communication
a,0,1,60,,,ada,-3,600;900:0.5,1;2;4,v100;a100,"[""x"",""y""]","{""k"":1}",,0.25
b,1.5,4,,120,2,"b,o",,,,,,,"{""curve"":{""b0"":0.5,""b1"":0.2,""b2"":0.1},""epoch"":10.0}",
c,1.5,8,1e3,10,,,,,,,,,,
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_core::LossCurve;
    use blox_workloads::{NoticeKind, Workload, collect};
    use proptest::prelude::*;

    fn write_csv(out: impl std::io::Write, jobs: &[JobSpec]) -> Result<(), WorkloadError> {
        let mut columns = Columns::default();
        for job in jobs {
            columns.include(job);
        }
        let mut writer = CsvWriter::new(out, columns)?;
        for job in jobs {
            writer.write(job)?;
        }
        writer.finish()
    }

    fn read_text(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("jobs.csv", text.as_bytes(), Format::Csv)
    }

    fn message(text: &str) -> String {
        read_text(text).unwrap_err().to_string()
    }

    #[test]
    fn rows_are_jobs() {
        let mut workload = read_text(
            "\u{feff}job_id,submit_s,gpus,duration_s,user,model,deadline_s,gpu_types,levels\r\n\
             a,0,1,60,ada,,,,\r\n\
             b,1.5,4,3600,,resnet,600;900:0.5,v100;a100,1;2;4\r\n",
        )
        .unwrap();
        assert_eq!(workload.describe(), "jobs.csv (csv, 2 jobs)");
        assert!(workload.notices().is_empty());
        let jobs = collect(&mut workload).unwrap();
        let plain = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
        assert_eq!(jobs[0], plain.named("a").owned_by("ada"));
        let extras = jobs[1].extras();
        assert_eq!(extras.model.as_deref(), Some("resnet"));
        assert_eq!(extras.gpu_types, ["v100".into(), "a100".into()]);
        assert_eq!(extras.levels, [GpuCount(1), GpuCount(2), GpuCount(4)]);
        let deadlines = [(600.0, 1.0), (900.0, 0.5)].map(|(at, value)| Deadline {
            at: Time::new(at),
            value,
        });
        assert_eq!(extras.deadlines, deadlines);
    }

    #[test]
    fn the_earliest_deadline_comes_first() {
        let with = |cell: &str| {
            read_text(&format!(
                "submit_s,gpus,duration_s,deadline_s,gpu_types\n0,1,60,{cell}\n"
            ))
        };
        let refused = with("1200;600,").and_then(|mut w| collect(&mut w));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "jobs.csv:2: deadline_s is `1200;600`, expected SECONDS or SECONDS:VALUE, joined by `;`, the earliest first"
        );
        let jobs = collect(&mut with("600;600;1200,v100; a100").unwrap()).unwrap();
        assert_eq!(jobs[0].extras().deadlines.len(), 3);
        assert_eq!(jobs[0].extras().gpu_types, ["v100".into(), "a100".into()]);
    }

    #[test]
    fn parts_of_gpus_are_a_column() {
        let read = |gpus: &str, part: &str| -> Result<JobSpec, WorkloadError> {
            let text = format!("submit_s,gpus,gpu_share,duration_s\n0,{gpus},{part},60\n");
            Ok(collect(&mut read_text(&text)?)?.remove(0))
        };
        assert_eq!(
            Some(read("2", "0.5").unwrap().extras().share),
            Share::parts(1, 2)
        );
        for part in ["1e-9", "nan", "1.5", "0"] {
            assert_eq!(
                read("2", part).unwrap_err().to_string(),
                format!("jobs.csv:2: gpu_share is `{part}`, expected a part from 1/21000 to 1")
            );
        }
        assert_eq!(
            read("0.5", "").unwrap_err().to_string(),
            "jobs.csv:2: gpus is `0.5`, expected a whole number of at least 1; gpu_share states the part of each GPU"
        );
    }

    #[test]
    fn plans_that_no_job_can_follow_are_errors() {
        let read = |gpus: u32, params: &str, plan: &str| {
            let head = "submit_s,gpus,duration_s,attributes.params_b,attributes.plan";
            let mut workload = read_text(&format!("{head}\n0,{gpus},60,{params},{plan}\n"))?;
            collect(&mut workload)
        };
        assert!(read(8, "7", "tp=2 pp=4").is_ok());
        // Without a model, this is an attribute of another meaning.
        assert!(read(8, "", "gold").is_ok());
        for (params, plan, error) in [
            (
                "7",
                "tp=3",
                "plan is `\"tp=3\"`, expected tp times pp that divides the GPUs of the job, or a row of `plans` on these GPUs",
            ),
            (
                "7",
                "tp=0",
                "plan is `\"tp=0\"`, expected a plan such as `tp=2 pp=4`, with whole tp and pp from 1, zero to 3 and offload to 1",
            ),
            (
                "abc",
                "tp=2",
                "params_b is `\"abc\"`, expected billions of parameters, a number above 0",
            ),
        ] {
            assert_eq!(
                read(8, params, plan).unwrap_err().to_string(),
                format!("jobs.csv:2: attributes.{error}")
            );
        }
    }

    #[test]
    fn curves_are_columns() {
        let read = |cell: &str| -> Result<JobSpec, WorkloadError> {
            let text = format!("submit_s,gpus,duration_s,need\n0,1,60,{cell}\n");
            Ok(collect(&mut read_text(&text)?)?.remove(0))
        };
        let job = read("0:2; 28800:5/86400").unwrap();
        let need = job.extras().need.as_ref().unwrap();
        assert_eq!(need.period(), Seconds::new(86400.0));
        let steps = [(0.0, 2.0), (28800.0, 5.0)].map(|(at, n)| (Seconds::new(at), n));
        assert_eq!(need.steps(), steps);
        for cell in [
            "3",
            "0:2",
            "0:2/0",
            "1:2/60",
            "0:2;60:1/60",
            "0:-1/60",
            "0:x/60",
        ] {
            assert_eq!(
                read(cell).unwrap_err().to_string(),
                format!(
                    "jobs.csv:2: need is `{cell}`, expected SECONDS:VALUE joined by `;`, ascending from 0, then /PERIOD, above the last"
                )
            );
        }
    }

    #[test]
    fn speeds_by_type_are_a_column() {
        let read = |cell: &str| -> Result<JobSpec, WorkloadError> {
            let text = format!("submit_s,gpus,duration_s,speeds\n0,1,60,{cell}\n");
            Ok(collect(&mut read_text(&text)?)?.remove(0))
        };
        let job = read("v100:1;a100: 2.5;k80:0").unwrap();
        let speeds = job.extras().speeds.as_deref().unwrap();
        assert_eq!(speeds.alone("v100"), Some(1.0));
        assert_eq!(speeds.alone("a100"), Some(2.5));
        assert_eq!(speeds.alone("k80"), Some(0.0));
        assert!(!job.extras().runs_on("k80") && job.extras().runs_on("a100"));
        // A duration is the time at rate 1: 60 s on the v100, 24 s on the a100.
        assert_eq!((job.work.iterations, job.work.rate), (60.0, 1.0));
        assert!(read("").unwrap().extras.is_none());
        for cell in [
            "v100",
            "v100:x",
            "v100:-1",
            "v100:1;v100:2",
            ":1",
            "v100:1;",
        ] {
            assert_eq!(
                read(cell).unwrap_err().to_string(),
                format!(
                    "jobs.csv:2: speeds is `{cell}`, expected TYPE:RATE with a rate of at least 0 iterations per second, joined by `;`, each type once"
                )
            );
        }
    }

    #[test]
    fn own_columns_become_attributes() {
        let text = "submit_s,gpus,duration_s,attributes.app_class,attributes.level,attributes\n\
                    0,1,60,bert,2.5,\"{\"\"x\"\":1}\"\n1,1,60,,,\n2,1,60,\"[1, 2.5]\",[1,\n";
        let mut read = read_text(text).unwrap();
        assert!(read.notices().is_empty());
        let jobs = collect(&mut read).unwrap();
        let of = |name: &str| jobs[0].attribute(name).cloned();
        assert_eq!(of("app_class"), Some("bert".into()));
        assert_eq!((of("level"), of("x")), (Some(2.5.into()), Some(1.into())));
        assert_eq!(jobs[1].extras, None);
        let list = serde_json::json!([1, 2.5]);
        assert_eq!(jobs[2].attribute("app_class"), Some(&list));
        // Written jobs read back unchanged.
        let mut written = Vec::new();
        write_csv(&mut written, &jobs).unwrap();
        let again = read_text(std::str::from_utf8(&written).unwrap()).unwrap();
        assert_eq!(collect(&mut { again }).unwrap(), jobs);
    }

    #[test]
    fn rows_out_of_order_are_sorted_and_noticed() {
        let mut workload = read_text(
            "job_id,submit_s,gpus,duration_s,colour\nc,5,1,1,x\nb,1,1,0,x\na,5,1,1,x\nd,1,1,1,x\n",
        )
        .unwrap();
        assert_eq!(workload.notices().count(&NoticeKind::OutOfOrder), 2);
        let unknown = NoticeKind::IgnoredColumn("colour".into());
        assert_eq!(workload.notices().count(&unknown), 1);
        assert_eq!(workload.notices().count(&NoticeKind::NoWork), 1);
        let names: Vec<_> = collect(&mut workload)
            .unwrap()
            .iter()
            .map(|j| j.name.as_deref().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(names, ["b", "d", "c", "a"]);
    }

    #[test]
    fn work_comes_from_any_two_of_three_columns() {
        let header = "submit_s,gpus,duration_s,iterations,rate_per_s";
        let work = |cells: &str| {
            let mut workload = read_text(&format!("{header}\n0,1,{cells}\n")).unwrap();
            let work = collect(&mut workload).unwrap()[0].work;
            (work.iterations, work.rate)
        };
        assert_eq!(work("60,,"), (60.0, 1.0));
        assert_eq!(work("60,120,"), (120.0, 2.0));
        assert_eq!(work("60,,0.5"), (30.0, 0.5));
        assert_eq!(work(",30,0.5"), (30.0, 0.5));
        assert_eq!(work("60,30,0.5"), (30.0, 0.5));
        assert_eq!(
            message(&format!("{header}\n0,1,61,30,0.5\n")),
            "jobs.csv:2: duration_s is `61`, expected 60 as iterations / rate_per_s, or an empty cell"
        );
        assert_eq!(
            message(&format!("{header}\n0,1,,30,\n")),
            "jobs.csv:2: duration_s is ``, expected a number of seconds, or iterations and rate_per_s beside it"
        );
    }

    #[test]
    fn profiled_job_lasts_its_duration_on_its_own_gpus() {
        let header = "submit_s,gpus,duration_s,iterations,rate_per_s,levels,rates";
        let read = |cells: &str| -> Result<JobSpec, WorkloadError> {
            let mut workload = read_text(&format!("{header}\n0,{cells}\n"))?;
            Ok(collect(&mut workload)?.remove(0))
        };
        for cells in [
            "2,3600,,,1;2;4,1.5;2.8;5",
            "2,3600,10080,,1;2;4,1.5;2.8;5",
            "2,,10080,2.8,1;2;4,1.5;2.8;5",
        ] {
            let job = read(cells).unwrap();
            assert_eq!(job.work.iterations, 10_080.0);
            let rate = job.rate_at(job.gpus).unwrap();
            for seconds in [job.duration().secs(), job.work.iterations / rate] {
                assert!((seconds - 3600.0).abs() < 1e-9, "{seconds}");
            }
            let mut csv = Vec::new();
            write_csv(&mut csv, std::slice::from_ref(&job)).unwrap();
            let mut again = read_bytes("x.csv", &csv, Format::Csv).unwrap();
            assert_eq!(collect(&mut again).unwrap(), [job]);
        }
        // The rates do not cover 2 GPUs, so the job's own rate applies and is written.
        let job = read("2,3600,,1,1;4,1.5;5").unwrap();
        let mut csv = Vec::new();
        write_csv(&mut csv, std::slice::from_ref(&job)).unwrap();
        let mut again = read_bytes("x.csv", &csv, Format::Csv).unwrap();
        assert_eq!(collect(&mut again).unwrap(), [job]);
        let refused = |cells: &str| read(cells).unwrap_err().to_string();
        assert_eq!(
            refused("2,3600,,,1;4,1.5;5"),
            "jobs.csv:2: rates is `1.5;5`, expected one above 0 on 2 GPUs too, or rate_per_s beside duration_s"
        );
        assert_eq!(
            refused("2,3600,,1,1;2;4,1.5;2.8;5"),
            "jobs.csv:2: extras.rates is `2.8 on 2 GPUs`, expected 1 there, the job's own rate"
        );
        assert_eq!(
            refused("2,3600,,,1;2;4,1.5;2.8"),
            "jobs.csv:2: extras.rates is `[1.5, 2.8]`, expected a finite number that is not negative for each of the levels"
        );
    }

    #[test]
    fn a_bad_cell_names_line_and_column() {
        assert_eq!(
            message("submit_s,gpus,duration_s\n0,1,60\nNaN,1,60\n"),
            "jobs.csv:3: submit_s is `NaN`, expected a number of seconds, at least 0"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,class\n0,1,60,gold\n"),
            "jobs.csv:2: class is `gold`, expected guaranteed, best-effort, spot or spot:SECONDS"
        );
        assert_eq!(
            message("submit_s,gpus,duration\n"),
            "jobs.csv:1: the column duration_s is missing, found the columns submit_s, gpus, duration; is `duration` meant for duration_s?"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,communication\n0,1,60,1\n"),
            "jobs.csv:2: communication is `1`, expected a share of at least 0 and below 1"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,loss\n0,1,60,0.5\n"),
            "jobs.csv:2: loss is `0.5`, expected a JSON object of curve, with b0, b1 and b2, and epoch"
        );
        for cells in ["1,1.5,1", "1,0,1", "1,1,-1", "-1,1,1", "1,1,inf", "x,1,1"] {
            assert!(read_text(&format!("submit_s,gpus,duration_s\n{cells}\n")).is_err());
        }
    }

    #[test]
    fn a_header_alone_is_an_empty_workload() {
        let mut workload = read_text("submit_s,gpus,duration_s").unwrap();
        assert_eq!(workload.next_job().unwrap(), None);
    }

    #[test]
    fn only_needed_columns_are_written() {
        let job = JobSpec::new(Time::new(1.5), GpuCount(2), Seconds::new(60.0));
        let mut out = Vec::new();
        write_csv(&mut out, &[job.clone().owned_by("a,b"), job]).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "submit_s,gpus,duration_s,user\n1.5,2,60,\"a,b\"\n1.5,2,60,\n"
        );
    }

    #[test]
    fn name_with_a_line_break_is_not_written_as_csv() {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)).owned_by("a\nb");
        assert_eq!(
            write_csv(Vec::new(), &[job]).unwrap_err().to_string(),
            "jobs cannot be written: user is `a\\nb`, expected no line break in a row of CSV, \
             JSON lines may have one"
        );
    }

    fn any_speeds() -> impl Strategy<Value = TypeSpeeds> {
        let alone = proptest::collection::vec((any::<String>(), 0.0..1e9), 0..3);
        let beside = proptest::option::of((any::<String>(), any::<String>(), 0.0..1e9));
        (alone, beside).prop_map(|(alone, beside)| {
            let mut speeds = TypeSpeeds::default();
            for (gpu_type, rate) in alone {
                speeds.set(gpu_type, rate);
            }
            if let Some((gpu_type, other, rate)) = beside {
                speeds.set_beside(gpu_type, other, rate, 1.0);
            }
            speeds
        })
    }

    fn any_curve((x, y, a, b): (f64, f64, f64, f64)) -> Option<Curve> {
        let [first, second, period] = [0.0, x, x + y].map(Seconds::new);
        Curve::new(period, [(first, a), (second, b)])
    }

    fn any_job() -> impl Strategy<Value = JobSpec> {
        let name = || proptest::option::of(any::<String>().prop_filter("", |s| !s.is_empty()));
        let amount = || prop_oneof![Just(0.0), 0.0..1e9];
        let rate = prop_oneof![Just(1.0), 1.0..1e6];
        let base = (amount(), 1u32.., amount(), rate, any::<i32>());
        let names = (name(), name(), name(), name(), name());
        let lists = (
            proptest::collection::vec(1u32.., 0..3),
            proptest::collection::vec(any::<String>(), 0..3),
            proptest::collection::vec((amount(), amount()), 0..3),
            proptest::collection::vec(any::<String>(), 0..3),
            proptest::collection::btree_map(any::<String>(), amount(), 0..2),
        );
        let rest = (
            proptest::option::of(any::<u32>()),
            amount(),
            amount(),
            proptest::option::of(amount()),
            proptest::option::of(amount()),
            proptest::option::of((1e-6..1e6, 1e-6..1e6)),
            prop_oneof![Just(0.0), 0.0..1.0],
            proptest::option::of((0.0..1e3, 1e-6..1e3, 0.0..1e3, 1e-6..1e9)),
            proptest::option::of(any_speeds()),
            proptest::option::of((1e-3..1e6, 1e-3..1e6, amount(), amount())),
            (1u32..=21_000, proptest::option::of(1u32..=21_000)),
        );
        (base, names, lists, rest).prop_map(|(base, names, lists, rest)| {
            let mut job = JobSpec::new(Time::new(base.0), GpuCount(base.1), Seconds::ZERO);
            job.work = Work {
                iterations: base.2,
                rate: base.3,
            };
            job.priority = base.4;
            let [job_name, user, vc, model, group] =
                [names.0, names.1, names.2, names.3, names.4].map(|n| n.map(Name::from));
            (job.name, job.user, job.virtual_cluster) = (job_name, user, vc);
            let mut levels: Vec<_> = lists.0.into_iter().map(GpuCount).collect();
            levels.sort();
            let rates = levels.iter().map(|_| rest.1).collect();
            let nodes = (levels.is_empty() && base.4 > 0).then_some(NonZeroU32::MIN);
            let mut deadlines = lists.2;
            deadlines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let extras = Extras {
                model,
                group,
                levels,
                rates,
                gpu_types: lists.1.into_iter().map(Name::from).collect(),
                nodes,
                deadlines: deadlines
                    .into_iter()
                    .map(|(at, value)| Deadline {
                        at: Time::new(at),
                        value,
                    })
                    .collect(),
                command: lists.3,
                attributes: lists
                    .4
                    .into_iter()
                    .map(|(k, v)| (Name::from(k), v.into()))
                    .collect(),
                batch_size: rest.0,
                share: {
                    let compute = Share::parts(rest.10.0, 21_000).unwrap();
                    let memory = |n| compute.memory(n, 21_000).unwrap();
                    rest.10.1.map_or(compute, memory)
                },
                cpus: rest.1,
                memory_gib: rest.2,
                class: match rest.3 {
                    None => Class::Guaranteed,
                    Some(guaranteed) => Class::Spot {
                        guaranteed: Seconds::new(guaranteed),
                    },
                },
                user_estimate: rest.4.map(Seconds::new),
                sensitivity: rest.5.map(|(point, speed)| {
                    let table = Sensitivity::new(vec![point], vec![0.0], vec![vec![speed]]);
                    Arc::new(table.unwrap())
                }),
                communication: if rest.9.is_some() { 0.0 } else { rest.6 },
                traffic: rest.9.and_then(any_curve),
                need: rest.9.and_then(|(x, y, a, b)| any_curve((y, x, b, a))),
                speeds: rest.8.map(Arc::new),
                loss: rest.7.map(|(b0, b1, b2, epoch)| LossReports {
                    curve: LossCurve { b0, b1, b2 },
                    epoch,
                }),
                ..Extras::default()
            };
            if extras != Extras::default() {
                job = job.with_extras(extras);
            }
            job
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn written_jobs_are_read_back(mut jobs in proptest::collection::vec(any_job(), 1..4)) {
            jobs.sort_by_key(|job| job.submit);
            for (i, job) in jobs.iter_mut().enumerate() {
                job.name = job.name.take().map(|name| format!("{i}{name}").into());
            }
            let mut csv = Vec::new();
            write_csv(&mut csv, &jobs).unwrap();
            let mut workload = read_bytes("x.csv", &csv, Format::Csv).unwrap();
            prop_assert_eq!(&collect(&mut workload).unwrap(), &jobs);

            let mut lines = Vec::new();
            crate::formats::jsonl::write_jsonl(&mut lines, &jobs).unwrap();
            let mut workload =
                read_bytes("x.jsonl", &lines, Format::Jsonl).unwrap();
            prop_assert_eq!(&collect(&mut workload).unwrap(), &jobs);
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in any::<String>(), rows in any::<Vec<u8>>()) {
            let _ = read_text(&text);
            let mut bytes = b"submit_s,gpus,duration_s,deadline_s,gpu_types,attributes\n".to_vec();
            bytes.extend(rows);
            let _ = read_bytes("x.csv", &bytes, Format::Csv);
            let _ = read_bytes("x.jsonl", &bytes, Format::Jsonl);
        }
    }
}
