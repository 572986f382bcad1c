//! Input, output and exit codes of a command.

use crate::failure::Failure;
use blox_results::grid::{Form, WIDTH};
use std::io::{BufRead, Write};

pub(super) const OK: i32 = 0;
pub(super) const DIFFERS: i32 = 1;
pub(super) const BAD_INPUT: i32 = 2;
pub(super) const UNREACHABLE: i32 = 3;
pub(super) const INTERRUPTED: i32 = 130;

/// Input and output of a command. The input holds the commands of `step`.
pub(super) struct Terminal<'a> {
    pub input: &'a mut dyn BufRead,
    /// True if the input is a terminal, so that `step` prints prompts.
    pub prompts: bool,
    pub out: &'a mut dyn Write,
    /// Default format of tables.
    pub form: Form,
    pub err: &'a mut dyn Write,
    /// True in a process with an interactive user: it may show progress and handle Ctrl-C.
    pub interactive: bool,
}

impl Terminal<'_> {
    /// Prints results.
    pub fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Fails with the last of several errors, and prints those before. Equal ones are shown once.
    pub fn failed<T>(&mut self, mut failures: Vec<Failure>) -> Result<T, Failure> {
        let last = failures.pop().unwrap_or(Failure::ClosedPipe);
        let last_text = last.to_string();
        let mut texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
        texts.retain(|text| *text != last_text);
        texts.dedup();
        for text in texts {
            let _ = writeln!(self.err, "error: {text}");
        }
        Err(last)
    }

    /// Prints notices, a line each.
    pub fn notices<'a>(&mut self, notices: impl IntoIterator<Item = &'a String>) {
        for notice in notices {
            let _ = writeln!(self.err, "notice: {notice}");
        }
    }
}

/// Returns the form of tables for the terminal of this process, of at most 100 columns.
pub(crate) fn form_of_terminal() -> Form {
    let size = console::Term::stdout().size_checked();
    let width = size.map(|(_, columns)| columns).filter(|width| *width > 0);
    Form::Wrapped(width.unwrap_or(WIDTH).min(WIDTH))
}
