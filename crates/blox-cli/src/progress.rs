//! Progress bars and Ctrl-C.

use crate::terminal::INTERRUPTED;
use blox_sim::Watch;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

static CTRL_C: AtomicBool = AtomicBool::new(false);

/// Progress display of running simulations.
pub(super) enum Shows {
    /// One bar for each simulation, with its name and the expected number of jobs.
    Jobs {
        labels: Vec<String>,
        total: Option<u64>,
    },
    /// One bar for all runs: the number done, and the total.
    Runs { done: Arc<AtomicU64>, total: u64 },
}

impl Shows {
    /// Returns the display of `total` runs.
    pub fn runs(done: &Arc<AtomicU64>, total: usize) -> Self {
        Shows::Runs {
            done: Arc::clone(done),
            total: total as u64,
        }
    }
}

/// Displays the progress of simulations until it is finished.
pub(super) struct Progress {
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts the display. Only an interactive process shows progress and handles Ctrl-C.
    pub fn start(shows: Option<Shows>, watches: &[Arc<Watch>], interactive: bool) -> Self {
        if !interactive {
            return Progress { end: None };
        }
        take_ctrl_c();
        let shows = shows.filter(|_| std::io::stderr().is_terminal());
        let watches = watches.to_vec();
        let (sender, end) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut bars = Vec::new();
            let mut ticks = 0;
            while end.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                if CTRL_C.load(Ordering::Relaxed) {
                    for w in &watches {
                        w.stop.store(true, Ordering::Relaxed);
                    }
                }
                ticks += 1;
                // Short simulations need no bar.
                if ticks == 10 {
                    bars = shows.as_ref().map(make_bars).unwrap_or_default();
                }
                for (bar, watch) in bars.iter().zip(&watches) {
                    match &shows {
                        Some(Shows::Runs { done, .. }) => {
                            bar.set_position(done.load(Ordering::Relaxed))
                        }
                        _ => update(bar, watch),
                    }
                }
            }
            for bar in bars {
                bar.finish_and_clear();
            }
        });
        Progress {
            end: Some((sender, thread)),
        }
    }

    /// Removes the bars.
    pub fn finish(self) {
        if let Some((sender, thread)) = self.end {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Installs a handler of Ctrl-C and termination requests. The first signal stops the simulations
/// and reports results so far. The second ends the process.
fn take_ctrl_c() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // If the process has another handler, that one is kept.
        let _ = ctrlc::set_handler(|| {
            if CTRL_C.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

fn make_bars(shows: &Shows) -> Vec<ProgressBar> {
    let (labels, total) = match shows {
        Shows::Jobs { labels, total } => (labels, *total),
        Shows::Runs { total, .. } => {
            let template = "[{bar:30}] {human_pos} of {human_len} runs, {eta} left";
            let bar = ProgressBar::new(*total).with_style(style(template));
            return vec![bar];
        }
    };
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let all = MultiProgress::new();
    let template = match total {
        Some(_) => "{prefix} [{bar:30}] {human_pos} of {human_len} jobs ended, {msg}",
        None => "{prefix} {spinner} {human_pos} jobs ended, {msg}",
    };
    let style = style(template);
    labels
        .iter()
        .map(|label| {
            let bar = match total {
                Some(n) => ProgressBar::new(n),
                None => ProgressBar::new_spinner(),
            };
            let bar = all.add(bar.with_style(style.clone()));
            bar.set_prefix(format!("{label:width$}"));
            bar.set_message(simulated(0.0));
            bar
        })
        .collect()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

fn update(bar: &ProgressBar, watch: &Watch) {
    let ended = watch.ended.load(Ordering::Relaxed);
    let days = watch.simulated_s.load(Ordering::Relaxed) as f64 / 86_400.0;
    // Jobs after the measured ones also end.
    bar.set_position(bar.length().map_or(ended, |n| ended.min(n)));
    bar.set_message(simulated(days));
}

fn simulated(days: f64) -> String {
    format!("simulated day {days:.1}")
}
