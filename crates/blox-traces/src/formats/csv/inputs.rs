//! Columns of a trace that result files repeat.

use super::write::texts;
use super::{COLUMNS, Columns};
use crate::map::ATTRIBUTE;
use blox_core::{JobSpec, Name};
use blox_table::Cell;
use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// Columns that result files have of their own.
const OF_RESULTS: [&str; 5] = ["job_id", "submit_s", "gpus", "duration_s", "deadline_s"];
/// Columns with numbers.
const NUMBERS: [&str; 11] = [
    "gpu_share",
    "gpu_memory_share",
    "iterations",
    "rate_per_s",
    "priority",
    "batch_size",
    "cpus",
    "memory_gib",
    "nodes",
    "user_estimate_s",
    "communication",
];
/// The column of jobs with several deadlines or values of deadlines.
const DEADLINES: &str = "deadlines";

/// Returns the input columns of results, each with true if it holds numbers. These are the columns of [`Columns`] for which a job has a
/// value, and `attributes.NAME` for each attribute. Columns that all results have are left out.
/// `deadlines` has all deadlines of a job with their values, if a job has several or a value.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_traces::formats::csv::input_columns;
/// let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0)).owned_by("ada");
/// assert_eq!(input_columns([&job]), [("user".to_owned(), false)]);
/// ```
pub fn input_columns<'a>(jobs: impl IntoIterator<Item = &'a JobSpec>) -> Vec<(String, bool)> {
    let mut used = Columns::default();
    let mut deadlines = false;
    let mut attributes: BTreeMap<&Name, bool> = BTreeMap::new();
    for job in jobs {
        used.include(job);
        let Some(extras) = &job.extras else { continue };
        deadlines |= extras.deadlines.len() > 1 || extras.deadlines.iter().any(|d| d.value != 1.0);
        for (name, value) in extras.attributes.iter() {
            *attributes.entry(name).or_insert(true) &=
                value.as_number().is_some_and(is_exact) || value.is_null();
        }
    }
    let plain = COLUMNS
        .iter()
        .zip(used.used)
        .filter(|(name, used)| *used && !OF_RESULTS.contains(name) && **name != "attributes");
    let plain = plain.map(|(name, _)| ((*name).to_owned(), NUMBERS.contains(name)));
    let attributes = attributes.into_iter();
    let attributes = attributes.map(|(name, numbers)| (format!("{ATTRIBUTE}{name}"), numbers));
    let deadlines = deadlines.then(|| (DEADLINES.to_owned(), false));
    plain.chain(deadlines).chain(attributes).collect()
}

/// Returns whether results can have an input column of this name.
pub fn is_input_column(name: &str) -> bool {
    let own = COLUMNS.contains(&name) && !OF_RESULTS.contains(&name) && name != "attributes";
    own || name == DEADLINES || name.strip_prefix(ATTRIBUTE).is_some_and(|n| !n.is_empty())
}

/// Returns the names of the input columns that results can have, without attributes.
pub fn input_column_names() -> impl Iterator<Item = &'static str> {
    let all = COLUMNS.iter().copied().chain([DEADLINES]);
    all.filter(|name| is_input_column(name))
}

/// Returns the cell of a job in an [input column](input_columns). A job without a specification has
/// the defaults.
pub fn input_cell(job: Option<&JobSpec>, column: &str) -> Cell {
    let text = match (job, column.strip_prefix(ATTRIBUTE)) {
        (Some(job), Some(name)) => match job.attribute(name) {
            None | Some(Value::Null) => return Cell::Missing,
            Some(Value::Number(n)) => match n.as_f64().filter(|_| is_exact(n)) {
                Some(number) => return Cell::Number(number),
                None => n.to_string(),
            },
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        },
        (Some(job), None) => {
            let key = if column == DEADLINES {
                "deadline_s"
            } else {
                column
            };
            let at = COLUMNS.iter().position(|name| *name == key);
            let mut texts = texts(job).into_array();
            at.map(|at| std::mem::take(&mut texts[at]))
                .unwrap_or_default()
        }
        (None, _) => String::new(),
    };
    // A job without these values has them by default.
    let text = match (column, text.is_empty()) {
        ("class", true) => "guaranteed".to_owned(),
        ("priority", true) => "0".to_owned(),
        ("gpu_share", true) => "1".to_owned(),
        _ => text,
    };
    match text.is_empty() {
        true => Cell::Missing,
        false if NUMBERS.contains(&column) => text.parse().map_or(Cell::Text(text), Cell::Number),
        false => Cell::Text(text),
    }
}

/// Returns whether an [`f64`] holds the number: it is no integer beyond 2^53.
fn is_exact(n: &Number) -> bool {
    let integer = n.as_i64().map(i64::unsigned_abs).or_else(|| n.as_u64());
    integer.is_none_or(|n| n <= 1 << f64::MANTISSA_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_results::{CsvTable, InputColumns, write_jobs};
    use blox_sim::results::JobResult;
    use blox_workloads::collect;
    use std::sync::Arc;

    /// Writes results of jobs that have not run.
    fn results(text: &str) -> String {
        let mut workload = read_bytes("jobs.csv", text.as_bytes(), Format::Csv).unwrap();
        let jobs = collect(&mut workload).unwrap();
        let columns = InputColumns {
            columns: input_columns(&jobs),
            cell: input_cell,
        };
        let rows: Vec<JobResult> = jobs
            .into_iter()
            .map(|spec| {
                let mut row = JobResult::default();
                row.name.clone_from(&spec.name);
                row.spec = Some(Arc::new(spec));
                row
            })
            .collect();
        let mut out = Vec::new();
        write_jobs(&mut CsvTable::new(&mut out), &rows, &columns).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_column_of_a_trace_reaches_results() {
        // One value for each column of the format, and attributes of every kind.
        let text = "job_id,submit_s,gpus,gpu_share,gpu_memory_share,duration_s,iterations,rate_per_s,user,virtual_cluster,\
             group,priority,model,batch_size,cpus,memory_gib,deadline_s,class,levels,rates,gpu_types,\
             nodes,speeds,user_estimate_s,command,sensitivity,loss,communication,traffic,need,attributes.team,attributes.n\n\
             a,0,1,0.5,0.25,60,120,2,ada,vc1,g,3,bert,32,4,16,600;900:0.5,best-effort,1;2,2;3,v100;a100,,v100:2,50,\
             \"[\"\"run\"\"]\",,,0.2,0:9;0.1:0/0.5,0:2/60,red,7\n\
             b,1,1,,,60,,,,,,,,,,,,,,,,1,,,,,,,,,,\n";
        for column in COLUMNS {
            let written = text.contains(&format!("{column},"));
            assert!(
                written || column == "attributes",
                "{column} is not in the test"
            );
        }
        let text = results(text);
        let mut lines = text.lines();
        let head = lines.next().unwrap();
        let inputs = "gpu_share,gpu_memory_share,iterations,rate_per_s,user,virtual_cluster,group,priority,model,batch_size,\
            cpus,memory_gib,class,levels,rates,gpu_types,nodes,speeds,user_estimate_s,command,communication,\
            traffic,need,deadlines,attributes.n,attributes.team";
        assert_eq!(head.split_once("overhead_s,").unwrap().1, inputs);
        let values = "0.5,0.25,120,2,ada,vc1,g,3,bert,32,4,16,best-effort,1;2,2;3,v100;a100,,v100:2,50,\
            \"[\"\"run\"\"]\",0.2,0:9;0.1:0/0.5,0:2/60,600;900:0.5,7,red";
        assert!(lines.next().unwrap().ends_with(values), "{text}");
        let defaults = "1,,,,,,,0,,,,,guaranteed,,,,1,,,,,,,,,";
        assert!(lines.next().unwrap().ends_with(defaults), "{text}");
    }

    #[test]
    fn large_integers_keep_their_digits() {
        let runs = [
            "7",
            "9007199254740992",
            "9007199254740993",
            "-9007199254740993",
            "18446744073709551615",
            "18446744073709551617",
        ];
        let rows: String = runs.iter().map(|n| format!("0,1,9,{n}\n")).collect();
        let text = results(&format!("submit_s,gpus,duration_s,attributes.run\n{rows}"));
        let ends = text.lines().skip(1).map(|l| l.rsplit_once(',').unwrap().1);
        assert_eq!(ends.collect::<Vec<_>>(), runs);
        let column = |run: &str| {
            let text = format!("submit_s,gpus,duration_s,attributes.run\n0,1,9,{run}\n");
            let mut jobs = read_bytes("jobs.csv", text.as_bytes(), Format::Csv).unwrap();
            input_columns(&collect(&mut jobs).unwrap())
        };
        assert_eq!(column(runs[1]), [("attributes.run".to_owned(), true)]);
        assert_eq!(column(runs[2]), [("attributes.run".to_owned(), false)]);
    }

    #[test]
    fn mixed_attributes_are_a_column_of_text() {
        let text = "submit_s,gpus,duration_s,attributes.x\n0,1,9,1.5\n0,1,9,b\n0,1,9,\n";
        let text = results(text);
        let ends: Vec<&str> = text
            .lines()
            .map(|l| l.rsplit_once(',').unwrap().1)
            .collect();
        assert_eq!(ends, ["attributes.x", "1.5", "b", ""]);
    }
}
