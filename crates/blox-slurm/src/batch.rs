//! Batch jobs that a scheduler of the toolkit starts.

use crate::client::Programs;
use crate::error::SlurmError;
use crate::spec::Description;

/// A batch job, submitted held with a comment, so that a scheduler of the toolkit starts it.
///
/// ```
/// use blox_slurm::{Batch, Description, Task};
///
/// let batch = Batch {
///     description: Description { duration: Some(600.0), ..Description::default() },
///     gpus: Some(4),
///     task: Task::Shell("exec python train.py".to_owned()),
///     ..Batch::default()
/// };
/// let args = batch.args()?.join("|");
/// assert!(args.starts_with("--parsable|--hold|--requeue|--open-mode=append|--gpus=4|"));
/// assert!(args.ends_with("|--comment=blox duration=600|--wrap=exec python train.py"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Content of the comment.
    pub description: Description,
    /// Number of GPUs; `None` if `options` or the script request them.
    pub gpus: Option<u32>,
    /// Name of the job; `None` for Slurm's default.
    pub name: Option<String>,
    /// Partition; `None` for Slurm's default.
    pub partition: Option<String>,
    /// Account; `None` for Slurm's default.
    pub account: Option<String>,
    /// Time limit as Slurm reads it; `None` for the limit of the partition.
    pub time: Option<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Further options of `sbatch`.
    pub options: Vec<String>,
    /// Program of the job.
    pub task: Task,
}

/// Program of a batch job.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// A line of a shell.
    Shell(String),
    /// A batch script.
    Script {
        /// Path of the script.
        path: String,
        /// Content of the script.
        text: String,
        /// Arguments of the script.
        args: Vec<String>,
    },
}

impl Default for Task {
    fn default() -> Self {
        Task::Shell("true".to_owned())
    }
}

/// Options that the scheduler cannot use or the submission sets itself: long name, letter, and the
/// expected request.
const UNUSABLE: [(&str, Option<char>, &str); 6] = [
    ("--array", Some('a'), "single jobs"),
    ("--no-requeue", None, "a job that Slurm may requeue"),
    ("--gpus-per-task", None, "--gpus or --gpus-per-node"),
    ("--exclusive", None, "a number of GPUs alone"),
    ("--comment", None, "the options of the submission instead"),
    ("--wrap", None, "the command after --"),
];

impl Batch {
    /// Returns the arguments of `sbatch`.
    ///
    /// # Errors
    /// A sentence with the option or value that the scheduler cannot use.
    pub fn args(&self) -> Result<Vec<String>, String> {
        let lines = match &self.task {
            Task::Script { text, .. } => options_of(text),
            Task::Shell(_) => Vec::new(),
        };
        let own = self
            .options
            .iter()
            .map(|word| ("--slurm-arg", word.as_str()));
        let of_script = lines.iter().map(|word| ("the script", *word));
        for (whose, word) in own.chain(of_script) {
            let unusable = |(long, letter, _): &&(&str, _, _)| names(word, long, *letter);
            if let Some((name, _, expected)) = UNUSABLE.iter().find(unusable) {
                return Err(format!("{whose} has {name}, expected {expected}"));
            }
        }
        if self.gpus.is_some() && self.options.iter().any(|word| requests_gpus(word)) {
            return Err("--slurm-arg requests GPUs, and so does --gpus: expected one".to_owned());
        }
        let mut args: Vec<String> = ["--parsable", "--hold", "--requeue", "--open-mode=append"]
            .map(str::to_owned)
            .into();
        let gpus = self.gpus.map(|gpus| gpus.to_string());
        for (name, value) in [
            ("gpus", &gpus),
            ("job-name", &self.name),
            ("partition", &self.partition),
            ("account", &self.account),
            ("time", &self.time),
        ] {
            args.extend(value.iter().map(|value| format!("--{name}={value}")));
        }
        if !self.env.is_empty() {
            args.push("--export=ALL".to_owned());
        }
        args.extend(self.options.iter().cloned());
        args.push(format!("--comment={}", self.description.comment()?));
        match &self.task {
            Task::Shell(line) => args.push(format!("--wrap={line}")),
            Task::Script {
                path, args: its, ..
            } => {
                args.push(path.clone());
                args.extend(its.iter().cloned());
            }
        }
        Ok(args)
    }
}

/// Returns whether a batch script or an option of `sbatch` requests GPUs.
///
/// ```
/// assert!(blox_slurm::requests_gpus("--gres=gpu:4"));
/// assert!(blox_slurm::requests_gpus("#!/bin/sh\n#SBATCH -G 4\n"));
/// assert!(!blox_slurm::requests_gpus("--mem=2G"));
/// ```
pub fn requests_gpus(text: &str) -> bool {
    let requests = |word: &str| {
        let of_gpu = word.starts_with("--gres") && word.contains("gpu");
        of_gpu || names(word, "--gpus", Some('G')) || names(word, "--gpus-per-node", None)
    };
    match text.starts_with('-') {
        true => requests(text),
        false => options_of(text).into_iter().any(requests),
    }
}

/// Returns the options in the `#SBATCH` lines of a script, which end at its first command.
fn options_of(script: &str) -> Vec<&str> {
    let comments = script
        .lines()
        .take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    let options = comments.filter_map(|line| line.strip_prefix("#SBATCH"));
    let words = options.flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with('-')).collect()
}

/// Returns whether a word is an option with this name or letter, perhaps with its value.
fn names(word: &str, long: &str, letter: Option<char>) -> bool {
    let name = word.split(['=', ' ']).next();
    let short = word.strip_prefix('-').zip(letter);
    name == Some(long) || short.is_some_and(|(rest, letter)| rest.starts_with(letter))
}

impl Programs {
    /// Submits a batch job with these arguments of `sbatch` and additional variables of the
    /// environment, and returns Slurm's number of the job. The arguments contain `--parsable`.
    ///
    /// # Errors
    /// See [`Programs::run`]. The output may also be no number.
    pub fn submit(&self, args: &[String], env: &[(String, String)]) -> Result<u32, SlurmError> {
        let out = self.run_with("sbatch", args, env)?;
        let text = String::from_utf8_lossy(&out);
        // A federation adds its name.
        let number = text.trim().split(';').next().unwrap_or_default();
        number.parse().map_err(|_| SlurmError::Output {
            program: "sbatch",
            found: format!("`{}`", text.trim()),
            expected: "the number of the job",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Batch {
        Batch {
            task: Task::Script {
                path: "job.sh".to_owned(),
                text: text.to_owned(),
                args: vec!["--array".to_owned()],
            },
            ..Batch::default()
        }
    }

    #[test]
    fn options_that_schedulers_leave_alone_are_refused() {
        for (option, name) in [
            ("--array=1-4", "--array"),
            ("-a1-4", "--array"),
            ("--no-requeue", "--no-requeue"),
            ("--gpus-per-task=1", "--gpus-per-task"),
            ("--exclusive", "--exclusive"),
            ("--exclusive=user", "--exclusive"),
            ("--comment=x", "--comment"),
        ] {
            let of_script = script(&format!(
                "#!/bin/sh\n# text\n#SBATCH --mem=1G {option}\nrun\n"
            ));
            let error = of_script.args().unwrap_err();
            assert!(
                error.starts_with(&format!("the script has {name}, ")),
                "{error}"
            );
            let batch = Batch {
                options: vec![option.to_owned()],
                ..Batch::default()
            };
            let error = batch.args().unwrap_err();
            assert!(
                error.starts_with(&format!("--slurm-arg has {name}, ")),
                "{error}"
            );
        }
        // After the first command, a line is no option; an argument of the script is none either.
        let args = script("#!/bin/sh\nrun\n#SBATCH --array=1-4\n").args();
        assert_eq!(args.unwrap().last().map(String::as_str), Some("--array"));
    }

    #[test]
    fn gpus_are_requested_once() {
        let batch = |gpus| Batch {
            gpus,
            options: vec!["--gres=gpu:v100:2".to_owned()],
            ..Batch::default()
        };
        assert!(batch(Some(2)).args().is_err());
        let args = batch(None).args().unwrap();
        assert!(
            !args.iter().any(|arg| arg.starts_with("--gpus")),
            "{args:?}"
        );
        assert!(requests_gpus(
            "#!/bin/sh\n\n#SBATCH --time=10 --gpus-per-node=2\n"
        ));
        assert!(!requests_gpus("#!/bin/sh\npython train.py --gpus 4\n"));
    }
}
