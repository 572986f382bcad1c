//! `blox man`: man pages of all commands.

use super::files::write_whole;
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use clap_mangen::Man;
use std::path::Path;

/// Writes a page for the program and one for each command that the help lists.
pub(super) fn run(
    program: clap::Command,
    dir: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::at(dir, format!("cannot be made: {e}")))?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    pages(&program, "blox", dir, terminal)?;
    Ok(OK)
}

/// Writes the page of a command, then the pages of its commands.
fn pages(
    command: &clap::Command,
    name: &str,
    dir: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let man = Man::new(command.clone()).title(name);
    write_whole(&path, |out| man.render(out))?;
    writeln!(terminal.out, "{}", path.display())?;
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("{name}-{}", inner.get_name());
        pages(inner, &name, dir, terminal)?;
    }
    Ok(())
}
