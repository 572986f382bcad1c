//! `blox top`: a live view of nodes and jobs in the terminal.

use super::args::TopArgs;
use super::cells::{client, id, short, span};
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_cluster::client::Client;
use blox_cluster::wire::pb;
use blox_results::number_of;
use console::{Key, Term, style, truncate_str};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Longest bar of the GPUs of a node.
const LONGEST_BAR: u32 = 16;

/// Most jobs that are read. Those submitted first are shown.
const MOST_JOBS: usize = 10_000;

/// Order of the jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    State,
    Number,
    Time,
    Gpus,
    User,
}

impl Sort {
    const ALL: [(Sort, &'static str); 5] = [
        (Sort::State, "state"),
        (Sort::Number, "ID"),
        (Sort::Time, "time"),
        (Sort::Gpus, "GPUs"),
        (Sort::User, "user"),
    ];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(sort, _)| *sort == self);
        Self::ALL[(at.unwrap_or(0) + 1) % Self::ALL.len()].0
    }

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(sort, _)| *sort == self);
        known.map_or("", |(_, name)| name)
    }

    fn apply(self, jobs: &mut [pb::JobLine]) {
        let rank = |j: &pb::JobLine| match j.phase.as_str() {
            "running" => 0,
            "starting" | "stopping" => 1,
            "waiting" => 2,
            _ => 3,
        };
        // The sort is stable, and the scheduler lists jobs by number.
        match self {
            Sort::State => jobs.sort_by_key(rank),
            Sort::Number => jobs.sort_by_key(|j| j.job),
            Sort::Time => jobs.sort_by(|a, b| b.running_s.total_cmp(&a.running_s)),
            Sort::Gpus => jobs.sort_by_key(|j| std::cmp::Reverse(j.gpus)),
            Sort::User => jobs.sort_by(|a, b| a.user.cmp(&b.user)),
        }
    }
}

/// Content of the view.
struct View {
    nodes: Vec<pb::NodeLine>,
    jobs: Vec<pb::JobLine>,
    sort: Sort,
    /// Index of the selected job.
    selected: usize,
    /// An open question, result or error.
    message: String,
    at: String,
}

fn bar(node: &pb::NodeLine) -> String {
    let used = node.gpus.saturating_sub(node.free);
    let (cells, full) = match node.gpus {
        0 => (0, 0),
        gpus if gpus <= LONGEST_BAR => (gpus, used),
        gpus => (LONGEST_BAR, used * LONGEST_BAR / gpus),
    };
    let bar = "#".repeat(full as usize) + &".".repeat((cells - full) as usize);
    format!("[{bar:16}] {used:>2}/{:<2}", node.gpus)
}

impl View {
    /// Returns the lines of a screen. `styled` allows colours.
    fn lines(&self, width: usize, height: usize, styled: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let gpus: u32 = self.nodes.iter().map(|n| n.gpus).sum();
        let free: u32 = self.nodes.iter().map(|n| n.free).sum();
        let running = self.jobs.iter().filter(|j| !j.nodes.is_empty()).count();
        lines.push(format!(
            "blox at {}: {} of {} held, {} running, {} queued",
            plain(&self.at),
            gpus - free.min(gpus),
            number_of(u64::from(gpus), "GPU"),
            running,
            self.jobs.len() - running,
        ));
        // Nodes use at most half of the screen.
        let shown = self.nodes.len().min((height / 2).saturating_sub(3).max(1));
        for node in &self.nodes[..shown] {
            let status = match node.drained.is_empty() {
                true => node.status.clone(),
                false => format!("{}, drained: {}", node.status, plain(&node.drained)),
            };
            let name = short(&node.name);
            lines.push(format!("{name:20} {} {status}", bar(node)));
        }
        if shown < self.nodes.len() {
            lines.push(format!("and {} more nodes", self.nodes.len() - shown));
        }
        lines.push(String::new());
        let head = format!(
            "  {:>9} {:20} {:10} {:9} {:>11} {:>4} nodes or reason",
            "ID", "name", "user", "state", "time", "GPUs"
        );
        lines.push(match styled {
            true => style(head).bold().force_styling(true).to_string(),
            false => head,
        });
        let room = height.saturating_sub(lines.len() + 2).max(1);
        let first = (self.selected + 1).saturating_sub(room);
        for (i, job) in self.jobs.iter().enumerate().skip(first).take(room) {
            let place = match job.nodes.is_empty() {
                true => plain(&job.reason),
                false => plain(&job.nodes.join(" ")),
            };
            let mark = if styled && i == self.selected {
                ">"
            } else {
                " "
            };
            let line = format!(
                "{mark} {:>9} {:20} {:10} {:9} {:>11} {:>4} {place}",
                id(job),
                truncate_str(&short(&job.name), 20, "…"),
                truncate_str(&short(&job.user), 10, "…"),
                job.phase,
                span(job.running_s),
                job.gpus,
            );
            let line = truncate_str(&line, width, "…").into_owned();
            lines.push(match styled && i == self.selected {
                true => style(line).reverse().force_styling(true).to_string(),
                false => line,
            });
        }
        for line in &mut lines {
            *line = truncate_str(line, width, "…").trim_end().to_owned();
        }
        lines
    }

    async fn refresh(&mut self, client: &mut Client) -> Result<(), Failure> {
        self.nodes = client.nodes().await?;
        let jobs = client
            .list_selected(pb::Filter::default(), false, MOST_JOBS)
            .await?;
        self.jobs = jobs.0;
        self.sort.apply(&mut self.jobs);
        self.selected = self.selected.min(self.jobs.len().saturating_sub(1));
        Ok(())
    }
}

/// Shows the second screen of a terminal without a cursor. The first screen and the mode of the
/// terminal return when it is dropped, after a panic, too.
struct Screen {
    term: Term,
    /// Mode of the terminal before keys were read.
    mode: Option<Termios>,
}

impl Screen {
    fn show(term: Term) -> std::io::Result<Self> {
        term.write_str("\x1b[?1049h")?;
        term.hide_cursor()?;
        let mode = tcgetattr(std::io::stdin()).ok();
        Ok(Screen { term, mode })
    }

    fn draw(&self, lines: &[String], last: &str) -> std::io::Result<()> {
        let mut text = String::from("\x1b[H");
        for line in lines {
            text += line;
            text += "\x1b[K\r\n";
        }
        text += "\x1b[J";
        text += last;
        self.term.write_str(&text)?;
        self.term.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = self.term.show_cursor();
        let _ = self.term.write_str("\x1b[?1049l");
        let _ = self.term.flush();
        if let Some(mode) = &self.mode {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
        }
    }
}

pub(super) async fn run(a: TopArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let mut client = client(&a.at).await?;
    let mut view = View {
        nodes: Vec::new(),
        jobs: Vec::new(),
        sort: Sort::State,
        selected: 0,
        message: String::new(),
        at: a.at.at.clone(),
    };
    view.refresh(&mut client).await?;
    let term = Term::stdout();
    let is_live = terminal.interactive && term.is_term() && std::io::stdin().is_terminal();
    if a.once || !is_live {
        let lines = view.lines(usize::MAX, usize::MAX, false).join("\n");
        terminal.print(&(lines + "\n"))?;
        return Ok(OK);
    }
    let screen = Screen::show(term.clone())?;
    // Keys are read in a thread: it ends with the process.
    let (to, mut keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(key) = term.read_key_raw() {
            if to.send(key).is_err() {
                return;
            }
        }
    });
    let mut end = signal(SignalKind::terminate()).map_err(Failure::system)?;
    let mut every = tokio::time::interval(Duration::from_secs_f64(a.every));
    // A job whose end is in question.
    let mut question: Option<pb::JobLine> = None;
    loop {
        let (height, width) = screen.term.size();
        let help = "q quit  up/down select  c cancel  h hold  r release  s sort";
        let last = match view.message.is_empty() {
            true => format!("{help} by {}", view.sort.name()),
            false => view.message.clone(),
        };
        let lines = view.lines(width.into(), height.into(), true);
        screen.draw(&lines, &truncate_str(&last, width.into(), "…"))?;
        let key = tokio::select! {
            _ = every.tick() => None,
            key = keys.recv() => match key {
                Some(key) => Some(key),
                None => return Ok(OK),
            },
            _ = tokio::signal::ctrl_c() => return Ok(OK),
            _ = end.recv() => return Ok(OK),
        };
        let job = view.jobs.get(view.selected).cloned();
        let change = match (key, question.take()) {
            (Some(Key::Char('y')), Some(job)) => Some((job, pb::Verb::Cancel)),
            (Some(_), Some(_)) => {
                view.message.clear();
                None
            }
            (None, asked) => {
                question = asked;
                if let Err(e) = view.refresh(&mut client).await {
                    view.message = e.into_text();
                } else if question.is_none() {
                    view.message.clear();
                }
                None
            }
            (Some(Key::Char('q') | Key::Escape | Key::CtrlC | Key::Char('\u{3}')), None) => {
                return Ok(OK);
            }
            (Some(Key::ArrowDown | Key::Char('j')), None) => {
                view.selected = (view.selected + 1).min(view.jobs.len().saturating_sub(1));
                None
            }
            (Some(Key::ArrowUp | Key::Char('k')), None) => {
                view.selected = view.selected.saturating_sub(1);
                None
            }
            (Some(Key::Char('s')), None) => {
                view.sort = view.sort.next();
                view.sort.apply(&mut view.jobs);
                None
            }
            (Some(Key::Char('c')), None) => {
                if let Some(job) = job {
                    let name = short(&job.name);
                    view.message = format!("cancel job {} {name}? y/n", id(&job));
                    question = Some(job);
                }
                None
            }
            (Some(Key::Char('h')), None) => job.map(|job| (job, pb::Verb::Hold)),
            (Some(Key::Char('r')), None) => job.map(|job| (job, pb::Verb::Release)),
            (Some(_), None) => None,
        };
        if let Some((job, verb)) = change {
            view.message = match client.change(job.job, verb).await {
                Ok(()) => String::new(),
                Err(e) => plain(&e.to_string()),
            };
            if view.message.is_empty()
                && let Err(e) = view.refresh(&mut client).await
            {
                view.message = e.into_text();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_a_mark_for_each_held_gpu() {
        let node = |gpus, free| pb::NodeLine {
            gpus,
            free,
            ..pb::NodeLine::default()
        };
        assert_eq!(bar(&node(4, 1)), "[###.            ]  3/4 ");
        assert_eq!(bar(&node(64, 32)), "[########........] 32/64");
        assert_eq!(bar(&node(0, 0)), "[                ]  0/0 ");
    }

    #[test]
    fn lines_fit_the_screen_and_the_selected_job_is_seen() {
        let jobs = (0..100).map(|job| pb::JobLine {
            job,
            name: "x".repeat(90),
            phase: "waiting".to_owned(),
            ..pb::JobLine::default()
        });
        let view = View {
            nodes: vec![pb::NodeLine::default(); 40],
            jobs: jobs.collect(),
            sort: Sort::State,
            selected: 70,
            message: String::new(),
            at: "h:1".to_owned(),
        };
        for height in [1, 5, 10, 24, 50] {
            let lines = view.lines(60, height, true);
            assert!(lines.len() < height.max(7), "{height}: {}", lines.len());
            let width = |l: &String| console::measure_text_width(l);
            assert!(lines.iter().all(|l| width(l) <= 60));
            assert!(lines.iter().any(|l| l.contains("> ") && l.contains(" 70 ")));
        }
    }
}
