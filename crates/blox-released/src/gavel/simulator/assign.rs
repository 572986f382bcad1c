//! Assignment of workers to the chosen jobs.

use blox_core::sort;
use blox_policies::scheduling::gavel::{Chosen, Combination};

/// A job or pair on workers of one type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub who: Combination,
    pub kind: usize,
    pub workers: Vec<u32>,
}

/// Workers of one type, by server.
pub(super) type Servers = Vec<Vec<u32>>;

/// Assigns workers as the released program does.
///
/// Larger jobs come first. Each keeps its workers if they are free, otherwise it takes workers from
/// the first servers on. A job that is newer than the last allocation gets workers only if it keeps
/// its own. Otherwise its workers stay idle.
///
/// Returns `None` if too few workers are left, where the program fails.
pub(super) fn assign(
    chosen: &[Chosen],
    order: &[usize],
    servers: &[Servers],
    before: &[Placed],
) -> Option<Vec<Placed>> {
    let mut all: Vec<Placed> = Vec::new();
    for &kind in order {
        let mut here: Vec<&Chosen> = chosen.iter().filter(|c| c.kind == kind).collect();
        sort::by_key(&mut here, |c| std::cmp::Reverse(c.gpus));
        let mut queue = servers[kind].iter().flatten();
        let mut taken: Vec<u32> = Vec::new();
        let mut rest = &here[..];
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|c| c.gpus == first.gpus).count();
            let (now, later) = rest.split_at(same);
            rest = later;
            let from = all.len();
            for c in now {
                let had = before.iter().find(|p| p.who == c.who && p.kind == kind);
                if let Some(had) = had.filter(|p| !p.workers.iter().any(|w| taken.contains(w))) {
                    taken.extend(&had.workers);
                    all.push(had.clone());
                }
            }
            for c in now.iter().filter(|c| c.known) {
                if all[from..].iter().any(|p| p.who == c.who) {
                    continue;
                }
                let mut workers = Vec::new();
                while workers.len() < c.gpus as usize {
                    let worker = *queue.next()?;
                    if !taken.contains(&worker) {
                        taken.push(worker);
                        workers.push(worker);
                    }
                }
                all.push(Placed {
                    who: c.who,
                    kind,
                    workers,
                });
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::JobId;

    fn chosen(id: u32, gpus: u32, known: bool) -> Chosen {
        Chosen {
            who: Combination::single(JobId(id)),
            kind: 0,
            gpus,
            known,
        }
    }

    #[test]
    fn jobs_stay_in_place_and_new_ones_fill_from_front() {
        let servers = [vec![vec![0, 1], vec![2, 3]]];
        let run = |list: &[Chosen], before: &[Placed]| {
            assign(list, &[0], &servers, before).map(|all| {
                let each = all.into_iter().map(|p| (p.who.job.0, p.workers));
                each.collect::<Vec<_>>()
            })
        };
        let first = [chosen(5, 1, true), chosen(6, 2, true), chosen(7, 1, false)];
        assert_eq!(run(&first, &[]), Some(vec![(6, vec![0, 1]), (5, vec![2])]));
        let before = [Placed {
            who: Combination::single(JobId(5)),
            kind: 0,
            workers: vec![0],
        }];
        let second = [chosen(6, 2, true), chosen(5, 1, true), chosen(8, 1, true)];
        // The larger job comes first and takes the smaller one's workers.
        assert_eq!(
            run(&second, &before),
            Some(vec![(6, vec![0, 1]), (5, vec![2]), (8, vec![3])])
        );
        assert_eq!(run(&[chosen(1, 8, true)], &[]), None);
    }
}
