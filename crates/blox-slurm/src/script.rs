//! Batch scripts.

/// A batch script: options of `sbatch`, then one command.
///
/// ```
/// let script = blox_slurm::Script::new("train").option("time", Some("1:00")).command("exec true");
/// assert_eq!(script, "#!/bin/sh\n#SBATCH --job-name=train\n#SBATCH --time=1:00\nexec true\n");
/// ```
#[derive(Clone, Debug)]
pub struct Script(String);

impl Script {
    /// Creates the script of a job of this name.
    pub fn new(name: &str) -> Self {
        Script("#!/bin/sh\n".to_owned()).option("job-name", Some(name))
    }

    /// Adds an option, if it has a value. A value with blanks is quoted by the caller.
    #[must_use]
    pub fn option(self, name: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.argument(&format!("--{name}={value}")),
            None => self,
        }
    }

    /// Adds an argument as `sbatch` takes it.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.0.push_str(&format!("#SBATCH {argument}\n"));
        self
    }

    /// Returns the text of the script, which runs one command line.
    #[must_use]
    pub fn command(mut self, line: &str) -> String {
        self.0.push_str(line);
        self.0.push('\n');
        self.0
    }
}
