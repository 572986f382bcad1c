//! README and site: shown output is real, every command line runs, generated pages are
//! current, and every link resolves.
//!
//! `BLOX_BLESS=1 cargo test --test readme` rewrites the generated pages and shown output.
#![cfg(all(feature = "released", feature = "testing"))]

mod support;

use blox::core::ClusterSpec;
use blox::registry::ComponentSpec;
use blox::sim::registry::World;
use blox::sim::{Measure, Simulation};
use blox::testing::{conformance, conformance_of_model};
use blox::traces::Format;
use blox::traces::generate::blox::BloxWorkload;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use support::{Seen, blox, good};

const README: &str = include_str!("../README.md");

/// The text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("{to}")).0
}

/// Returns README and all pages of the site: path and text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    let mut folders = vec![PathBuf::from("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Copies the files that commands in documents read.
fn lay_out_site(dir: &Path) {
    for entry in fs::read_dir("docs/src/files").unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
}

/// Copies the files that commands of the README read.
fn lay_out_examples(dir: &Path) {
    fs::create_dir(dir.join("examples")).unwrap();
    for file in ["examples/jobs.csv", "examples/study.toml"] {
        fs::copy(file, dir.join(file)).unwrap();
    }
}

/// Runs the commands of a transcript (`$ COMMAND`, then its standard output) and returns the
/// transcript with the output that they print. A line `...` stands for any lines.
fn transcript(dir: &Path, block: &str, ran: &mut usize) -> String {
    let mut text = String::new();
    for part in block.split_inclusive('\n').fold(Vec::new(), grouped) {
        let (command, shown) = part.split_once('\n').unwrap();
        let seen = typed(dir, command);
        let fails = command.contains("2>&1");
        assert!(fails || seen.code == Some(0), "{command}\n{}", seen.err);
        text.push_str(&format!("$ {command}\n"));
        // Two adjacent commands are one paragraph.
        let empty = if shown.ends_with("\n\n") { "\n" } else { "" };
        let out = seen.out.trim_end();
        match shown.split_once("...\n") {
            Some((head, tail)) if out.starts_with(head) && out.ends_with(tail.trim_end()) => {
                text.push_str(shown);
            }
            _ if out.is_empty() => text.push_str(empty),
            _ => text.push_str(&format!("{out}\n{empty}")),
        }
        *ran += 1;
    }
    text
}

/// Groups lines into one text for each command.
fn grouped(mut parts: Vec<String>, line: &str) -> Vec<String> {
    match (line.strip_prefix("$ "), parts.last_mut()) {
        (Some(command), _) => parts.push(command.to_owned()),
        (None, Some(last)) => last.push_str(line),
        (None, None) => panic!("{line}: expected a command"),
    }
    parts
}

#[test]
fn shown_commands_print_shown_output() {
    const OPEN: &str = "```text\n$ ";
    let mut ran = 0;
    for (path, text) in documents() {
        let dir = tempfile::tempdir().unwrap();
        lay_out_site(dir.path());
        let mut parts = text.split(OPEN);
        let mut found = parts.next().unwrap().to_owned();
        for part in parts {
            let (block, rest) = part.split_once("```").unwrap();
            let now = transcript(dir.path(), &format!("$ {block}"), &mut ran);
            found.push_str(&format!("```text\n{now}```{rest}"));
        }
        agree(&path, &text, &found);
    }
    assert!(ran >= 20, "{ran}");
}

/// Compares the README with what it should be. Several tests change it, each a part.
fn agree_readme(expected: impl FnOnce(&str) -> String) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let path = Path::new("README.md");
    let text = fs::read_to_string(path).unwrap();
    agree(path, &text, &expected(&text));
}

/// Compares a document with what it should be, or rewrites it if `BLOX_BLESS` is set.
fn agree(path: &Path, text: &str, expected: &str) {
    if std::env::var_os("BLOX_BLESS").is_some() {
        if text != expected {
            fs::write(path, expected).unwrap();
        }
        return;
    }
    let differs = text.lines().zip(expected.lines()).find(|(a, b)| a != b);
    let path = path.display();
    assert!(
        text == expected,
        "{path} is not current: run `BLOX_BLESS=1 cargo test --test readme`; first: {differs:?}"
    );
}

/// Runs the code of the page about data frames, with `BLOX_PYTHON` or `python3`, and compares what it
/// prints. Without pandas and Polars, the test only says that it is skipped.
#[test]
fn code_for_pandas_and_polars_prints_its_output() {
    const OPEN: &str = "```python\n";
    const SHOWN: &str = "\n```text\n";
    let python = std::env::var("BLOX_PYTHON").unwrap_or("python3".to_owned());
    let imports = Command::new(&python)
        .args(["-c", "import pandas, polars"])
        .output();
    if !imports.is_ok_and(|seen| seen.status.success()) {
        eprintln!(
            "skipped: `{python}` has no pandas and polars; BLOX_PYTHON names another program"
        );
        return;
    }
    let path = PathBuf::from("docs/src/how-to/pandas.md");
    let text = fs::read_to_string(&path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    lay_out_site(dir.path());
    let program = Path::new(env!("CARGO_BIN_EXE_blox")).parent().unwrap();
    let paths = std::env::var("PATH").unwrap_or_default();
    let paths = format!("{}:{paths}", program.display());
    let mut parts = text.split(OPEN);
    let mut found = parts.next().unwrap().to_owned();
    let mut ran = 0;
    for part in parts {
        let (code, rest) = part.split_once("```\n").unwrap();
        let (shown, after) = rest.strip_prefix(SHOWN).unwrap().split_once("```").unwrap();
        let mut printed = shown.to_owned();
        if cfg!(feature = "parquet") || !code.contains("parquet") {
            let mut command = Command::new(&python);
            let command = command.args(["-c", code]).env("PATH", &paths);
            let seen = command.current_dir(dir.path()).output().unwrap();
            assert!(
                seen.status.success(),
                "{code}\n{}",
                String::from_utf8_lossy(&seen.stderr)
            );
            printed = String::from_utf8(seen.stdout).unwrap();
            ran += 1;
        }
        found.push_str(&format!("{OPEN}{code}```\n{SHOWN}{printed}```{after}"));
    }
    assert!(ran >= 4, "{ran}");
    agree(&path, &text, &found);
}

#[test]
fn readme_has_at_most_700_words() {
    let words = README.split_whitespace().count();
    assert!(words <= 700, "{words}");
}

/// Each command line of the README that a block of text follows prints that block.
#[test]
fn commands_of_readme_print_and_draw_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    lay_out_examples(dir.path());
    agree_readme(|text| shown_by_readme(dir.path(), text));
    // The picture is of the last command.
    let drawn = fs::read_to_string(dir.path().join("jct.svg")).unwrap();
    let path = Path::new("docs/src/images/jct-cdf.svg");
    agree(path, &fs::read_to_string(path).unwrap(), &drawn);
}

/// Returns the README with what its commands print in a folder.
fn shown_by_readme(dir: &Path, text: &str) -> String {
    const COMMAND: &str = "\n    cargo run --release -- ";
    let mut parts = text.split(COMMAND);
    let mut found = parts.next().unwrap().to_owned();
    let mut ran = 0;
    for part in parts {
        let (line, rest) = part.split_once('\n').unwrap();
        let (before, shown) = rest.split_once("```text\n").unwrap();
        let (shown, after) = shown.split_once("```").unwrap();
        let mut out = good(dir, &format!("{line} --plot jct.svg")).out;
        // The lines below a table may be left out.
        if shown.ends_with("...\n") {
            out = format!("{}\n...\n", out.split_once("\n\n").unwrap().0);
        }
        found.push_str(&format!(
            "{COMMAND}{line}\n{before}```text\n{out}```{after}"
        ));
        ran += 1;
    }
    assert_eq!(ran, 2);
    found
}

/// The sentence at the top states what the table of the study shows.
#[test]
fn first_sentence_of_readme_is_measured() {
    let row = README
        .lines()
        .rfind(|line| line.starts_with("las "))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let shorter = |ratio: &str| (100.0 * (1.0 - ratio.parse::<f64>().unwrap())).round();
    let (low, high) = cells[4].split_once("..").unwrap();
    let (median, least, most) = (shorter(cells[3]), shorter(high), shorter(low));
    let sentence = format!("of `fifo` by {median} %, in five seeds by {least} to {most} %");
    assert!(README.contains(&sentence), "{sentence}");
}

/// Returns the help of a command with all its subcommands as sections of a page.
fn help_of(name: &str, page: &mut String) {
    let help = good(Path::new("."), &format!("{name} --help")).out;
    let title = format!("blox {name}").trim_end().to_owned();
    page.push_str(&format!("## {title}\n\n```text\n{}```\n\n", tidy(&help)));
    let subcommands = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    for line in subcommands.lines().take_while(|line| !line.is_empty()) {
        let sub = line.split_whitespace().next().unwrap();
        if sub != "help" {
            help_of(format!("{name} {sub}").trim_start(), page);
        }
    }
}

/// Removes spaces at the ends of lines.
fn tidy(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

const GENERATED: &str = "<!-- Generated: BLOX_BLESS=1 cargo test --test readme -->\n\n";

#[test]
fn reference_of_commands_is_current() {
    let mut page = format!("# Commands\n\n{GENERATED}");
    page.push_str("This page holds the help of every command, as the program prints it.\n\n");
    help_of("", &mut page);
    let path = Path::new("docs/src/reference/commands.md");
    let text = fs::read_to_string(path).unwrap_or_default();
    agree(path, &text, &format!("{}\n", page.trim_end()));
}

#[test]
fn reference_of_parameters_is_current() {
    let mut page = format!("# Parameters\n\n{GENERATED}");
    page.push_str("This page holds the output of `blox policies`: every registered component,");
    page.push_str(" its parameters and their defaults.\n\n```text\n");
    page.push_str(&tidy(&good(Path::new("."), "policies").out));
    page.push_str("```\n");
    let path = Path::new("docs/src/reference/parameters.md");
    let text = fs::read_to_string(path).unwrap_or_default();
    agree(path, &text, &page);
}

/// Returns the publication of a scheduler and how it is verified, as its file documents them.
fn documented(name: &str) -> (String, String) {
    let file = format!("examples/schedulers/src/{}.rs", name.replace('-', "_"));
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let lines = text.lines().skip_while(|line| !line.starts_with("///"));
    let lines = lines.map_while(|line| line.strip_prefix("///"));
    let document = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    let mut paragraphs = document.split("\n\n").map(|text| text.replace('\n', " "));
    let first = paragraphs.next().unwrap();
    // `(PAPER, VENUE YEAR)`; what follows a colon is not on the page.
    let in_brackets = first.split('(').skip(1).filter_map(|s| s.split(')').next());
    let year = |text: &&str| text.contains(", ") && text.contains(" 20");
    let published = in_brackets.filter(year).last().unwrap_or("none");
    let published = published.split(':').next().unwrap();
    let verified = paragraphs.find_map(|p| Some(p.strip_prefix("**Verified.** ")?.to_owned()));
    let verified = verified.unwrap_or_else(|| panic!("{file}: expected `**Verified.**`"));
    let end = verified.find(". ").unwrap_or(verified.len());
    let sentence = verified[..end].trim_end_matches('.');
    let sentence = sentence[..1].to_lowercase() + &sentence[1..];
    (published.to_owned(), sentence)
}

#[test]
fn reference_of_schedulers_is_current() {
    const HEADER: &str = "| name | publication | rule | verified |\n|---|---|---|---|\n";
    let path = Path::new("docs/src/reference/schedulers.md");
    let page = fs::read_to_string(path).unwrap();
    let registry = blox_schedulers::registry();
    let mut table = String::new();
    let mut papers = BTreeSet::new();
    for (name, entry) in registry.schedulers.iter() {
        let (mut published, verified) = documented(name);
        let paper: Vec<&str> = published.split(", ").take(2).collect();
        papers.extend((published != "none").then(|| paper.join(", ")));
        if blox::claims::papers().iter().any(|p| p.name == name) {
            published = format!("[{published}](claims.md#{name})");
        }
        let rule = entry.about;
        table += &format!("| `{name}` | {published} | {rule} | {verified} |\n");
    }
    let (before, rest) = page.split_once(HEADER).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    agree(path, &page, &format!("{before}{HEADER}{table}\n{after}"));

    // The emulations of released programs, in a table of their own.
    let rows = after.split("\n## ").next().unwrap().lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `"));
    let emulated: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let all = blox::registry().schedulers;
    let own = |name: &&str| registry.schedulers.get(name).is_none();
    assert_eq!(emulated, all.names().filter(own).collect());

    const PAGE: &str = "schedulers](docs/src/reference/schedulers.md)**";
    let (all, papers, emulated) = (all.names().count(), papers.len(), emulated.len());
    let counts =
        format!("- **[{all} {PAGE} of {papers} papers. {emulated} emulate released programs.");
    agree_readme(|text| {
        let line = text.lines().find(|line| line.contains(PAGE)).unwrap();
        text.replace(line, &counts)
    });
}

#[test]
fn each_workload_format_has_a_section_in_reference() {
    let page = fs::read_to_string("docs/src/reference/workload-formats.md").unwrap();
    let help = good(Path::new("."), "trace info --help").out;
    let formats = between(&help, "One of csv", ".\n");
    let formats = format!("csv{formats}").replace(" and ", ", ");
    let formats: Vec<&str> = formats.split(", ").collect();
    const LINK: &str = " formats](docs/src/reference/workload-formats.md)";
    agree_readme(|text| {
        let (before, after) = text.split_once(LINK).unwrap();
        let before = before.trim_end_matches(|c: char| c.is_ascii_digit());
        format!("{before}{}{LINK}{after}", formats.len())
    });
    for format in formats {
        assert!(page.contains(&format!("\n## {format}\n")), "{format}");
        assert!(
            page.contains(&format!("| [`{format}`](#{format}) |")),
            "{format}"
        );
    }
}

#[test]
fn every_figure_is_on_the_page_about_figures() {
    let page = fs::read_to_string("docs/src/how-to/reproduce.md").unwrap();
    let list = good(Path::new("."), "reproduce --list").out;
    for line in list.lines().filter(|line| !line.starts_with(' ')) {
        let name = line.split_whitespace().next().unwrap();
        let elsewhere = name == "estimate-errors"; // how-to/estimates.md
        assert!(elsewhere || page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_result_column_is_in_the_reference() {
    let page = fs::read_to_string("docs/src/reference/results.md").unwrap();
    let dir = tempfile::tempdir().unwrap();
    lay_out_site(dir.path());
    good(
        dir.path(),
        "compare fifo las --trace jobs.csv --cluster 4x4 --rounds --assignments --fairness --output-dir out",
    );
    good(
        dir.path(),
        "sweep fifo las --workload poisson --cluster 2x4 --jobs 20 --loads 1,2 --output-dir swept",
    );
    let files = [
        "out/las/jobs.csv",
        "out/las/timeline.csv",
        "out/las/rounds.csv",
        "out/las/assignments.csv",
        "swept/sweep.csv",
    ];
    for file in files {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        for column in text.lines().next().unwrap().split(',') {
            assert!(page.contains(&format!("`{column}`")), "{file}: {column}");
        }
    }
    for column in blox::results::COLUMNS {
        let row = format!("| `{}` | {} |", column.name, column.formula);
        assert!(page.contains(&row), "expected the row {row}");
    }
    let commands = [
        "compare fifo las --jobs 20 --cluster 2x4 --output-format csv",
        "compare fifo las --jobs 20 --cluster 2x4 --output-format csv --seeds 1,2",
    ];
    for command in commands {
        let text = good(dir.path(), command).out;
        for column in text.lines().next().unwrap().split(',') {
            let end = |end| column.strip_suffix(end);
            let column = end("_low").or(end("_high")).unwrap_or(column);
            assert!(page.contains(&format!("`{column}`")), "{command}: {column}");
        }
    }
    for (file, title) in [
        ("out/manifest.json", "manifest.json"),
        ("swept/sweep.json", "sweep.json"),
    ] {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(|k| &**k).collect();
        assert_eq!(keys, listed(&page, &format!("## {title}\n")), "{file}");
    }
}

/// Returns the names in code quotes in the first column of the tables of a section.
fn listed<'a>(page: &'a str, title: &str) -> BTreeSet<&'a str> {
    let (_, section) = page.split_once(title).unwrap_or_else(|| panic!("{title}"));
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" |").next().unwrap());
    cells
        .flat_map(|cell| cell.split("`").step_by(2))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the names of all numbers in a value, as in `deadlines.causes.failed`.
fn flattened(name: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
    into.insert(name.to_owned());
    for (key, value) in value.as_object().into_iter().flatten() {
        flattened(&format!("{name}.{key}"), value, into);
    }
}

#[test]
fn every_field_of_a_summary_is_in_the_reference() {
    use blox::results::{Deadlines, Fairness, Summary, TrainingFigures};

    let page = fs::read_to_string("docs/src/reference/results.md").unwrap();
    let mut summary = Summary::default();
    summary.deadlines = Some(Deadlines::default());
    summary.training = Some(TrainingFigures::default());
    summary.fairness = Some(Fairness::default());
    let value = serde_json::to_value(&summary).unwrap();
    for part in ["deadlines", "training", "fairness"] {
        let mut found = BTreeSet::new();
        flattened(part, &value[part], &mut found);
        found.remove(part);
        let documented = listed(&page, &format!("### {part}\n"));
        let documented: BTreeSet<String> = documented.into_iter().map(str::to_owned).collect();
        assert_eq!(documented, found, "{part}");
    }
    // The fields that a run adds to the summary.
    let dir = tempfile::tempdir().unwrap();
    good(
        dir.path(),
        "compare fifo las --jobs 20 --cluster 2x4 --fairness --why --collect queue --output-dir out",
    );
    let text = fs::read_to_string(dir.path().join("out/las/summary.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in written.as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{key}`")), "summary.json: {key}");
    }
}

#[test]
fn terms_of_the_glossary_are_in_order() {
    let page = fs::read_to_string("docs/src/glossary.md").unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .skip(1);
    let key = |row: &str| -> String {
        let term = row
            .split(" |")
            .next()
            .unwrap()
            .to_lowercase()
            .replace('-', " ");
        let kept = |c: &char| c.is_ascii_alphanumeric() || *c == ' ';
        term.chars().filter(kept).collect()
    };
    let keys: Vec<String> = rows.map(key).collect();
    assert!(keys.len() > 50, "{}", keys.len());
    for pair in keys.windows(2) {
        assert!(
            pair[0] < pair[1],
            "`{}` stands before `{}`",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn the_guide_reads_alike_outside_rustdoc() {
    let guide = include_str!("../src/guide.md");
    assert!(
        !guide.contains("](crate::"),
        "a link that only rustdoc follows"
    );
    let code = |line: &str| line.split("//").next().unwrap().trim().to_owned();
    let mut shown = BTreeSet::new();
    let mut blocks = 0;
    for block in guide.split("```\n").skip(1).step_by(2) {
        let (hidden, visible): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.starts_with("# "));
        for line in hidden {
            let line = code(&line[2..]);
            let known = shown.contains(&line) || line.starts_with("Ok::<");
            assert!(known, "{line}: hidden, and in no earlier block");
        }
        shown.extend(visible.into_iter().map(code));
        blocks += 1;
    }
    assert!(blocks >= 6, "{blocks}");
}

#[test]
fn dependencies_of_the_introduction_are_the_packages() {
    let page = fs::read_to_string("docs/src/introduction.md").unwrap();
    let root = fs::read_to_string("Cargo.toml").unwrap();
    let version = format!("version = \"{}\"", between(&root, "\nversion = \"", "\""));
    let section = between(&page, "## As a library\n", "\n## ");
    let mut paths = 0;
    for line in section.lines().filter(|line| line.contains(" = { ")) {
        assert!(line.contains(&version), "{line}: expected {version}");
        let Some((_, rest)) = line.split_once("path = \"../blox") else {
            continue;
        };
        let folder = format!(".{}", rest.split('"').next().unwrap());
        let manifest = fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
        let alias = line.split(" = ").next().unwrap();
        let package = match line.split_once("package = \"") {
            Some((_, rest)) => rest.split('"').next().unwrap(),
            None => alias,
        };
        let name = format!("\nname = \"{package}\"\n");
        assert!(manifest.contains(&name), "{line}: expected {name}");
        paths += 1;
    }
    assert!(paths >= 5, "{paths}");
}

/// Returns the anchors of a page as mdBook and GitHub derive them from its headings.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.starts_with("```");
        if code || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = kept.collect();
        let again = found.iter().filter(|a| **a == anchor).count();
        found.push(match again {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
    }
    found
}

#[test]
fn every_relative_link_and_anchor_resolves() {
    let mut documents = documents();
    for name in ["DESIGN.md", "CHANGELOG.md", "SECURITY.md"] {
        documents.push((PathBuf::from(name), fs::read_to_string(name).unwrap()));
    }
    let mut checked = 0;
    for (path, text) in &documents {
        let mut code = false;
        for line in text.lines() {
            code ^= line.starts_with("```");
            for include in line.split("{{#include ").skip(1) {
                let file = include.split([':', '}']).next().unwrap();
                let at = path.parent().unwrap().join(file);
                assert!(at.exists(), "{}: no {file} to include", path.display());
            }
            if code || line.starts_with("    ") {
                continue;
            }
            for link in line.split("](").skip(1) {
                let target = link.split(')').next().unwrap();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let folder = path.parent().unwrap();
                let at = if file.is_empty() {
                    path.clone()
                } else {
                    folder.join(file)
                };
                let place = format!("{}: {target}", path.display());
                assert!(at.exists(), "{place}: no such file");
                // A page of the site is copied without the folders around it.
                let inside = at.canonicalize().unwrap();
                let site = Path::new("docs/src").canonicalize().unwrap();
                assert!(
                    !path.starts_with("docs/src") || inside.starts_with(site),
                    "{place}: outside the site"
                );
                if !anchor.is_empty() {
                    let page = fs::read_to_string(&at).unwrap();
                    let known = anchors(&page);
                    assert!(
                        known.iter().any(|a| a == anchor),
                        "{place}: known {known:?}"
                    );
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
    // Every page is in the table of contents.
    let summary = fs::read_to_string("docs/src/SUMMARY.md").unwrap();
    for (path, _) in &documents {
        if let Ok(page) = path.strip_prefix("docs/src") {
            let page = page.display().to_string();
            assert!(
                page == "SUMMARY.md" || summary.contains(&format!("({page})")),
                "{page}"
            );
        }
    }
}

#[path = "../docs/src/code/policy.rs"]
mod policy;

#[path = "../docs/src/code/rule.rs"]
mod rule;

#[path = "../docs/src/code/placement.rs"]
mod placement;

#[path = "../docs/src/code/admission.rs"]
mod admission;

#[path = "../docs/src/code/elastic.rs"]
mod elastic;

#[path = "../docs/src/code/manager.rs"]
mod manager;

#[path = "../docs/src/code/world.rs"]
mod world;

#[path = "../docs/src/code/solve.rs"]
mod solve;

#[path = "../docs/src/code/links.rs"]
mod links;

#[test]
fn assignment_of_the_site_leaves_the_fewest_gpus() {
    let nodes = solve::tightest(&[4, 2, 8, 1], &[8, 4, 4]);
    assert_eq!(nodes, [Some(1), Some(2), Some(0), None]);
}

#[test]
fn policy_of_readme_is_the_compiled_one() {
    let shown = between(README, "```rust\n", "```");
    assert_eq!(shown, include_str!("../docs/src/code/policy.rs"));
    assert!(shown.lines().count() <= 25);
}

#[test]
fn code_of_the_site_conforms() {
    conformance(|_seed| policy::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| rule::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| links::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| placement::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| admission::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| elastic::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    conformance(|_seed| manager::scheduler().build().unwrap())
        .cases(30)
        .check()
        .unwrap();
    let (models, own) = (world::registry().execution_models(), "neighbours".parse());
    let own: ComponentSpec = own.unwrap();
    conformance_of_model(|seed| models.build(&own, seed).unwrap())
        .check()
        .unwrap();
}

#[test]
fn policies_of_the_site_equal_las() {
    let world = Simulation::new(ClusterSpec::uniform(32, 4)).measure(Measure::Ids(0, 100));
    let ends = |scheduler| {
        let mut jobs = BloxWorkload::new(7.0).unwrap();
        let report = world.run(scheduler, &mut jobs).unwrap();
        report.jobs.iter().map(|j| j.finish).collect::<Vec<_>>()
    };
    let las = ends(blox::schedulers::las());
    assert_eq!(ends(policy::scheduler().build().unwrap()), las);
    assert_eq!(ends(rule::scheduler().build().unwrap()), las);
}

#[test]
fn components_of_the_site_work_on_the_command_line() {
    let runs = [
        (placement::registry(), "--placement", "emptiest-node"),
        (admission::registry(), "--admission", "at-most{limit=4}"),
        (manager::registry(), "--cluster-manager", "reserve"),
        (world::registry(), "--execution", "neighbours{share=0.1}"),
        (world::registry(), "--collect", "most-placed"),
        (world::registry(), "--workload", "batches{count=3}"),
    ];
    for (registry, option, name) in runs {
        let args = [
            "blox", "compare", "fifo", "las", "--jobs", "50", option, name,
        ];
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = blox::cli::run_with(&registry, args, &mut out, &mut err);
        assert_eq!(code, 0, "{}", String::from_utf8_lossy(&err));
    }
}

/// The commands of a real cluster, which `tests/cluster.rs` runs.
const CLUSTER: [&str; 27] = [
    "init",
    "login",
    "token",
    "whoami",
    "scheduler",
    "node",
    "submit",
    "queue",
    "top",
    "acct",
    "cancel",
    "hold",
    "release",
    "requeue",
    "priority",
    "nodes",
    "offers",
    "drain",
    "resume",
    "remove",
    "down",
    "why",
    "when",
    "show",
    "logs",
    "cluster",
    "demo",
];

/// Returns the exit code and errors of the argument parser for a command that does not run.
fn parsed(line: &str) -> (Option<i32>, String) {
    let (before, program) = match line.split_once(" -- ") {
        Some((before, program)) => (before, format!(" -- {program}")),
        None => (line, String::new()),
    };
    // The parser reads all options before `--help`, which prints the help and ends the program.
    let seen = typed(Path::new("."), &format!("{before} --help{program}"));
    (seen.code, seen.err)
}

/// These commands need a cluster, so this test only parses them.
#[test]
fn cluster_tutorial_commands_have_known_options() {
    let page = fs::read_to_string("docs/src/tutorials/cluster.md").unwrap();
    let mut names = BTreeSet::new();
    for block in page.split("```sh\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        let ours = "cargo run --release --features cluster -- ";
        for line in block.lines().filter_map(|line| line.strip_prefix(ours)) {
            let line = format!("blox {}", line.replace("JOB", "17"));
            assert_eq!(parsed(&line), (Some(0), String::new()), "{line}");
            names.insert(line.split(' ').nth(1).unwrap().to_owned());
        }
    }
    let expected = [
        "demo",
        "logs",
        "node",
        "queue",
        "scheduler",
        "submit",
        "why",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    // A renamed option, command or type of value is found.
    for line in [
        "blox node --gpu 8 --state-dir x",
        "blox queues",
        "blox why JOB",
        "blox submit --gpu 4 -- python train.py",
    ] {
        assert_eq!(parsed(line).0, Some(2), "{line}");
    }
}

/// Returns all commands in documents and help texts.
fn command_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for (_, text) in documents() {
        // A line that ends with a backslash continues.
        let joined = text.replace("\\\n", " ");
        let mut code = false;
        for line in joined.lines() {
            code ^= line.starts_with("```");
            let Some(line) = line.strip_prefix("    ").filter(|_| !code) else {
                continue;
            };
            let line = line
                .trim_start()
                .replace("cargo run --release -- ", "blox ");
            if line.starts_with("blox ") {
                lines.push(line);
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut names = vec![String::new()];
    let mut at = 0;
    while at < names.len() {
        let help = good(dir.path(), &format!("{} --help", names[at])).out;
        let subcommands = help
            .split_once("\nCommands:\n")
            .map_or("", |(_, rest)| rest);
        for line in subcommands.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" && !CLUSTER.contains(&name) {
                names.push(format!("{} {name}", names[at]));
            }
        }
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{}: no examples", names[at]));
        let examples = examples.replace("\\\n", " ");
        let examples = examples.lines().take_while(|line| !line.is_empty());
        lines.extend(examples.map(|line| line.trim().to_owned()));
        at += 1;
    }
    assert!(names.len() > 15, "{names:?}");
    lines
}

/// Returns the same command with few jobs.
fn quick(line: &str) -> String {
    let short = |part: &str| {
        let mut words: Vec<&str> = part.split(' ').filter(|w| !w.is_empty()).collect();
        let simulates = ["simulate", "compare", "sweep", "step", "generate"];
        let joins = matches!(words[..], ["blox", "sweep", "merge" | "status", ..]);
        let runs = words.iter().any(|word| simulates.contains(word)) && !joins;
        if words.first() != Some(&"blox") || !runs {
            return part.to_owned();
        }
        for option in ["--jobs", "--measure"] {
            if let Some(at) = words.iter().position(|word| *word == option) {
                words.drain(at..at + 2);
            }
        }
        // A file of options measures its own jobs.
        if words.contains(&"--config") && words.contains(&"examples/study.toml") {
            return part.to_owned();
        }
        let behind = words.iter().position(|word| *word == ">");
        let at = behind.unwrap_or(words.len());
        words.splice(at..at, ["--jobs", "60"]);
        words.join(" ")
    };
    let parts: Vec<String> = line.split(" && ").map(short).collect();
    let piped = |part: &String| part.split(" | ").map(short).collect::<Vec<_>>().join(" | ");
    parts.iter().map(piped).collect::<Vec<_>>().join(" && ")
}

/// Creates the files that the examples use.
fn lay_out(dir: &Path, with_results: bool) {
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
    let gzip = |name: &str, text: &str| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        fs::write(dir.join(name), gz.finish().unwrap()).unwrap();
    };
    let mut jobs = String::from("job_id,submit_s,gpus,duration_s\n");
    let mut tasks = String::from("queued_at\tqueued\tnum_gpu\trun_time\tminutes\towner\n");
    for i in 0..70 {
        let (gpus, length) = ([1, 2, 4][i % 3], 60 + 37 * i % 500);
        // The last jobs lie in the windows of the examples, from 12 hours to 14 days.
        let at = match i {
            0..60 => i * 300,
            _ => 43_200 + (i - 60) * 130_000,
        };
        jobs.push_str(&format!("{i},{at},{gpus},{length}\n"));
        let at = format!("2024-03-01 {:02}:{:02}:00", i / 60, i % 60);
        tasks.push_str(&format!("{at}\t{at}\t{gpus}\t{length}\t{length}\tada\n"));
    }
    write("scored.toml", include_str!("../docs/src/files/scored.toml"));
    write("jobs.csv", &jobs);
    write("blox.csv", &jobs);
    gzip("jobs.csv.gz", &jobs);
    write("tasks.tsv", &tasks);
    let philly = Format::PhillyLog.example();
    write("cluster_job_log.json", philly);
    gzip("cluster_job_log.json.gz", philly);
    gzip("cluster_job_log.gz", philly);
    write("cluster_log.csv", Format::Helios.example());
    write(
        "sacct.txt",
        "JobID|User|State|Submit|Start|Elapsed|AllocTRES\n\
         17|ada|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|01:02:03|cpu=8,gres/gpu=4\n",
    );
    write(
        "nodes.toml",
        "[[node]]\ncount = 4\ngpus = 8\ncpus = 48\nmemory_gib = 384\n",
    );
    // Slurm may not be installed.
    fs::create_dir(dir.join("slurm")).unwrap();
    fs::copy("tests/cli/import/slurm.in/sacct.json", dir.join("log.json")).unwrap();
    for (program, file) in [
        ("sacct", "sacct.txt"),
        ("squeue", "squeue.json"),
        ("sinfo", "sinfo.json"),
    ] {
        let path = dir.join("slurm").join(program);
        fs::write(&path, format!("#!/bin/sh\ncat {file}\n")).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
        if file.ends_with("json") {
            fs::copy(Path::new("docs/src/files").join(file), dir.join(file)).unwrap();
        }
    }
    write("experiment.toml", "scheduler = \"las\"\njobs = 60\n");
    fs::create_dir(dir.join("state")).unwrap();
    write("state/segment-0000000000000001", "BLOXLOG\n\u{1}\0\0\0");
    lay_out_examples(dir);
    write("sweep.toml", "schedulers = [\"fifo\"]\nloads = [4, 8]\n");
    for folder in [
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    if with_results {
        for name in ["results", "monday", "tuesday"] {
            good(
                dir,
                &format!("compare fifo las --jobs 30 --assignments --output-dir {name}"),
            );
        }
    }
}

/// Runs a line in a shell, as a user would.
fn typed(dir: &Path, line: &str) -> Seen {
    let bin = Path::new(env!("CARGO_BIN_EXE_blox")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", bin.display(), dir.join("slurm").display());
    Command::new("bash")
        .args(["-c", line])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}

#[test]
fn every_command_line_of_readme_and_help_runs() {
    let mut ran = 0;
    let figures = good(Path::new("."), "reproduce --list").out;
    for line in command_lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.get(1), words.get(2)) {
            // These commands take minutes, or need cases that are not included.
            (Some(&"reproduce"), Some(name)) if !name.starts_with('-') => {
                assert!(figures.contains(&format!("{name} ")), "{line}");
                continue;
            }
            (Some(&"verify"), Some(_)) => continue,
            _ => {}
        }
        let dir = tempfile::tempdir().unwrap();
        lay_out(dir.path(), !line.contains("--output-dir results"));
        if let Some(at) = words.iter().position(|word| *word == "--output") {
            // The output file must not exist.
            let _ = fs::remove_file(dir.path().join(words[at + 1]));
        }
        if words.get(1) == Some(&"replay") {
            // Its journal is written by the previous command of the document.
            good(dir.path(), "simulate las --jobs 60 --journal las.jsonl");
        }
        let seen = typed(dir.path(), &quick(&line));
        assert_eq!(seen.code, Some(0), "{}\n{}", quick(&line), seen.err);
        ran += 1;
    }
    assert!(ran > 50, "{ran}");
    // Without the folder, the error names it.
    let seen: Seen = blox()
        .args([
            "verify",
            "golden/blox/las_L7_t1000",
            "--system",
            "blox",
            "--all",
        ])
        .output()
        .unwrap()
        .into();
    assert_eq!(seen.code, Some(2), "{}", seen.err);
}
