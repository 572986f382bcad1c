//! The toolkit's own CSV: one row for each job, columns identified by name.
//!
//! | column | meaning |
//! |---|---|
//! | `submit_s` | submission, in seconds since the start (needed) |
//! | `gpus` | requested GPUs, at least 1 (needed) |
//! | `duration_s` | seconds on these GPUs (needed; empty if `iterations` and `rate_per_s` are given) |
//! | `job_id` | the job's name |
//! | `iterations`, `rate_per_s` | work, and iterations per second on these GPUs |
//! | `user`, `virtual_cluster`, `group`, `model` | names |
//! | `priority` | a whole number, larger is more urgent |
//! | `batch_size` | samples in one step over all GPUs |
//! | `cpus`, `memory_gib` | for all GPUs together |
//! | `deadline_s` | `600`, or `600:2.5` with the value of meeting it; several separated by `;` |
//! | `class` | `guaranteed` or `best-effort` |
//! | `levels` | GPU counts of an elastic job, such as `1;2;4` |
//! | `rates` | iterations per second at each level, such as `1.5;2.8;5`; on these GPUs equal to `rate_per_s` |
//! | `gpu_types` | the only GPU types, such as `v100;a100` |
//! | `user_estimate_s` | the user's estimate of the duration |
//! | `command`, `attributes` | JSON: an array of strings, an object |
//! | `attributes.NAME` | an attribute of this name: a number, `true`, `false`, a JSON list or a text |
//! | `sensitivity` | JSON: speed by CPUs and memory, see [`Sensitivity`](blox_core::Sensitivity) |
//! | `loss` | JSON: its loss curve, see [`LossReports`](blox_core::LossReports) |
//! | `communication` | share of a step spent on exchange over the best links, from 0 to below 1 |
//!
//! A row is one line. An empty cell means that the value is unknown. A list may also be a JSON
//! array, for names with a semicolon. Other columns are ignored, with a notice.

use super::file::{SharedNames, sensible, work};
use super::map::{ATTRIBUTE, attribute};
use super::rows::{Opened, jobs};
use super::source::Source;
use super::table::{Column, Table};
use blox_core::SortedMap;
use blox_core::{Deadline, Extras, GpuCount, JobSpec, Name, Seconds, ServiceClass, Time, Work};
use blox_sim::workload::text::number_of;
use blox_sim::workload::{Notices, WorkloadError};
use serde::de::DeserializeOwned;

mod write;

pub use write::{Columns, CsvWriter};

/// Defines the columns in the order in which they are written.
macro_rules! columns {
    ($($column:ident $name:literal)*) => {
        const COLUMNS: [&str; [$($name),*].len()] = [$($name),*];

        /// Index of a column in [`COLUMNS`].
        #[derive(Clone, Copy)]
        enum Col {
            $($column,)*
        }
    };
}

columns! {
    JobId "job_id"
    Submit "submit_s"
    Gpus "gpus"
    Duration "duration_s"
    Iterations "iterations"
    Rate "rate_per_s"
    User "user"
    VirtualCluster "virtual_cluster"
    Group "group"
    Priority "priority"
    Model "model"
    BatchSize "batch_size"
    Cpus "cpus"
    MemoryGib "memory_gib"
    Deadline "deadline_s"
    Class "class"
    Levels "levels"
    Rates "rates"
    GpuTypes "gpu_types"
    UserEstimate "user_estimate_s"
    Command "command"
    Attributes "attributes"
    Sensitivity "sensitivity"
    Loss "loss"
    Communication "communication"
}

const NEEDED: [&str; 3] = ["submit_s", "gpus", "duration_s"];

/// The columns of a file.
struct Found {
    needed: [Column; 3],
    optional: [Option<Column>; COLUMNS.len()],
    /// Columns of attributes, by attribute name.
    attributes: Vec<(Name, Column)>,
}

struct CsvRow<'a> {
    table: &'a Table,
    columns: &'a Found,
    names: &'a mut SharedNames,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let needed = table.require(NEEDED)?;
    table.note_unknown(&COLUMNS, notices);
    let columns = Found {
        needed,
        optional: COLUMNS.map(|name| table.find(name)),
        attributes: table.with_prefix(ATTRIBUTE),
    };
    let mut names = SharedNames::default();
    let job = move |table: &Table, _: &mut Notices| {
        let mut row = CsvRow {
            table,
            columns: &columns,
            names: &mut names,
        };
        Ok(row.job()?)
    };
    jobs(table, sensible, job)
}

impl CsvRow<'_> {
    fn job(&mut self) -> Result<JobSpec, WorkloadError> {
        let [submit, gpus, _] = self.columns.needed;
        let submit = self.table.seconds(submit)?;
        let gpus = GpuCount(self.table.count(gpus)?);
        let mut job = JobSpec::new(Time::new(submit), gpus, Seconds::ZERO);
        let extras = self.extras()?;
        job.work = self.work(gpus, &extras)?;
        job.name = self.cell(Col::JobId).map(|(_, text)| Name::from(text));
        job.user = self.name(Col::User);
        job.virtual_cluster = self.name(Col::VirtualCluster);
        job.priority = self
            .parse(Col::Priority, "a whole number of 32 bits", |t| {
                t.trim().parse().ok()
            })?
            .unwrap_or(0);
        if extras != Extras::default() {
            job = job.with_extras(extras);
        }
        Ok(job)
    }

    /// Returns the work. Iterations and rate take precedence; the duration supplies the missing
    /// one.
    fn work(&self, gpus: GpuCount, extras: &Extras) -> Result<Work, WorkloadError> {
        let duration = self.number(Col::Duration, not_negative, SECONDS)?;
        let iterations = self.number(Col::Iterations, not_negative, "a number of at least 0")?;
        let rate = self.number(Col::Rate, |x| x > 0.0, "a number above 0")?;
        let [_, _, duration_column] = self.columns.needed;
        let work = match (duration, iterations, rate) {
            (duration, Some(iterations), Some(rate)) => {
                let told = iterations / rate;
                if duration.is_some_and(|d| (d - told).abs() > 1e-6 * told.max(1.0)) {
                    let expected = format!("{told} as iterations / rate_per_s, or an empty cell");
                    return Err(self.table.wrong(duration_column, &expected));
                }
                Work { iterations, rate }
            }
            (Some(duration), Some(iterations), None) if iterations / duration > 0.0 => {
                work(iterations, duration)
            }
            (Some(duration), None, rate) => {
                let rate = match rate {
                    Some(rate) => rate,
                    None => self.profiled(gpus, extras)?,
                };
                Work {
                    iterations: duration * rate,
                    rate,
                }
            }
            (Some(_), Some(_), None) => {
                let expected = "above 0 and iterations too, or rate_per_s beside them";
                return Err(self.table.wrong(duration_column, expected));
            }
            (None, _, _) => {
                let expected = "a number of seconds, or iterations and rate_per_s beside it";
                return Err(self.table.wrong(duration_column, expected));
            }
        };
        Ok(work)
    }

    /// Returns the rate on the GPUs that the job requests, in the unit of `rates`; 1 if the job has
    /// no `rates`.
    fn profiled(&self, gpus: GpuCount, extras: &Extras) -> Result<f64, WorkloadError> {
        let Some((column, _)) = self.cell(Col::Rates) else {
            return Ok(1.0);
        };
        let mut profile = extras.levels.iter().zip(&extras.rates);
        match profile.find(|(level, _)| **level == gpus) {
            Some((_, rate)) if *rate > 0.0 => Ok(*rate),
            _ => {
                let own = number_of(u64::from(gpus.get()), "GPU");
                let expected = format!("one above 0 on {own} too, or rate_per_s beside duration_s");
                Err(self.table.wrong(column, &expected))
            }
        }
    }

    fn extras(&mut self) -> Result<Extras, WorkloadError> {
        let amount = "a number of at least 0";
        let deadlines = "SECONDS or SECONDS:VALUE, joined by `;`, the earliest first";
        let levels = "ascending counts of at least 1, joined by `;`";
        let rates = "a number of at least 0 a level, joined by `;`";
        let class = |t: &str| match t.trim() {
            "guaranteed" => Some(ServiceClass::Guaranteed),
            "best-effort" => Some(ServiceClass::BestEffort),
            _ => None,
        };
        let gpu_types = |t: &str| match t.starts_with('[') {
            true => serde_json::from_str(t).ok(),
            false => list(t, |name| Some(Name::from(name))),
        };
        let share = |x| (0.0..1.0).contains(&x);
        Ok(Extras {
            model: self.name(Col::Model),
            group: self.name(Col::Group),
            batch_size: self.parse(Col::BatchSize, "a whole number of at least 0", |t| {
                t.trim().parse().ok()
            })?,
            cpus: self.number(Col::Cpus, not_negative, amount)?.unwrap_or(0.0),
            memory_gib: self
                .number(Col::MemoryGib, not_negative, amount)?
                .unwrap_or(0.0),
            deadlines: self
                .parse(Col::Deadline, deadlines, |t| {
                    list(t, parse_deadline).filter(|all| all.is_sorted_by_key(|d| d.at))
                })?
                .unwrap_or_default(),
            class: self
                .parse(Col::Class, "guaranteed or best-effort", class)?
                .unwrap_or_default(),
            levels: self
                .parse(Col::Levels, levels, |t| {
                    list(t, |n| n.parse().ok().map(GpuCount))
                        .filter(|l| l.is_sorted() && l.first() != Some(&GpuCount::ZERO))
                })?
                .unwrap_or_default(),
            rates: self
                .parse(Col::Rates, rates, |t| {
                    list(t, |r| r.parse().ok())
                        .filter(|all| all.iter().all(|r: &f64| r.is_finite() && *r >= 0.0))
                })?
                .unwrap_or_default(),
            gpu_types: self
                .parse(
                    Col::GpuTypes,
                    "names joined by `;`, or a JSON array",
                    gpu_types,
                )?
                .unwrap_or_default(),
            user_estimate: self
                .number(Col::UserEstimate, not_negative, SECONDS)?
                .map(Seconds::new),
            command: self
                .json(Col::Command, "a JSON array of strings")?
                .unwrap_or_default(),
            attributes: self.attributes()?,
            sensitivity: self.json(
                Col::Sensitivity,
                "a JSON object of cpus, memory_gib and speed, with a row of speeds a number of CPUs",
            )?,
            loss: self.json(
                Col::Loss,
                "a JSON object of curve, with b0, b1 and b2, and epoch",
            )?,
            communication: self
                .number(Col::Communication, share, "a share of at least 0 and below 1")?
                .unwrap_or(0.0),
            ..Extras::default()
        })
    }

    /// Returns the attributes: the `attributes.NAME` columns take precedence over the object in
    /// `attributes`.
    fn attributes(&self) -> Result<SortedMap<Name, serde_json::Value>, WorkloadError> {
        let object = self.json(Col::Attributes, "a JSON object")?;
        let mut all: SortedMap<Name, serde_json::Value> = object.unwrap_or_default();
        for (name, column) in &self.columns.attributes {
            if let Some((_, text)) = self.table.optional(Some(*column)) {
                all.insert(name.clone(), attribute(text));
            }
        }
        Ok(all)
    }

    fn cell(&self, column: Col) -> Option<(Column, &str)> {
        self.table.optional(self.columns.optional[column as usize])
    }

    fn name(&mut self, column: Col) -> Option<Name> {
        let (_, text) = self
            .table
            .optional(self.columns.optional[column as usize])?;
        Some(self.names.get(text))
    }

    fn number(
        &self,
        column: Col,
        allowed: fn(f64) -> bool,
        expected: &str,
    ) -> Result<Option<f64>, WorkloadError> {
        self.cell(column)
            .map(|(column, _)| self.table.number(column, allowed, expected))
            .transpose()
    }

    fn json<T: DeserializeOwned>(
        &self,
        column: Col,
        expected: &str,
    ) -> Result<Option<T>, WorkloadError> {
        self.parse(column, expected, |t| serde_json::from_str(t).ok())
    }

    fn parse<T>(
        &self,
        column: Col,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, WorkloadError> {
        self.cell(column)
            .map(|(column, text)| parse(text).ok_or_else(|| self.table.wrong(column, expected)))
            .transpose()
    }
}

/// Parses a list of values separated by `;`.
fn list<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(';').map(|part| parse(part.trim())).collect()
}

const SECONDS: &str = "a number of seconds, at least 0";

fn not_negative(x: f64) -> bool {
    x >= 0.0
}

fn parse_deadline(text: &str) -> Option<Deadline> {
    let (at, value) = text.split_once(':').unwrap_or((text, "1"));
    let value: f64 = value.trim().parse().ok()?;
    Some(Deadline {
        at: Time::try_new(at.trim().parse().ok()?)?,
        value: value.is_finite().then_some(value)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_core::{LossCurve, LossReports, Sensitivity};
    use blox_sim::workload::{NoticeKind, Workload, collect};
    use proptest::prelude::*;
    use std::sync::Arc;

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
            "jobs.csv: line 2: deadline_s is `1200;600`, expected SECONDS or SECONDS:VALUE, joined by `;`, the earliest first"
        );
        let jobs = collect(&mut with("600;600;1200,v100; a100").unwrap()).unwrap();
        assert_eq!(jobs[0].extras().deadlines.len(), 3);
        assert_eq!(jobs[0].extras().gpu_types, ["v100".into(), "a100".into()]);
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
            "jobs.csv: line 2: duration_s is `61`, expected 60 as iterations / rate_per_s, or an empty cell"
        );
        assert_eq!(
            message(&format!("{header}\n0,1,,30,\n")),
            "jobs.csv: line 2: duration_s is ``, expected a number of seconds, or iterations and rate_per_s beside it"
        );
    }

    #[test]
    fn a_profiled_job_runs_as_long_as_was_told_on_its_own_gpus() {
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
            "jobs.csv: line 2: rates is `1.5;5`, expected one above 0 on 2 GPUs too, or rate_per_s beside duration_s"
        );
        assert_eq!(
            refused("2,3600,,1,1;2;4,1.5;2.8;5"),
            "jobs.csv: line 2: extras.rates is `2.8 on 2 GPUs`, expected 1 there, the job's own rate"
        );
        assert_eq!(
            refused("2,3600,,,1;2;4,1.5;2.8"),
            "jobs.csv: line 2: extras.rates is `[1.5, 2.8]`, expected a finite number that is not negative for each of the levels"
        );
    }

    #[test]
    fn a_bad_cell_names_line_and_column() {
        assert_eq!(
            message("submit_s,gpus,duration_s\n0,1,60\nNaN,1,60\n"),
            "jobs.csv: line 3: submit_s is `NaN`, expected a number of seconds, at least 0"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,class\n0,1,60,gold\n"),
            "jobs.csv: line 2: class is `gold`, expected guaranteed or best-effort"
        );
        assert_eq!(
            message("submit_s,gpus,duration\n"),
            "jobs.csv: line 1: the column duration_s is missing, found the columns submit_s, gpus, duration; is `duration` meant for duration_s?"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,communication\n0,1,60,1\n"),
            "jobs.csv: line 2: communication is `1`, expected a share of at least 0 and below 1"
        );
        assert_eq!(
            message("submit_s,gpus,duration_s,loss\n0,1,60,0.5\n"),
            "jobs.csv: line 2: loss is `0.5`, expected a JSON object of curve, with b0, b1 and b2, and epoch"
        );
        for cells in ["1,1.5,1", "1,0,1", "1,1,-1", "-1,1,1", "1,1,inf", "x,1,1"] {
            assert!(read_text(&format!("submit_s,gpus,duration_s\n{cells}\n")).is_err());
        }
    }

    #[test]
    fn a_header_alone_is_an_empty_workload() {
        let mut workload = read_text("submit_s,gpus,duration_s").unwrap();
        assert!(workload.is_empty());
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
    fn a_name_with_a_line_break_is_not_written_where_it_cannot_be_read() {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)).owned_by("a\nb");
        assert_eq!(
            write_csv(Vec::new(), &[job]).unwrap_err().to_string(),
            "jobs cannot be written: user is `a\\nb`, expected no line break in a row of CSV, \
             JSON lines may have one"
        );
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
            any::<bool>(),
            proptest::option::of(amount()),
            proptest::option::of((1e-6..1e6, 1e-6..1e6)),
            prop_oneof![Just(0.0), 0.0..1.0],
            proptest::option::of((0.0..1e3, 1e-6..1e3, 0.0..1e3, 1e-6..1e9)),
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
            let mut deadlines = lists.2;
            deadlines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let extras = Extras {
                model,
                group,
                levels,
                rates,
                gpu_types: lists.1.into_iter().map(Name::from).collect(),
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
                cpus: rest.1,
                memory_gib: rest.2,
                class: [ServiceClass::Guaranteed, ServiceClass::BestEffort][usize::from(rest.3)],
                user_estimate: rest.4.map(Seconds::new),
                sensitivity: rest.5.map(|(point, speed)| {
                    let table = Sensitivity::new(vec![point], vec![0.0], vec![vec![speed]]);
                    Arc::new(table.unwrap())
                }),
                communication: rest.6,
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
            crate::jsonl::write_jsonl(&mut lines, &jobs).unwrap();
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
