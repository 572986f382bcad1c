//! A progress bar a scheduler, and Ctrl-C.

use super::INTERRUPTED;
use super::resolve::Experiment;
use blox_sim::Watch;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

static CTRL_C: AtomicBool = AtomicBool::new(false);

/// Watches simulations until it is finished.
pub(super) struct Progress {
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Only a whole process shows progress and takes Ctrl-C.
    pub fn start(experiment: &Experiment<'_>, watches: &[Arc<Watch>], interactive: bool) -> Self {
        if !interactive {
            return Progress { end: None };
        }
        take_ctrl_c();
        let shows = !experiment.options.quiet && std::io::stderr().is_terminal();
        let labels: Vec<String> = experiment
            .contestants
            .iter()
            .map(|c| c.label.clone())
            .collect();
        let total = experiment.expected_jobs;
        let watches = watches.to_vec();
        let (sender, end) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut bars: Option<Vec<ProgressBar>> = None;
            let mut ticks = 0;
            while end.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                if CTRL_C.load(Ordering::Relaxed) {
                    for w in &watches {
                        w.stop.store(true, Ordering::Relaxed);
                    }
                }
                ticks += 1;
                // What is over at once needs no bar.
                if shows && ticks >= 10 {
                    let bars = bars.get_or_insert_with(|| make_bars(&labels, total));
                    for (bar, watch) in bars.iter().zip(&watches) {
                        update(bar, watch);
                    }
                }
            }
            for bar in bars.iter().flatten() {
                bar.finish_and_clear();
            }
        });
        Progress {
            end: Some((sender, thread)),
        }
    }

    /// Takes the bars away.
    pub fn finish(self) {
        if let Some((sender, thread)) = self.end {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// The first Ctrl-C asks for the results so far, the second ends the process.
fn take_ctrl_c() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another handler in the process is as good as this one.
        let _ = ctrlc::set_handler(|| {
            if CTRL_C.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

fn make_bars(labels: &[String], total: Option<u64>) -> Vec<ProgressBar> {
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let all = MultiProgress::new();
    let template = match total {
        Some(_) => "{prefix} [{bar:30}] {human_pos} of {human_len} jobs ended, {msg}",
        None => "{prefix} {spinner} {human_pos} jobs ended, {msg}",
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    labels
        .iter()
        .map(|label| {
            let bar = match total {
                Some(n) => ProgressBar::new(n),
                None => ProgressBar::new_spinner(),
            };
            let bar = all.add(bar.with_style(style.clone()));
            bar.set_prefix(format!("{label:width$}"));
            bar
        })
        .collect()
}

fn update(bar: &ProgressBar, watch: &Watch) {
    let ended = watch.ended.load(Ordering::Relaxed);
    let days = watch.simulated_s.load(Ordering::Relaxed) as f64 / 86_400.0;
    // Jobs after the measured ones end too.
    bar.set_position(bar.length().map_or(ended, |n| ended.min(n)));
    bar.set_message(format!("simulated day {days:.1}"));
}
