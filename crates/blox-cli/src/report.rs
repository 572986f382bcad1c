//! `blox report`: one HTML page of result folders.

use super::args::ReportArgs;
use super::files::write_whole;
use super::{Failure, OK, Terminal, plot};
use blox_results::report;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &ReportArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let out = match (&args.output, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.join("report.html"),
        (None, _) => {
            return Err(Failure::new(
                "several folders, expected --output FILE.html to say where the page goes",
            ));
        }
    };
    write(&args.dirs, &out)?;
    writeln!(terminal.out, "{}", out.display())?;
    Ok(OK)
}

/// Writes a page of result folders.
pub(super) fn write(dirs: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let page = report(&plot::open(dirs)?)?;
    write_whole(out, |f| f.write_all(page.as_bytes()))
}
