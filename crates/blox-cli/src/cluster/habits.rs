//! Messages about commands and options of Slurm that blox lacks. They name the replacement.

use crate::text::plain;
use blox_results::quoted;

/// Commands of Slurm, and what replaces them.
const COMMANDS: [(&str, &str); 10] = [
    (
        "srun",
        "use `blox submit COMMAND`, then `blox logs --follow JOB`",
    ),
    (
        "salloc",
        "blox has no interactive allocations: use `blox submit`",
    ),
    ("sattach", "use `blox logs --follow JOB`"),
    ("sstat", "use `blox show JOB`"),
    ("sprio", "use `blox queue -o id,priority,reason`"),
    ("sdiag", "use `blox top`, or the metrics of the scheduler"),
    ("sreport", "use `blox acct --by user`, or --by day"),
    ("sshare", "use `blox acct --by user`"),
    ("sacctmgr", "use `blox token create` for users of a cluster"),
    ("sbcast", "jobs read the files of their nodes"),
];

/// Options of the commands, and what replaces them.
const OPTIONS: [(&[&str], &[&str], &str); 32] = [
    // Of sbatch.
    (
        &["submit"],
        &["--constraint", "-C"],
        "use --gpu-type for a type of GPU",
    ),
    (
        &["submit"],
        &["--qos", "-q"],
        "use --queue, --priority or --class",
    ),
    (
        &["submit"],
        &["--begin", "-b"],
        "use --hold, then `blox release JOB`",
    ),
    (
        &["submit"],
        &["--wait", "-W"],
        "use `blox logs --follow JOB`, which ends with the job",
    ),
    (
        &["submit"],
        &["--test-only"],
        "use `blox when` for jobs in the queue",
    ),
    (
        &["submit"],
        &["--mail-type", "--mail-user"],
        "blox sends no mail: remove it",
    ),
    (
        &["submit"],
        &["--nodelist", "-w", "--exclude", "-x", "--switches"],
        "the policy chooses the nodes; `blox drain` takes a node out of use",
    ),
    (
        &["submit"],
        &["--exclusive", "--oversubscribe", "-s", "--mem-bind"],
        "a job has its own GPUs, and shares them with --gpu-share: remove it",
    ),
    (&["submit"], &["--time-min"], "use --time"),
    (
        &["submit"],
        &["--cores-per-socket", "--sockets-per-node", "--mincpus"],
        "use --cpus or --cpus-per-task",
    ),
    (
        &["submit"],
        &["--get-user-env", "--propagate"],
        "use --export",
    ),
    (
        &["submit"],
        &[
            "--reservation",
            "--licenses",
            "-L",
            "--tmp",
            "--network",
            "--gid",
            "--uid",
            "--wckey",
        ],
        "remove it",
    ),
    (
        &["submit"],
        &[
            "--gpus-per-task",
            "--ntasks-per-gpu",
            "--open-mode",
            "--kill-on-invalid-dep",
            "--quiet",
            "-Q",
            "--verbose",
            "-v",
        ],
        "write it in an #SBATCH line, or leave it out",
    ),
    // Of squeue.
    (&["queue"], &["--start"], "use `blox when`"),
    (
        &["queue", "nodes"],
        &["--iterate", "-i"],
        "use `blox top --every SECONDS`",
    ),
    (
        &["queue"],
        &["--long", "-l", "--steps", "-s"],
        "choose columns by --format, or use `blox show JOB`",
    ),
    (
        &["queue"],
        &["--sort", "-S"],
        "the list is in order of submission; --json for programs",
    ),
    (
        &["queue"],
        &["--array", "-r"],
        "each job of an array has its line: remove it",
    ),
    (&["queue"], &["--array-unique"], "use --json"),
    (
        &["queue", "nodes"],
        &["--noheader"],
        "use --json for programs",
    ),
    (
        &["queue", "cancel", "acct"],
        &["--account", "-A", "--accounts", "--qos", "-q"],
        "select jobs by --user or --queue",
    ),
    // Of sinfo.
    (
        &["nodes"],
        &["--long", "-l", "--summarize", "-s", "--list-reasons", "-R"],
        "each node has one line with its reason: remove it",
    ),
    (
        &["nodes"],
        &[
            "--format",
            "-o",
            "--Format",
            "-O",
            "--states",
            "-t",
            "--partition",
            "-p",
            "--nodes",
            "-n",
        ],
        "the list has all nodes and columns; --json for programs",
    ),
    // Of scancel.
    (
        &["cancel"],
        &["--signal", "-s", "--batch", "-b", "--full", "-f"],
        "a job gets SIGTERM, and SIGKILL after its --grace: remove it",
    ),
    (
        &["cancel"],
        &["--interactive", "-i"],
        "it asks nothing: see the jobs with `blox queue` first",
    ),
    // Of sacct.
    (
        &["acct"],
        &[
            "--allocations",
            "-X",
            "--allusers",
            "-a",
            "--duplicates",
            "-D",
        ],
        "it accounts for all jobs, without steps: remove it",
    ),
    (
        &["acct"],
        &[
            "--parsable",
            "-p",
            "--parsable2",
            "-P",
            "--delimiter",
            "--noheader",
            "-n",
        ],
        "use --format csv",
    ),
    (
        &["acct"],
        &["-o", "--fields", "--long", "-l", "--brief", "-b"],
        "use --by for the groups and --format csv for the values; `blox show JOB` has launches",
    ),
    (
        &["acct"],
        &["--state", "-s"],
        "the columns count each state; `blox queue --all --state STATE` lists jobs",
    ),
    (
        &["acct"],
        &["--name", "--partition", "-r", "--nodelist", "-N"],
        "use `blox queue --all` with this filter, or --by queue",
    ),
    (&["acct"], &["--starttime"], "use --since"),
    (&["acct"], &["--endtime"], "use --until"),
];

/// Returns the name of a command whose alias may be given.
fn own_name(command: &str) -> &str {
    match command {
        "sbatch" => "submit",
        "squeue" => "queue",
        "sinfo" => "nodes",
        "scancel" => "cancel",
        "sacct" => "acct",
        other => other,
    }
}

/// Returns the replacement of an option that a command does not have.
pub(super) fn replacement(command: &str, option: &str) -> Option<&'static str> {
    let mut all = OPTIONS.iter();
    let is_it = |commands: &[&str], options: &[&str]| {
        commands.contains(&command) && options.contains(&option)
    };
    let found = all.find(|(commands, options, _)| is_it(commands, options));
    found.map(|(.., advice)| *advice)
}

/// Returns the message about an option of Slurm that a command does not have.
pub(crate) fn about_option(command: &str, option: &str) -> Option<String> {
    let command = own_name(command);
    let advice = replacement(command, option)?;
    Some(format!("error: `blox {command}` has no {option}: {advice}"))
}

/// Returns the message about a command of Slurm that blox does not have.
pub(crate) fn about_command(words: &[&str]) -> Option<String> {
    let (command, rest) = words.split_first()?;
    if *command == "scontrol" {
        let line = of_scontrol(rest).map_or_else(
            || "`blox --help` lists the commands".to_owned(),
            |line| format!("use `blox {line}`"),
        );
        return Some(format!("error: blox has no `scontrol`: {line}"));
    }
    let (_, advice) = COMMANDS.iter().find(|(name, _)| name == command)?;
    Some(format!("error: blox has no `{command}`: {advice}"))
}

/// Returns the command line that does the same as a command of scontrol.
fn of_scontrol(words: &[&str]) -> Option<String> {
    let value = |name: &str| {
        words.iter().find_map(|word| {
            let (key, value) = word.split_once('=')?;
            key.eq_ignore_ascii_case(name)
                .then(|| quoted(&plain(value)))
        })
    };
    let named = |at: usize, default: &str| {
        let word = words.get(at).map_or(default, |word| *word);
        quoted(&plain(word))
    };
    Some(match *words.first()? {
        verb @ ("hold" | "release" | "requeue") => format!("{verb} {}", named(1, "JOB")),
        "suspend" => format!("requeue {}", named(1, "JOB")),
        "resume" => format!("release {}", named(1, "JOB")),
        "show" => match *words.get(1)? {
            "job" | "jobs" => match words.get(2) {
                Some(_) => format!("show {}", named(2, "JOB")),
                None => "queue".to_owned(),
            },
            "node" | "nodes" | "partition" => "nodes".to_owned(),
            _ => return None,
        },
        "ping" => "whoami".to_owned(),
        "update" => match (value("JobId"), value("NodeName"), value("State")) {
            (Some(job), ..) => match value("Priority") {
                Some(priority) => format!("priority {job} {priority}"),
                None => "cancel JOB` and `blox submit".to_owned(),
            },
            (_, Some(node), Some(state)) if state.eq_ignore_ascii_case("resume") => {
                format!("resume {node}")
            }
            (_, Some(node), Some(state)) if state.eq_ignore_ascii_case("down") => {
                format!("down {node}")
            }
            (_, Some(node), _) => {
                let why = value("Reason").unwrap_or_else(|| "TEXT".to_owned());
                format!("drain {node} --why {why}")
            }
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_scontrol_have_a_command() {
        for (words, command) in [
            ("show job 12", "show 12"),
            ("show jobs", "queue"),
            ("show node n1", "nodes"),
            ("hold 12_3", "hold 12_3"),
            ("update JobId=12 Priority=5", "priority 12 5"),
            (
                "update jobid=12 TimeLimit=5",
                "cancel JOB` and `blox submit",
            ),
            (
                "update NodeName=n1 State=DRAIN Reason=fan",
                "drain n1 --why fan",
            ),
            ("update NodeName=n1 State=RESUME", "resume n1"),
        ] {
            let words: Vec<&str> = ["scontrol"].into_iter().chain(words.split(' ')).collect();
            let text = about_command(&words).unwrap();
            assert_eq!(
                text,
                format!("error: blox has no `scontrol`: use `blox {command}`")
            );
        }
        let text = about_command(&["scontrol", "reconfigure"]).unwrap();
        assert!(text.ends_with("`blox --help` lists the commands"), "{text}");
        assert_eq!(about_command(&["simulate"]), None);
    }

    #[test]
    fn advice_is_about_options_that_commands_lack() {
        let mut all = crate::command::command();
        all.build();
        for (commands, options, _) in OPTIONS {
            for command in commands {
                let command = all.find_subcommand(command).unwrap();
                for option in options {
                    let has = |arg: &clap::Arg| match option.strip_prefix("--") {
                        Some(long) => {
                            let mut names = arg.get_all_aliases().into_iter().flatten();
                            arg.get_long() == Some(long) || names.any(|name| name == long)
                        }
                        None => {
                            let mut names = arg.get_all_short_aliases().into_iter().flatten();
                            let short = option.chars().nth(1);
                            arg.get_short() == short || names.any(|name| Some(name) == short)
                        }
                    };
                    let name = command.get_name();
                    assert!(!command.get_arguments().any(has), "{name} {option}");
                }
            }
        }
        for (name, _) in COMMANDS {
            assert!(all.find_subcommand(name).is_none(), "{name}");
        }
    }
}
