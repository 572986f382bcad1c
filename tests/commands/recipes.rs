//! Recipes of the page about sweeps, each run as it stands there. A recipe prints why and passes where
//! its program is missing. `BLOX_PYTHON` names another Python than `python3`.

use crate::support::{bytes, good};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The sweep of each recipe: shards that take a part of a second.
const SWEEP: &str = "schedulers = [\"fifo\", \"las\"]\nworkload = \"poisson\"\ncluster = \"4x4\"\n\
                     jobs = 1000\nloads = [2, 4]\nseeds = \"0..4\"\n";

/// A program before the real one in the search path: it kills the first task in its middle.
const KILLS_ONE: &str = "#!/bin/sh
case \"$*\" in
*--shard*) ;;
*) exec REAL \"$@\" ;;
esac
mkdir KILLED 2> /dev/null || exec REAL \"$@\"
REAL \"$@\" &
task=$!
sleep 0.1
kill -9 $task
wait $task
code=$?
# A task that was faster than the signal is no trouble.
[ $code != 0 ] || rmdir KILLED
exit $code
";

/// Returns the first code of a section, and its language.
fn recipe(title: &str) -> (String, String) {
    let page = fs::read_to_string("docs/src/how-to/sweep.md").unwrap();
    let (_, section) = page.split_once(&format!("\n### {title}\n")).unwrap();
    let (_, code) = section.split_once("```").unwrap();
    let (code, _) = code.split_once("\n```").unwrap();
    let (language, code) = code.split_once('\n').unwrap();
    (language.to_owned(), code.to_owned())
}

fn python() -> String {
    std::env::var("BLOX_PYTHON").unwrap_or("python3".to_owned())
}

/// Returns whether a program is there, which this command line tests.
fn has(program: &str, args: &[&str]) -> bool {
    let seen = Command::new(program).args(args).output();
    let found = seen.is_ok_and(|seen| seen.status.success());
    if !found {
        eprintln!("skipped: `{program} {}` fails", args.join(" "));
    }
    found
}

/// A folder with the sweep, and its result from this machine alone.
struct Bench {
    dir: tempfile::TempDir,
    printed: String,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::write(path.join("sweep.toml"), SWEEP).unwrap();
        let printed = good(path, "sweep sweep.toml --output-dir local").out;
        let bin = path.join("bin");
        fs::create_dir(&bin).unwrap();
        let killed = path.join("killed").display().to_string();
        let wrapper = KILLS_ONE
            .replace("REAL", env!("CARGO_BIN_EXE_blox"))
            .replace("KILLED", &killed);
        fs::write(bin.join("blox"), wrapper).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bin.join("blox"), executable).unwrap();
        Bench { dir, printed }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a command in the folder, with the wrapper in the search path.
    fn command(&self, program: &str) -> Command {
        let paths = std::env::var("PATH").unwrap_or_default();
        let paths = format!("{}:{paths}", self.path().join("bin").display());
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .stdin(Stdio::null())
            .env("PATH", paths)
            .env("HOME", self.path())
            .env("RAY_USAGE_STATS_ENABLED", "0");
        command
    }

    fn run(&self, title: &str) -> Output {
        let (language, code) = recipe(title);
        let (program, file) = match language.as_str() {
            "sh" => ("sh".to_owned(), "recipe.sh"),
            "python" => (python(), "recipe.py"),
            other => panic!("{other}"),
        };
        fs::write(self.path().join(file), code).unwrap();
        self.command(&program).arg(file).output().unwrap()
    }

    /// Runs a recipe whose first task is killed. Without retries of its own, the recipe is run again.
    fn equals_one_machine(&self, title: &str) {
        let mut seen = self.run(title);
        assert!(self.path().join("killed").is_dir(), "{seen:?}");
        if !seen.status.success() {
            seen = self.run(title);
        }
        let errors = String::from_utf8_lossy(&seen.stderr);
        assert!(seen.status.success(), "{errors}");
        // Ray prints notes before.
        let printed = String::from_utf8_lossy(&seen.stdout);
        assert!(printed.ends_with(&self.printed), "{printed}\n{errors}");
        let shards = fs::read_dir(self.path().join("parts")).unwrap().count();
        assert_eq!(shards, 8);
        let of = |name: &str| bytes(&self.path().join(name));
        assert_eq!(of("results"), of("local"));
    }
}

/// A process that ends with this value.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn recipe_of_gnu_parallel_equals_one_machine() {
    if has("parallel", &["--version"]) {
        Bench::new().equals_one_machine("GNU parallel");
    }
}

#[test]
fn recipe_of_hyperqueue_equals_one_machine() {
    if !has("hq", &["--version"]) {
        return;
    }
    let bench = Bench::new();
    let start = |words: &[&str]| {
        let mut command = bench.command("hq");
        command
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Daemon(command.spawn().unwrap())
    };
    let _server = start(&["server", "start"]);
    let answers = || {
        let mut command = bench.command("hq");
        command
            .args(["server", "info"])
            .output()
            .unwrap()
            .status
            .success()
    };
    for _ in 0..200 {
        if answers() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let _worker = start(&["worker", "start", "--cpus", "2"]);
    bench.equals_one_machine("HyperQueue");
}

#[test]
fn recipe_of_ray_equals_one_machine() {
    if has(&python(), &["-c", "import ray"]) {
        Bench::new().equals_one_machine("Ray");
    }
}

#[test]
fn recipe_of_dask_equals_one_machine() {
    if has(&python(), &["-c", "import dask.distributed"]) {
        Bench::new().equals_one_machine("Dask");
    }
}
