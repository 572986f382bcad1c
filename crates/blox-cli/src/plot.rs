//! `blox plot` and `blox report`: plots and a page of result folders.

use super::args::{PlotArgs, ReportArgs};
use super::files::{not_taken, write_whole};
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use blox_core::suggest::{did_you_mean, one_of};
use blox_results::{Folder, GANTT, GROUP_DISTRIBUTION, JCT, Picture, SUMMARIES, pictures};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &PlotArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    if let Some(path) = &args.output {
        let picture = draw_one(&args.dirs, path, &args.only)?;
        writeln!(terminal.out, "{}  {}", path.display(), picture.title)?;
        return Ok(OK);
    }
    let out = match (&args.output_dir, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.join("plots"),
        (None, _) => {
            return Err(Failure::new(
                "several folders, expected --output-dir DIR to say where to draw",
            ));
        }
    };
    let mut formats = vec![Format::Svg];
    formats.extend(args.png.then_some(Format::Png));
    formats.extend(args.pdf.then_some(Format::Pdf));
    let drawn = draw(&args.dirs, &out, &args.only, &formats)?;
    if drawn.is_empty() {
        let why = "nothing to draw: no job has ended, or a sweep has fewer than two settings";
        let _ = writeln!(terminal.err, "{why}");
    }
    for (picture, path) in drawn {
        writeln!(terminal.out, "{}  {}", path.display(), picture.title)?;
    }
    Ok(OK)
}

/// Writes one HTML page of result folders.
pub(super) fn report(args: &ReportArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let out = match (&args.output, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.join("report.html"),
        (None, _) => {
            return Err(Failure::new(
                "several folders, expected --output FILE.html to say where the page goes",
            ));
        }
    };
    write_page(&args.dirs, &out)?;
    writeln!(terminal.out, "{}", out.display())?;
    Ok(OK)
}

/// Writes a page of result folders.
pub(super) fn write_page(dirs: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let page = blox_results::report(&open(dirs)?)?;
    write_whole(out, |f| f.write_all(page.as_bytes()))
}

/// The format of a file with a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Svg,
    Png,
    Pdf,
}

impl Format {
    /// Returns the format that the extension of a path names.
    fn of(path: &Path) -> Result<Self, Failure> {
        let found = path.extension().unwrap_or_default().to_string_lossy();
        let known = [Format::Svg, Format::Png, Format::Pdf];
        let named = |f: &Format| found.eq_ignore_ascii_case(f.extension());
        known.into_iter().find(named).ok_or_else(|| {
            let path = path.display();
            Failure::new(format!(
                "{path}: the extension is `{found}`, expected svg, png or pdf"
            ))
        })
    }

    fn extension(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Png => "png",
            Format::Pdf => "pdf",
        }
    }

    /// Fails for formats that this build cannot write.
    fn check(self) -> Result<(), Failure> {
        match self == Format::Svg || cfg!(feature = "png") {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "this program was built without pictures as {}, expected a build with \
                 `--features png`, which writes png and pdf",
                self.extension()
            ))),
        }
    }

    /// Writes a picture into a file of this format.
    fn write(self, picture: &Picture, path: &Path) -> Result<(), Failure> {
        self.check()?;
        #[cfg(feature = "png")]
        let bytes = match self {
            Format::Png => blox_plot::png(&picture.svg, PNG_SCALE),
            Format::Pdf => blox_plot::pdf(&picture.svg),
            Format::Svg => Ok(picture.svg.clone().into_bytes()),
        }
        .map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        #[cfg(not(feature = "png"))]
        let bytes = picture.svg.clone().into_bytes();
        write_whole(path, |f| f.write_all(&bytes))
    }
}

/// Pixels of a PNG for each unit of the picture: 364 dpi if the picture is 3.3 inch wide.
#[cfg(feature = "png")]
const PNG_SCALE: f32 = 3.0;

/// Draws the pictures that the folders have data for, each in these formats. Returns the
/// pictures with the paths of the first format.
pub(super) fn draw(
    dirs: &[PathBuf],
    out: &Path,
    only: &[String],
    formats: &[Format],
) -> Result<Vec<(Picture, PathBuf)>, Failure> {
    for format in formats {
        format.check()?;
    }
    let list = chosen(dirs, only)?;
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::new(format!("{}: cannot be made: {e}", out.display())))?;
    let mut drawn = Vec::new();
    for picture in list {
        let path = |format: &Format| out.join(format!("{}.{}", picture.name, format.extension()));
        for format in formats {
            format.write(&picture, &path(format))?;
        }
        let first = path(formats.first().unwrap_or(&Format::Svg));
        drawn.push((picture, first));
    }
    Ok(drawn)
}

/// Draws one picture into a file, in the format that its extension names.
fn draw_one(dirs: &[PathBuf], path: &Path, only: &[String]) -> Result<Picture, Failure> {
    let format = Format::of(path)?;
    format.check()?;
    let mut list = chosen(dirs, only)?;
    match (list.pop(), list.len()) {
        (Some(picture), 0) => {
            format.write(&picture, path)?;
            Ok(picture)
        }
        (last, rest) => Err(Failure::new(format!(
            "--output holds one picture, but there are {}, expected --only NAME once",
            rest + usize::from(last.is_some())
        ))),
    }
}

/// Splits a value of `--plot` into the picture, if it names one, and the file.
pub(super) fn named(text: &str) -> (Option<&str>, &str) {
    match text.rsplit_once('=') {
        Some((picture, file)) => (Some(picture), file),
        None => (None, text),
    }
}

/// A picture that `--plot` writes into a file.
pub(super) struct Drawing {
    name: String,
    path: PathBuf,
    format: Format,
}

impl Drawing {
    /// Reads a value of `--plot`. `folders` are the result folders of the schedulers.
    pub fn of<'a>(text: &str, folders: impl Iterator<Item = &'a str>) -> Result<Self, Failure> {
        let (picture, file) = named(text);
        let name = picture.unwrap_or(JCT.name).to_owned();
        let of_each: Vec<String> = folders
            .flat_map(|f| [GANTT, GROUP_DISTRIBUTION].map(|start| format!("{start}{f}")))
            .collect();
        let known = || {
            let names = SUMMARIES.iter().map(|kind| kind.name);
            names.chain(of_each.iter().map(String::as_str))
        };
        if !known().any(|k| k == name) {
            return Err(Failure::new(format!(
                "--plot: `{name}` is no picture, expected {}",
                one_of(&name, known())
            )));
        }
        let path = PathBuf::from(file);
        let format = Format::of(&path)?;
        format.check()?;
        Ok(Drawing { name, path, format })
    }

    /// Returns whether the picture shows assignments over time.
    pub fn needs_assignments(&self) -> bool {
        self.name.starts_with(GANTT)
    }

    /// Fails if the picture needs more than the job completion times, which are all that is kept of
    /// several seeds.
    pub fn check_seeds(&self) -> Result<(), Failure> {
        match self.name == JCT.name {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "--plot: `{}` is no picture of several seeds, expected {}; `blox sweep` keeps the \
                 results of each seed",
                self.name, JCT.name
            ))),
        }
    }

    /// Writes a picture into the file.
    pub fn write(&self, picture: &Picture) -> Result<(), Failure> {
        self.format.write(picture, &self.path)
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Draws pictures of a result folder into files.
pub(super) fn draw_each(dir: &Path, drawings: &[Drawing]) -> Result<(), Failure> {
    if drawings.is_empty() {
        return Ok(());
    }
    let list = pictures(&open(&[dir.to_owned()])?)?;
    for drawing in drawings {
        let name = &drawing.name;
        let Some(picture) = list.iter().find(|p| p.name == *name) else {
            let kind = SUMMARIES.iter().find(|kind| kind.name == *name);
            let needs = match kind {
                None if name.starts_with(GROUP_DISTRIBUTION) => " and --by COLUMN",
                kind => kind.map_or("", |kind| kind.needs),
            };
            return Err(Failure::new(format!(
                "--plot: there are no data for `{name}`, expected jobs that ended{needs}"
            )));
        };
        drawing.write(picture)?;
    }
    Ok(())
}

/// Returns the pictures of the folders that `only` names, or all of them.
fn chosen(dirs: &[PathBuf], only: &[String]) -> Result<Vec<Picture>, Failure> {
    let mut list = pictures(&open(dirs)?)?;
    unlike_names(&mut list);
    if let Some(name) = only.iter().find(|n| list.iter().all(|p| p.name != **n)) {
        let known: Vec<&str> = list.iter().map(|p| p.name.as_str()).collect();
        return Err(Failure::new(format!(
            "--only is `{name}`{}expected a picture that there are data for: {}",
            did_you_mean(name, known.iter().copied(), ", "),
            known.join(", ")
        )));
    }
    list.retain(|p| only.is_empty() || only.contains(&p.name));
    Ok(list)
}

/// Adds a number to the names of pictures that several folders share.
fn unlike_names(list: &mut [Picture]) {
    for i in 1..list.len() {
        let name = std::mem::take(&mut list[i].name);
        list[i].name = not_taken(name, |name| list[..i].iter().any(|p| p.name == name));
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
    fn format_of_an_unknown_extension_lists_the_known() {
        for (path, format) in [
            ("a.svg", Format::Svg),
            ("b/a.PNG", Format::Png),
            ("a.b.pdf", Format::Pdf),
        ] {
            assert_eq!(Format::of(Path::new(path)).ok(), Some(format));
        }
        let error = Format::of(Path::new("a.gif")).unwrap_err().into_text();
        assert_eq!(
            error,
            "a.gif: the extension is `gif`, expected svg, png or pdf"
        );
        assert!(Format::of(Path::new("pdf")).is_err());
    }

    #[test]
    fn format_without_the_feature_names_the_feature() {
        let checked = Format::Pdf.check();
        assert_eq!(checked.is_ok(), cfg!(feature = "png"));
        if let Err(error) = checked {
            assert!(error.into_text().contains("--features png"));
        }
        assert!(Format::Svg.check().is_ok());
    }

    #[cfg(feature = "png")]
    #[test]
    fn each_format_writes_its_own_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let svg = blox_plot::Outline::new("t", [(0, "a".to_owned())]).svg();
        let picture = Picture {
            name: "a".to_owned(),
            title: "t".to_owned(),
            svg,
        };
        for (format, start) in [
            (Format::Svg, &b"<svg"[..]),
            (Format::Png, b"\x89PNG"),
            (Format::Pdf, b"%PDF"),
        ] {
            let path = dir.path().join("a").with_extension(format.extension());
            format.write(&picture, &path).unwrap();
            assert!(std::fs::read(path).unwrap().starts_with(start));
        }
    }

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
