//! Accounting of a Slurm cluster: the output of `sacct --parsable2` with any selection of fields.
//!
//! ```text
//! sacct --allusers --allocations --parsable2 --starttime 2024-01-01 \
//!     --format JobID,User,Account,Partition,State,Submit,Start,Elapsed,Timelimit,ReqTRES,AllocTRES
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `JobID` or `JobIDRaw` | the job's name: `17`, `17_4` of an array, `17+1` of a heterogeneous job |
//! | `Submit` | date, in local time of the cluster |
//! | `State` | `PENDING`, `CONFIGURING` and `REQUEUED` have not started; `RUNNING`, `SUSPENDED` and `COMPLETING` have not ended; any other has ended |
//! | `Start` | date, or `Unknown` or `None` if it never started; may be missing |
//! | `End` | date of the end; `Unknown` if it had not ended |
//! | `ElapsedRaw` or `Elapsed` | how long it ran: seconds, or `[DAYS-]HOURS:MINUTES:SECONDS`; without both, the time from `Start` to `End` |
//! | `AllocTRES`, `ReqTRES` | resources allocated and requested: `cpu=8,mem=64G,node=1,gres/gpu=4` |
//! | `AllocGRES`, `ReqGRES` | older versions, instead of them: `gpu:4` or `gpu:tesla:2`, for the whole job |
//! | `Timelimit` | the user's estimate; empty if there is no limit |
//! | `User`, `Partition`, `Account` | user, virtual cluster, group; may be missing |
//!
//! One field of resources is needed. The number of GPUs is `gres/gpu`, or the sum of
//! `gres/gpu:TYPE`. It comes from `AllocTRES` if that field has GPUs, otherwise from `ReqTRES`,
//! `AllocGRES` or `ReqGRES`. CPUs and memory come from the same field. If a
//! job requests a GPU type, it runs on that type only. The earliest job is submitted at 0. The log
//! does not record changes to or from summer time; they shift later times by an hour. Jobs that
//! failed, timed out or were cancelled keep their recorded duration. Other fields are left out.
//! Output of `--parsable`, with a bar at the end of each line, is accepted, as is another
//! `--delimiter` (semicolon, tab, or comma with quoted fields).
//!
//! Dropped, with a notice: steps (`17.batch`, `17.0`); jobs without GPUs; jobs that never started;
//! jobs that had not ended.

use super::supercloud::gres;
use crate::cell::{Date, number, values};
use crate::moment::parse_elapsed;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::{Source, first_line};
use crate::table::{Column, Layout, SharedNames, Table, is_null, separator};
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// The fields with resources, of which one is needed.
const RESOURCES: [&str; 4] = ["AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"];

/// An allocation or a step.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    #[serde(rename = "JobID")]
    job_id: Column,
    submit: Column<Date>,
    elapsed: Option<Column<Elapsed>>,
    state: Option<Column>,
    #[serde(rename = "AllocTRES")]
    allocated: Option<Column<Resources>>,
    #[serde(rename = "ReqTRES")]
    requested: Option<Column<Resources>>,
    #[serde(rename = "AllocGRES")]
    allocated_gres: Option<Column<Gres>>,
    #[serde(rename = "ReqGRES")]
    requested_gres: Option<Column<Gres>>,
    start: Option<Column<Date>>,
    end: Option<Column<Date>>,
    timelimit: Option<Column<Limit>>,
    user: Option<Column>,
    partition: Option<Column>,
    account: Option<Column>,
}

pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let delimiter = separator(&first_line(source)?);
    let layout = Layout {
        delimiter,
        quotes: delimiter != b'|',
        columns: &[],
    };
    let table = Table::open_as(source, layout)?;
    let has = |name: &str| table.find(name).is_some();
    let named = |field| match field {
        // The readable name distinguishes the jobs of an array. It is used unless only the raw name
        // is there.
        "JobID" if has("JobIDRaw") && !has("JobID") => "JobIDRaw",
        "Elapsed" if has("ElapsedRaw") => "ElapsedRaw",
        _ => field,
    };
    let mut needed = vec![named("JobID"), "Submit"];
    let times = has(named("Elapsed")) || has("Start") && has("End");
    needed.extend((!times).then_some("Elapsed"));
    needed.extend((!RESOURCES.iter().any(|name| has(name))).then_some("AllocTRES"));
    table.require_all(&needed)?;
    let row: Row = table.bind_as(named)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let name = t.text(row.job_id).trim();
    if name.is_empty() {
        return Err(t.wrong(row.job_id, "the number of a job").into());
    }
    if name.contains('.') {
        return Err(Dropped::Step.into());
    }
    let had = t.value(row.allocated)?.unwrap_or_default();
    let asked = t.value(row.requested)?.unwrap_or_default();
    let used = if had.gpus > 0 { &had } else { &asked };
    let mut gpus = used.gpus;
    for column in [row.allocated_gres, row.requested_gres] {
        if gpus == 0 {
            gpus = t.known(column)?.map_or(0, |gres| gres.0);
        }
    }
    if gpus == 0 {
        return Err(Dropped::NoGpus.into());
    }
    let submit = Time::new(t.get(row.submit)?.0);
    // `CANCELLED by 1000` is a state too.
    let state = row.state.map(|state| t.text(state));
    let how = state.and_then(|state| state.split_whitespace().next());
    let start = t.known(row.start)?;
    let end = t.known(row.end)?;
    match how.unwrap_or_default() {
        "PENDING" | "CONFIGURING" | "REQUEUED" => return Err(Dropped::NeverStarted.into()),
        "RUNNING" | "SUSPENDED" | "COMPLETING" => return Err(Dropped::StillRunning.into()),
        "" => {
            if let Some(state) = row.state {
                return Err(t.wrong(state, "a state such as COMPLETED").into());
            }
        }
        _ => {}
    }
    let is_empty = |column: Column<Date>| t.optional(Some(column)).is_none();
    if row
        .start
        .is_some_and(|column| start.is_none() && !is_empty(column))
    {
        return Err(Dropped::NeverStarted.into());
    }
    if row
        .end
        .is_some_and(|column| end.is_none() && !is_empty(column))
    {
        return Err(Dropped::StillRunning.into());
    }
    let elapsed = match row.elapsed {
        Some(column) => t.get(column)?.0,
        None => {
            let (Some(start), Some(Date(end))) = (start, end) else {
                return Err(Dropped::NoTimes.into());
            };
            if let Some(column) = row.end.filter(|_| end < start.0) {
                return Err(t.wrong(column, "a date not before the start").into());
            }
            end - start.0
        }
    };
    // Without `Start`, an elapsed time of 0 is the only sign that the job never started.
    if row.start.is_none() && how == Some("CANCELLED") && elapsed == 0.0 {
        return Err(Dropped::NeverStarted.into());
    }
    let limit = t.value(row.timelimit)?.and_then(|limit| limit.0);
    let extras = Extras {
        gpu_types: asked.types.iter().map(|t| names.get(t)).collect(),
        cpus: used.cpus,
        memory_gib: used.memory_gib,
        user_estimate: limit.map(Seconds::new),
        group: names.at(t, row.account),
        ..Extras::default()
    };
    let (gpus, elapsed) = (GpuCount(gpus), Seconds::new(elapsed));
    let mut job = JobSpec::new(submit, gpus, elapsed).named(name);
    job.user = names.at(t, row.user);
    job.virtual_cluster = names.at(t, row.partition);
    if extras != Extras::default() {
        job = job.with_extras(extras);
    }
    Ok(job)
}

/// A number of seconds.
struct Elapsed(f64);

/// A number of GPUs as a list of generic resources.
struct Gres(u32);

/// A number of seconds, if there is a limit.
struct Limit(Option<f64>);

/// A list of trackable resources.
#[derive(Debug, Default, PartialEq)]
struct Resources {
    gpus: u32,
    types: Vec<Name>,
    cpus: f64,
    memory_gib: f64,
}

values! {
    Elapsed: "a length such as 1-02:03:04, or seconds", |t| {
        number(t, |x| x >= 0.0).or_else(|| parse_elapsed(t.trim())).map(Elapsed)
    };
    Limit: "a length such as 1-02:03:04, or UNLIMITED", |t| {
        let none = ["UNLIMITED", "Partition_Limit"];
        if is_null(t) || none.iter().any(|n| n.eq_ignore_ascii_case(t.trim())) {
            return Some(Limit(None));
        }
        parse_elapsed(t).map(|seconds| Limit(Some(seconds)))
    };
    Resources: "resources such as cpu=8,mem=64G,gres/gpu=4", Resources::parse;
    Gres: "generic resources such as gpu:tesla:2", |t| gres(t).map(Gres);
}

impl Resources {
    fn parse(text: &str) -> Option<Self> {
        let mut found = Resources::default();
        let (mut all, mut typed) = (None, 0u32);
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, amount) = part.trim().split_once('=')?;
            match name {
                "gres/gpu" => all = Some(amount.parse::<u32>().ok()?),
                "cpu" => found.cpus = amount.parse::<u32>().ok()?.into(),
                "mem" => found.memory_gib = parse_memory(amount)?,
                _ => {
                    if let Some(kind) = name.strip_prefix("gres/gpu:") {
                        let n: u32 = amount.parse().ok()?;
                        typed = typed.checked_add(n)?;
                        if n > 0 {
                            found.types.push(kind.into());
                        }
                    }
                }
            }
        }
        found.gpus = all.unwrap_or(typed);
        Some(found)
    }
}

/// Parses memory such as `64G` or `512000M` to GiB; a number without a unit is in MiB.
fn parse_memory(text: &str) -> Option<f64> {
    // Older versions append a letter for memory per node or per CPU. In TRES lists the memory is
    // always that of the job.
    let text = text.trim_end_matches(['n', 'c']);
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "M"),
    };
    let gib = match unit {
        "K" => 1.0 / 1_048_576.0,
        "M" => 1.0 / 1024.0,
        "G" => 1.0,
        "T" => 1024.0,
        "P" => 1_048_576.0,
        _ => return None,
    };
    let amount: f64 = number.parse().ok()?;
    let amount = amount * gib;
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
JobID|User|Account|Partition|State|Submit|Start|Elapsed|Timelimit|ReqTRES|AllocTRES
17|ada|x|gpu|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|1-02:03:04|2-00:00:00|cpu=8,gres/gpu:a100=4,mem=64G|cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G
17.batch||x||COMPLETED|2024-03-01T10:00:05|2024-03-01T10:00:05|1-02:03:04|||
18_2|bob|y|gpu|CANCELLED by 7|2024-03-01T10:00:30|None|00:10:00|UNLIMITED|gres/gpu=1|
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format, rows_of};
    use blox_workloads::WorkloadError;
    use blox_workloads::{Workload, collect};

    const HEAD: &str =
        "JobID|User|Account|Partition|State|Submit|Start|Elapsed|Timelimit|ReqTRES|AllocTRES";

    fn read(rows: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes(
            "sacct.txt",
            format!("{HEAD}\n{rows}").as_bytes(),
            Format::Slurm,
        )
    }

    #[test]
    fn jobs_with_gpus_that_ended_are_jobs() {
        let asked = "billing=8,cpu=8,gres/gpu:a100=4,mem=64G,node=1";
        let had = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1";
        let rows = format!(
            "17|ada|vision|gpu|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|1-02:03:04|2-00:00:00|{asked}|{had}\n\
             17.batch||vision||COMPLETED|2024-03-01T10:00:05|2024-03-01T10:00:05|1-02:03:04|||cpu=8,mem=64G,node=1\n\
             18_2|bob|nlp|gpu|CANCELLED by 1000|2024-03-01T10:00:30|2024-03-01T10:02:00|00:10:00|UNLIMITED|gres/gpu=1|gres/gpu=1\n\
             18_[3-9%2]|bob|nlp|gpu|PENDING|2024-03-01T10:00:30|Unknown|00:00:00|UNLIMITED|gres/gpu=1|\n\
             19|eve|nlp|gpu|CANCELLED by 1001|2024-03-01T10:00:31|None|00:00:00|01:00:00|gres/gpu=2|\n\
             20|eve|nlp|cpu|COMPLETED|2024-03-01T10:00:32|2024-03-01T10:00:33|00:00:09|01:00:00|cpu=2,mem=4G|cpu=2,mem=4G\n\
             21|eve|nlp|gpu|RUNNING|2024-03-01T10:00:40|2024-03-01T10:00:41|05:00:00|1-00:00:00|gres/gpu=2|gres/gpu=2\n\
             17|zoe|nlp|gpu|TIMEOUT|2024-03-01T11:00:00|2024-03-01T11:00:00|01:00:00|01:00:00|gres/gpu=2|gres/gpu=2\n"
        );
        let mut workload = read(&rows).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "dropped: a step of a job (once, on line 3)",
                "dropped: never started (2 times, first on line 5)",
                "dropped: asks for no GPU (once, on line 7)",
                "dropped: had not ended when the log was taken (once, on line 8)",
                "the name of a job above: kept as another job (once, on line 9)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(
            rows_of(&jobs),
            [
                ("17", 0.0, 4, 93_784.0),
                ("18_2", 30.0, 1, 600.0),
                ("17", 3600.0, 2, 3600.0)
            ]
        );
        let first = jobs[0].extras();
        assert_eq!((first.cpus, first.memory_gib), (8.0, 64.0));
        assert_eq!(first.gpu_types, ["a100".into()]);
        assert_eq!(first.user_estimate, Some(Seconds::new(172_800.0)));
        assert_eq!(first.group.as_deref(), Some("vision"));
        assert_eq!(jobs[0].virtual_cluster.as_deref(), Some("gpu"));
        assert_eq!(jobs[1].extras().user_estimate, None);
    }

    #[test]
    fn seconds_raw_names_and_a_bar_at_the_end_will_do() {
        let text = "JobIDRaw|State|Submit|ElapsedRaw|ReqTRES|\n\
                    5|COMPLETED|2024-03-01T10:00:00|77|gres/gpu=1|\n\
                    6|CANCELLED|2024-03-01T10:00:00|0|gres/gpu=1|\n";
        let mut workload = read_bytes("s", text.as_bytes(), Format::Slurm).unwrap();
        assert_eq!(workload.notices().dropped(), 1);
        assert_eq!(collect(&mut workload).unwrap()[0].duration().secs(), 77.0);
    }

    #[test]
    fn a_bad_row_names_line_and_field() {
        for (row, message) in [
            (
                "17|a|b|c|COMPLETED|yesterday|x|00:00:01||gres/gpu=1|gres/gpu=1",
                "2: Submit is `yesterday`, expected a date such as 2017-10-09 07:01:55",
            ),
            (
                "17|a|b|c|COMPLETED|2024-03-01T10:00:00|x|00:00:01||gres/gpu=1|gres/gpu=1",
                "2: Start is `x`, expected a date such as 2017-10-09 07:01:55",
            ),
            (
                "17|a|b|c|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:00|soon||gres/gpu=1|gres/gpu=1",
                "2: Elapsed is `soon`, expected a length such as 1-02:03:04, or seconds",
            ),
            (
                "17|a|b|c|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:00|1||gres/gpu=1|gres/gpu=x",
                "2: AllocTRES is `gres/gpu=x`, expected resources such as cpu=8,mem=64G,gres/gpu=4",
            ),
        ] {
            let error = read(&format!("{row}\n")).unwrap_err().to_string();
            assert_eq!(error, format!("sacct.txt:{message}"));
        }
        let error = read_bytes("s", b"JobID|Submit\n", Format::Slurm).unwrap_err();
        assert_eq!(
            error.to_string(),
            "s:1: the columns Elapsed, AllocTRES are missing, found the columns JobID, Submit"
        );
    }

    #[test]
    fn other_selections_of_fields_are_read() {
        let jobs = |text: &str| {
            let mut workload = read_bytes("s", text.as_bytes(), Format::Slurm)?;
            collect(&mut workload)
        };
        for (text, gpus, seconds) in [
            // Few fields, in another order, with a bar at the end of each line.
            (
                "Submit|JobIDRaw|ElapsedRaw|ReqTRES|\n2024-03-01T10:00:00|17|90|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|\n",
                2,
                90.0,
            ),
            // No elapsed time.
            (
                "JobID|Submit|Start|End|AllocTRES\n17|2024-03-01T10:00:00|2024-03-01T10:00:10|2024-03-02T10:00:10|cpu=8,gres/gpu:h100=8\n",
                8,
                86_400.0,
            ),
            // Older versions.
            (
                "JobID|State|Submit|Elapsed|AllocGRES|ReqGRES\n17|TIMEOUT|2019-03-01T10:00:00|05:30|gpu:tesla:2|gpu:1\n",
                2,
                330.0,
            ),
            (
                "JobID|State|Submit|Elapsed|AllocGRES|ReqGRES\n17|TIMEOUT|2019-03-01T10:00:00|2-00:00:01||gpu:4\n",
                4,
                172_801.0,
            ),
            // Other separators.
            (
                "JobID,Submit,Elapsed,AllocTRES\n17,2024-03-01T10:00:00,00:01:00,\"cpu=8,gres/gpu=4\"\n",
                4,
                60.0,
            ),
            (
                "JobID;Submit;Elapsed;AllocTRES\n17;2024-03-01T10:00:00;00:01:00;cpu=8,gres/gpu=4\n",
                4,
                60.0,
            ),
        ] {
            let jobs = jobs(text).unwrap();
            let found = (jobs[0].gpus.get(), jobs[0].duration().secs());
            assert_eq!((jobs.len(), found), (1, (gpus, seconds)), "{text}");
        }
        let ends = "JobID|Submit|Start|End|AllocTRES\n\
                    17|2024-03-01T10:00:00|2024-03-01T10:00:10|Unknown|gres/gpu=8\n\
                    18|2024-03-01T10:00:00|Unknown|Unknown|gres/gpu=8\n";
        assert!(jobs(ends).unwrap().is_empty());
        let back = "JobID|Submit|Start|End|AllocTRES\n17|2024-03-01T10:00:00|2024-03-01T10:00:10|2024-03-01T10:00:09|gres/gpu=8\n";
        assert_eq!(
            jobs(back).unwrap_err().to_string(),
            "s:2: End is `2024-03-01T10:00:09`, expected a date not before the start"
        );
    }

    #[test]
    fn memory_has_units() {
        for (text, gib) in [
            ("64G", Some(64.0)),
            ("512M", Some(0.5)),
            ("1.50T", Some(1536.0)),
            ("2048", Some(2.0)),
            ("4Gn", Some(4.0)),
            ("4X", None),
            ("-1G", None),
            ("", None),
        ] {
            assert_eq!(parse_memory(text), gib, "{text}");
        }
    }
}
