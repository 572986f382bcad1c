//! `blox plot`: pictures of result folders.

use super::args::PlotArgs;
use super::files::write_whole;
use super::{Failure, OK, Terminal};
use blox_core::suggest::did_you_mean;
use blox_results::{Folder, Picture, pictures};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How many pixels of a PNG a unit of the picture has.
#[cfg(feature = "png")]
const PNG_SCALE: f32 = 2.0;

pub(super) fn run(args: &PlotArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let out = match (&args.output_dir, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.join("plots"),
        (None, _) => {
            return Err(Failure::new(
                "several folders, expected --output-dir DIR to say where to draw",
            ));
        }
    };
    let drawn = draw(&args.dirs, &out, &args.only, args.png)?;
    if drawn.is_empty() {
        let why = "nothing to draw: no job has ended, or a sweep has fewer than two settings";
        let _ = writeln!(terminal.err, "{why}");
    }
    for (picture, path) in drawn {
        writeln!(terminal.out, "{}  {}", path.display(), picture.title)?;
    }
    Ok(OK)
}

/// Draws what the folders have the data for, and says what is where.
pub(super) fn draw(
    dirs: &[PathBuf],
    out: &Path,
    only: &[String],
    png: bool,
) -> Result<Vec<(Picture, PathBuf)>, Failure> {
    if png && !cfg!(feature = "png") {
        return Err(Failure::new(
            "--png: this program was built without it, expected a build with `--features png`",
        ));
    }
    let mut list = pictures(&open(dirs)?).map_err(Failure::new)?;
    unlike_names(&mut list);
    if let Some(name) = only.iter().find(|n| list.iter().all(|p| p.name != **n)) {
        let known: Vec<&str> = list.iter().map(|p| p.name.as_str()).collect();
        return Err(Failure::new(format!(
            "--only is `{name}`{}expected a picture that there are data for: {}",
            did_you_mean(name, known.iter().copied(), ", "),
            known.join(", ")
        )));
    }
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::new(format!("{}: cannot be made: {e}", out.display())))?;
    let mut drawn = Vec::new();
    for picture in list {
        if !only.is_empty() && !only.contains(&picture.name) {
            continue;
        }
        let path = out.join(format!("{}.svg", picture.name));
        write_whole(&path, |f| f.write_all(picture.svg.as_bytes()))?;
        #[cfg(feature = "png")]
        if png {
            let bytes = blox_plot::png(&picture.svg, PNG_SCALE)
                .map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            write_whole(&path.with_extension("png"), |f| f.write_all(&bytes))?;
        }
        drawn.push((picture, path));
    }
    Ok(drawn)
}

/// Pictures of several folders may have one name: later ones are numbered.
fn unlike_names(list: &mut [Picture]) {
    for i in 1..list.len() {
        let (before, rest) = list.split_at_mut(i);
        let name = rest[0].name.clone();
        let taken = |name: &str| before.iter().any(|p| p.name == name);
        let mut number = 2;
        while taken(&rest[0].name) {
            rest[0].name = format!("{name}-{number}");
            number += 1;
        }
    }
}

/// Reads result folders.
pub(super) fn open(dirs: &[PathBuf]) -> Result<Vec<Folder>, Failure> {
    dirs.iter()
        .map(|dir| Folder::open(dir).map_err(Failure::new))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_one_name_are_numbered() {
        let picture = |name: &str| Picture {
            name: name.to_owned(),
            title: String::new(),
            svg: String::new(),
        };
        let mut list = [picture("a"), picture("b"), picture("a"), picture("a")];
        unlike_names(&mut list);
        let names: Vec<&str> = list.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "a-2", "a-3"]);
    }
}
