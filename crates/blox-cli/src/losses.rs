//! What the figures leave out, and what an option replaces: lines that `--quiet` does not hide.

use super::args::Options;
use super::grid::{number_of, whole};
use blox_sim::workload::{NoticeKind, Notices};
use serde_json::{Map, Value};

/// Returns a counted line for columns and one for rows of an input that no job has.
pub(super) fn of_input(notices: &Notices) -> Vec<String> {
    let mut columns = Vec::new();
    let mut dropped = Vec::new();
    for notice in notices.iter() {
        match &notice.kind {
            NoticeKind::IgnoredColumn(name)
            | NoticeKind::UnmappedColumn(name)
            | NoticeKind::MisspeltColumn { column: name, .. } => columns.push(format!("`{name}`")),
            NoticeKind::Dropped(why) => dropped.push(format!("{why}: {}", whole(notice.count))),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    if !columns.is_empty() {
        let count = number_of(columns.len() as u64, "column");
        lines.push(format!("{count} ignored ({})", columns.join(", ")));
    }
    if !dropped.is_empty() {
        let count = number_of(notices.dropped(), "row");
        lines.push(format!("{count} dropped ({})", dropped.join(", ")));
    }
    lines
}

/// Returns a line for each part of schedulers that an option replaces.
pub(super) fn replaced(options: &Options) -> Vec<String> {
    let parts = [
        ("placement", "placement policy", &options.placement),
        ("admission", "admission policy", &options.admission),
        (
            "cluster-manager",
            "cluster manager",
            &options.cluster_manager,
        ),
    ];
    let line = |(key, part, given): (&str, &str, &Option<String>)| {
        let name = given.as_ref()?;
        Some(format!(
            "--{key} {name} replaces each scheduler's own {part}"
        ))
    };
    parts.into_iter().filter_map(line).collect()
}

/// Returns a line for the measured jobs of several runs that did not complete, from the figures
/// of `summary.json`.
pub(super) fn of_figures<'a>(rows: impl Iterator<Item = &'a Map<String, Value>>) -> Option<String> {
    const KINDS: [&str; 3] = ["rejected", "failed", "unfinished"];
    let (mut sums, mut runs, mut with) = ([0; KINDS.len()], 0_u64, 0_u64);
    for row in rows {
        let counts = KINDS.map(|kind| row.get(kind).and_then(Value::as_u64).unwrap_or(0));
        runs += 1;
        with += u64::from(counts.iter().any(|n| *n > 0));
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    let lost = KINDS.iter().zip(sums).filter(|(_, n)| *n > 0);
    let parts: Vec<String> = lost
        .map(|(kind, n)| format!("{} {kind}", whole(n)))
        .collect();
    let of = number_of(runs, "run");
    (!parts.is_empty()).then(|| format!("{} in {} of {of}", parts.join(", "), whole(with)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_sim::workload::Dropped;
    use serde_json::json;

    #[test]
    fn of_input_counts_columns_and_rows() {
        let mut notices = Notices::default();
        notices.add(NoticeKind::UnmappedColumn("a".into()), 1);
        notices.add(NoticeKind::NoWork, 3);
        notices.add(NoticeKind::Dropped(Dropped::NoGpus), 4);
        notices.add(NoticeKind::Dropped(Dropped::NoGpus), 5);
        notices.add(NoticeKind::IgnoredColumn("b".into()), 1);
        assert_eq!(
            of_input(&notices),
            [
                "2 columns ignored (`a`, `b`)",
                "2 rows dropped (asks for no GPU: 2)"
            ]
        );
        assert_eq!(of_input(&Notices::default()), [""; 0]);
    }

    #[test]
    fn of_figures_sums_runs_with_losses() {
        let rows = [json!({"rejected": 2, "failed": 0}), json!({"rejected": 0})];
        let rows: Vec<_> = rows.iter().filter_map(Value::as_object).collect();
        let line = of_figures(rows.iter().copied());
        assert_eq!(line.as_deref(), Some("2 rejected in 1 of 2 runs"));
        assert_eq!(of_figures(rows.into_iter().skip(1)), None);
    }
}
