//! Resources granted to each job in each round.

use super::input::Input;
use crate::compared::{Case, Compared, VerifyError};
use crate::log::Reads;
use crate::synergy::ROUND_S;
use blox_core::decision::Action;
use blox_core::input::Input as Taken;
use blox_core::{Assignment, Event, JobId, SortedMap, Time, sort};
use blox_sim::Report;

/// Assignments of all jobs after each decision.
#[derive(Default)]
pub(super) struct Grants {
    assigned: SortedMap<JobId, Assignment>,
    pub rounds: SortedMap<Time, SortedMap<JobId, Assignment>>,
}

impl Reads for Grants {
    fn read(&mut self, input: &Taken) {
        if let Taken::Event {
            event: Event::Ended { job, .. },
            ..
        } = input
        {
            self.assigned.remove(job);
        }
        let Taken::Decided { at, decision, .. } = input else {
            return;
        };
        for action in &decision.plan.actions {
            match action {
                Action::Stop { job, .. } => _ = self.assigned.remove(job),
                Action::Place { job, assignment } => {
                    self.assigned.insert(*job, assignment.clone());
                }
                _ => {}
            }
        }
        self.rounds.insert(*at, self.assigned.clone());
    }
}

/// GPUs and the part of each server, as in `rounds.csv`.
#[derive(Debug, PartialEq)]
struct Grant {
    gpus: Vec<u32>,
    /// Server, with its GPUs, CPUs and memory.
    parts: Vec<(u32, [f64; 3])>,
}

impl Grant {
    fn of(a: &Assignment, gpus_per_server: u32) -> Self {
        let mut gpus: Vec<u32> = a.gpus.iter().map(|g| g.0).collect();
        gpus.sort_unstable();
        let mut counts: SortedMap<u32, f64> = SortedMap::new();
        for gpu in &gpus {
            *counts.entry(gpu / gpus_per_server).or_default() += 1.0;
        }
        let share = |count: f64, amount: f64| amount * count / gpus.len() as f64;
        let parts = counts.iter().map(|(server, count)| {
            let (cpus, memory) = (share(*count, a.cpus), share(*count, a.memory_gib));
            (*server, [*count, cpus, memory])
        });
        Grant {
            parts: parts.collect(),
            gpus,
        }
    }

    /// Parses fields such as `0|1` and `0:g2:c6:m125`.
    fn parse(gpus: &str, parts: &str) -> Option<Self> {
        let numbers = gpus.split('|').map(|g| g.trim().parse().ok());
        let mut gpus: Vec<u32> = numbers.collect::<Option<_>>()?;
        gpus.sort_unstable();
        let part = |text: &str| {
            let mut fields = text.trim().split(':');
            let server = fields.next()?.parse().ok()?;
            let mut amount = |name| fields.next()?.strip_prefix(name)?.parse::<f64>().ok();
            Some((server, [amount('g')?, amount('c')?, amount('m')?]))
        };
        let mut parts: Vec<_> = parts.split('|').map(part).collect::<Option<_>>()?;
        sort::by_key(&mut parts, |(server, _)| *server);
        Some(Grant { gpus, parts })
    }

    /// Returns true if both are equal, with amounts compared to the six printed digits.
    fn equals(&self, other: &Grant) -> bool {
        let near = |a: &f64, b: &f64| (a - b).abs() <= 1e-5 * a.abs().max(b.abs());
        self.gpus == other.gpus
            && self.parts.len() == other.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(a, b)| a.0 == b.0 && a.1.iter().zip(&b.1).all(|(a, b)| near(a, b)))
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GPUs")?;
        for gpu in &self.gpus {
            write!(f, " {gpu}")?;
        }
        for (server, [gpus, cpus, memory]) in &self.parts {
            write!(f, ", {server}:g{gpus}:c{cpus}:m{memory}")?;
        }
        Ok(())
    }
}

/// Compares the resources granted to each job in each round.
pub(super) fn compare_rounds(
    case: &Case,
    input: &Input,
    report: &Report,
    rounds: &SortedMap<Time, SortedMap<JobId, Assignment>>,
    stop: Time,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let Some(table) = case.table("rounds.csv")? else {
        return Ok(());
    };
    let [time, job, gpus, parts] = table.columns(["time", "job", "gpus", "server_res"])?;
    let mut expected: SortedMap<Time, SortedMap<String, Grant>> = SortedMap::new();
    for (r, row) in table.rows.iter().enumerate() {
        let grant = Grant::parse(&row[gpus], &row[parts])
            .ok_or_else(|| table.wrong(r, parts, "for instance 0:g2:c6:m125, with gpus 0|1"))?;
        let at = Time::new(table.number(r, time)?);
        expected
            .entry(at)
            .or_default()
            .insert(row[job].clone(), grant);
    }
    let per_server = input.cluster.nodes.first().map_or(1, |n| n.gpus.max(1));
    let finish: SortedMap<JobId, Option<Time>> =
        report.jobs.iter().map(|j| (j.job, j.finish)).collect();
    let mut at = input.settings.first;
    let last = expected.keys().next_back().copied().unwrap_or(at);
    while at <= last.max(stop.min(report.end)) {
        // Between decisions, jobs keep their resources until they end.
        let assigned = rounds.at_or_before(&at).map(|(_, assigned)| assigned);
        let ours: SortedMap<&str, Grant> = assigned
            .into_iter()
            .flatten()
            .filter(|(j, _)| finish.get(j).is_none_or(|f| f.is_none_or(|f| f > at)))
            .map(|(j, a)| (input.name(*j), Grant::of(a, per_server)))
            .filter(|_| at <= stop)
            .collect();
        let none = SortedMap::new();
        let theirs = expected.get(&at).unwrap_or(&none);
        let what = |job: &str| format!("job {job} in the round at {at} s");
        for (job, grant) in theirs {
            out.values += 1;
            match ours.get(job.as_str()) {
                Some(found) if found.equals(grant) => {}
                found => {
                    let found = found.map_or("nothing".to_owned(), ToString::to_string);
                    out.differ(&what(job), "server_res", &grant.to_string(), &found);
                }
            }
        }
        for (job, grant) in ours.iter().filter(|(job, _)| !theirs.contains_key(**job)) {
            out.differ(&what(job), "server_res", "nothing", &grant.to_string());
        }
        at += blox_core::Seconds::new(ROUND_S);
    }
    Ok(())
}
