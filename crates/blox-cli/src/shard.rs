//! Shards: parts of the runs of a command, so that several machines share it.

use crate::failure::Failure;
use blox_experiment::value::Expected;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

/// Forms of `--shard`.
const FORMS: Expected = Expected(
    "K/N with K from 1 to N, slurm, slurm/N, k8s/N (both from the environment), or env:NAME/N",
);

/// Number of missing runs that an error names.
const NAMED: usize = 5;

/// Most shards of a sweep.
const MOST: u32 = 100_000;

/// A shard on a command line; its number may be in the environment of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GivenShard {
    Numbered(Shard),
    /// A task of a job array of Slurm. Without a number of shards, the array has one task for each.
    Slurm(Option<u32>),
    /// A pod of an indexed job of Kubernetes.
    Kubernetes(u32),
    /// A variable with the number, from 1.
    Variable(String, u32),
}

/// One of several shards. Each run belongs to one of them, by its settings alone: a longer sweep
/// leaves earlier runs where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The number, from 1.
    pub number: u32,
    /// Number of shards.
    pub of: u32,
}

impl FromStr for GivenShard {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (which, of) = match text.rsplit_once('/') {
            Some((which, of)) => (which, Some(of.parse().map_err(|_| FORMS)?)),
            None => (text, None),
        };
        if of.is_some_and(|of| of == 0 || of > MOST) {
            return Err(FORMS);
        }
        match (which, of) {
            ("slurm", of) => Ok(GivenShard::Slurm(of)),
            ("k8s", Some(of)) => Ok(GivenShard::Kubernetes(of)),
            (_, Some(of)) => match which.strip_prefix("env:") {
                Some(name) if !name.is_empty() => Ok(GivenShard::Variable(name.to_owned(), of)),
                Some(_) => Err(FORMS),
                None => {
                    let number = which.parse().map_err(|_| FORMS)?;
                    let shard = Shard { number, of };
                    shard
                        .is_valid()
                        .then_some(GivenShard::Numbered(shard))
                        .ok_or(FORMS)
                }
            },
            (_, None) => Err(FORMS),
        }
    }
}

impl GivenShard {
    /// Returns the shard, with its number from the environment.
    pub fn resolve(&self) -> Result<Shard, Failure> {
        self.resolve_in(|name| std::env::var(name).ok())
    }

    fn resolve_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, Failure> {
        let read = |name: &str| -> Result<u32, Failure> {
            let found = variable(name);
            found
                .as_deref()
                .and_then(|text| text.trim().parse().ok())
                .ok_or_else(|| {
                    let found = found.map_or("nothing".to_owned(), |text| format!("`{text}`"));
                    Failure::new(format!(
                        "--shard: found {found} in ${name}, expected a number"
                    ))
                })
        };
        let (number, of, name) = match self {
            GivenShard::Numbered(shard) => return Ok(*shard),
            GivenShard::Variable(name, of) => (read(name)?, *of, name.as_str()),
            GivenShard::Kubernetes(of) => {
                let name = "JOB_COMPLETION_INDEX";
                (read(name)?.saturating_add(1), *of, name)
            }
            GivenShard::Slurm(Some(of)) => {
                let name = "SLURM_ARRAY_TASK_ID";
                (read(name)?, *of, name)
            }
            GivenShard::Slurm(None) => {
                let name = "SLURM_ARRAY_TASK_ID";
                let (first, last) = (read("SLURM_ARRAY_TASK_MIN")?, read("SLURM_ARRAY_TASK_MAX")?);
                let of = last.saturating_sub(first).saturating_add(1);
                if read("SLURM_ARRAY_TASK_COUNT")? != of {
                    return Err(Failure::new(
                        "--shard slurm: the job array has gaps, expected slurm/N with tasks from 1 to N",
                    ));
                }
                (
                    read(name)?.saturating_sub(first).saturating_add(1),
                    of,
                    name,
                )
            }
        };
        let shard = Shard { number, of };
        shard.is_valid().then_some(shard).ok_or_else(|| {
            Failure::new(format!(
                "--shard: ${name} is shard {number} of {of}, expected 1 to {of}"
            ))
        })
    }
}

impl Shard {
    fn is_valid(self) -> bool {
        (1..=self.of).contains(&self.number)
    }

    /// Returns whether a run with these settings belongs to the shard.
    pub fn has(self, settings: &Value) -> bool {
        self.number == Shard::number_of(settings, self.of)
    }

    /// Returns the number of the shard to which a run belongs.
    pub fn number_of(settings: &Value, of: u32) -> u32 {
        // The hash is part of the contract between machines: FNV-1a, with its bits mixed.
        let start = 0xcbf2_9ce4_8422_2325_u64;
        let bytes = settings.to_string().into_bytes();
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let mut hash = bytes.iter().fold(start, step);
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        (hash % u64::from(of)) as u32 + 1
    }

    /// Returns the name of its folder.
    pub fn folder(self) -> String {
        format!("shard-{}-of-{}", self.number, self.of)
    }

    pub fn fields(self) -> Value {
        json!({ "number": self.number, "of": self.of })
    }
}

/// Returns the folders of shards in these folders, which have a file of this name.
pub(crate) fn shard_folders(dirs: &[PathBuf], file: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for dir in dirs {
        let mut own = vec![dir.clone()];
        if !dir.join(file).exists() {
            let entries = fs::read_dir(dir).map_err(|e| Failure::at(dir, e))?;
            let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
            let shards = names.filter(|name| is_shard_folder(&name.to_string_lossy()));
            own = shards.map(|name| dir.join(name)).collect();
            own.sort();
        }
        all.extend(own);
    }
    match (all.is_empty(), dirs.first()) {
        (true, Some(first)) => {
            let text = "has no shard, expected folders such as shard-1-of-4";
            Err(Failure::at(first, text))
        }
        _ => Ok(all),
    }
}

/// Returns whether a folder has the name of a shard's.
fn is_shard_folder(name: &str) -> bool {
    let numbers = name
        .strip_prefix("shard-")
        .and_then(|rest| rest.split_once("-of-"));
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    numbers.is_some_and(|(number, of)| is_number(number) && is_number(of))
}

/// Returns the error about missing runs among `all`, each with its name and settings. It names the
/// shard of each if their number is known.
pub(crate) fn lacking<'a>(
    missing: impl ExactSizeIterator<Item = (&'a str, Value)>,
    all: usize,
    of: Option<u32>,
) -> Failure {
    let count = missing.len();
    let named = missing.take(NAMED).map(|(name, settings)| match of {
        Some(of) => {
            let number = Shard::number_of(&settings, of);
            format!("{name} (shard {number}/{of})")
        }
        None => name.to_owned(),
    });
    let named: Vec<String> = named.collect();
    let more = match count.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Failure::new(format!(
        "{count} of {all} runs are missing or damaged: {}{more}",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, variables: &[(&str, &str)]) -> Result<(u32, u32), String> {
        let given: GivenShard = text.parse().map_err(|e: Expected| e.0.to_owned())?;
        let variable = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let shard = given.resolve_in(variable).map_err(|e| e.to_string())?;
        Ok((shard.number, shard.of))
    }

    #[test]
    fn shards_are_numbered_from_one() {
        let array = [
            ("SLURM_ARRAY_TASK_ID", "2"),
            ("SLURM_ARRAY_TASK_MIN", "0"),
            ("SLURM_ARRAY_TASK_MAX", "7"),
            ("SLURM_ARRAY_TASK_COUNT", "8"),
        ];
        assert_eq!(resolved("3/4", &[]), Ok((3, 4)));
        assert_eq!(resolved("slurm", &array), Ok((3, 8)));
        assert_eq!(resolved("slurm/9", &array), Ok((2, 9)));
        assert_eq!(
            resolved("k8s/4", &[("JOB_COMPLETION_INDEX", "0")]),
            Ok((1, 4))
        );
        assert_eq!(resolved("env:RANK/2", &[("RANK", "2")]), Ok((2, 2)));
        for wrong in [
            "0/4", "5/4", "1/0", "k8s", "env:/2", "x", "1/", "/2", "slurm/",
        ] {
            assert!(resolved(wrong, &array).is_err(), "{wrong}");
        }
        let gaps = [
            array[0],
            array[1],
            array[2],
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        assert!(resolved("slurm", &gaps).is_err_and(|e| e.contains("gaps")));
        assert!(resolved("env:RANK/2", &[]).is_err_and(|e| e.contains("found nothing in $RANK")));
        assert!(resolved("env:RANK/2", &[("RANK", "3")]).is_err_and(|e| e.contains("1 to 2")));
    }

    #[test]
    fn each_run_belongs_to_one_shard() {
        let settings = |seed| json!({ "scheduler": "las", "configuration": { "seed": seed } });
        let mut counts = [0; 4];
        for seed in 0..400 {
            let number = Shard::number_of(&settings(seed), 4);
            let others = (1..=4).filter(|n| Shard { number: *n, of: 4 }.has(&settings(seed)));
            assert_eq!(others.collect::<Vec<_>>(), [number]);
            counts[number as usize - 1] += 1;
        }
        // The contract between machines of different versions.
        assert_eq!(Shard::number_of(&settings(0), 1000), 769);
        assert!(
            counts.iter().all(|count| (70..130).contains(count)),
            "{counts:?}"
        );
    }
}
