//! `blox policies`: lists registered policies by kind, and the claims of a scheduler.

use crate::claims;
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use blox_core::suggest::did_you_mean;
use blox_experiment::parameter_of;
use blox_registry::{ComponentRegistry, Registry};
use blox_sim::registry::World;
use std::fmt::Write;

pub(super) fn run(
    registry: &Registry,
    name: Option<&str>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let mut text = String::new();
    let mut known = Vec::new();
    let mut kind = Kind {
        text: &mut text,
        known: &mut known,
        name,
    };
    kind.list(
        "schedulers (simulate --scheduler NAME, compare NAME ...)",
        &registry.schedulers,
    );
    kind.list(
        "scheduling policies (as a scheduler, with consolidated placement)",
        &registry.scheduling,
    );
    kind.list("placement policies (--placement NAME)", &registry.placement);
    kind.list("admission policies (--admission NAME)", &registry.admission);
    kind.list(
        "cluster managers (--cluster-manager NAME)",
        &registry.cluster,
    );
    kind.list(
        "execution models (--execution NAME)",
        &registry.execution_models(),
    );
    kind.list("overheads (--overheads NAME)", &registry.overhead_models());
    kind.list(
        "completion rules (--completion NAME)",
        &registry.completion_rules(),
    );
    kind.list("workloads (--workload NAME)", &registry.workloads());
    kind.list("collectors (--collect NAME)", &registry.collectors);
    if text.is_empty() {
        known.sort();
        known.dedup();
        let name = name.unwrap_or_default();
        return Err(Failure::new(format!(
            "nothing is called `{name}`{}known: {}",
            did_you_mean(name, known.iter().map(String::as_str), "; "),
            known.join(", ")
        )));
    }
    text += &name
        .and_then(|name| claims::recorded(name, terminal.form))
        .unwrap_or_default();
    if name.is_none() {
        if cfg!(not(feature = "released")) {
            text.push_str(
                "Emulations of released programs need a build with `--features released`.\n",
            );
        }
        text.push_str("Parameters are set as 'NAME{PARAMETER=VALUE,...}', in quotes.\n");
    }
    terminal.out.write_all(text.as_bytes())?;
    Ok(OK)
}

struct Kind<'a> {
    text: &'a mut String,
    known: &'a mut Vec<String>,
    name: Option<&'a str>,
}

impl Kind<'_> {
    fn list<T>(&mut self, title: &str, components: &ComponentRegistry<T>) {
        self.known
            .extend(components.iter().map(|(n, _)| n.to_owned()));
        let shown: Vec<_> = components
            .iter()
            .filter(|(n, _)| self.name.is_none_or(|name| name == *n))
            .collect();
        if shown.is_empty() {
            return;
        }
        let width = shown.iter().map(|(n, _)| n.len()).max().unwrap_or(0);
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{title}");
        for (name, entry) in shown {
            let _ = writeln!(self.text, "  {name:<width$}  {}", entry.about);
            for p in &entry.params {
                let default = match parameter_of(p).filter(|_| p.default.is_none()) {
                    Some(parameter) => format!("--{}", parameter.key),
                    None => p.default.to_string(),
                };
                let set = format!("{}={default}", p.name);
                let _ = writeln!(self.text, "  {:<width$}    {set:<16}  {}", "", p.about);
            }
        }
        self.text.push('\n');
    }
}
