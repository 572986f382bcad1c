//! Colours of bars on rows, so that bars that touch differ.

use crate::bar::Bar;
use crate::style::COLOURS;
use std::collections::BTreeMap;

/// Returns the number of the colour of each bar in [`COLOURS`]. Bars of different jobs that touch
/// differ.
///
/// Bars touch on one row if the time between them is at most `gap_s`, and on neighbouring rows if
/// they overlap in time. A job keeps its colour until a neighbour has the same one. A bar with more
/// differently coloured neighbours than there are colours takes the colour of the fewest.
pub fn colours_apart(bars: &[Bar], gap_s: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..bars.len()).collect();
    let first = |bar: &Bar| bar.gpus.first().map_or(0, |range| range.0);
    order.sort_by(|a, b| {
        let (a, b) = (&bars[*a], &bars[*b]);
        let start = a.start_s.total_cmp(&b.start_s);
        start.then(first(a).cmp(&first(b))).then(a.job.cmp(&b.job))
    });
    let rows = bars
        .iter()
        .flat_map(|bar| &bar.gpus)
        .map(|(_, last)| *last as usize + 1);
    // The bars on each row that still run, and the last one that ended.
    let mut on_row: Vec<Vec<usize>> = vec![Vec::new(); rows.max().unwrap_or(0)];
    let mut colours = vec![0; bars.len()];
    let mut of_job: BTreeMap<u32, usize> = BTreeMap::new();
    let mut next = 0;
    for this in order {
        let bar = &bars[this];
        let mut taken = [0u32; COLOURS.len()];
        for (first, last) in bar.gpus.iter().map(|(a, b)| (*a as usize, *b as usize)) {
            for row in first.saturating_sub(1)..=last + 1 {
                let own = (first..=last).contains(&row);
                for other in on_row.get(row).into_iter().flatten() {
                    let (colour, other) = (colours[*other], &bars[*other]);
                    let touches = match own {
                        true => other.end_s >= bar.start_s - gap_s,
                        false => other.end_s > bar.start_s,
                    };
                    if touches && other.job != bar.job {
                        taken[colour] += 1;
                    }
                }
            }
        }
        let free = |colour: &usize| taken[*colour] == 0;
        let kept = of_job.get(&bar.job).copied().filter(free);
        let colour = kept.unwrap_or_else(|| {
            let cycle = || (next..COLOURS.len()).chain(0..next);
            let found = cycle().min_by_key(|colour| taken[*colour]).unwrap_or(0);
            next = (found + 1) % COLOURS.len();
            found
        });
        of_job.insert(bar.job, colour);
        colours[this] = colour;
        for (first, last) in &bar.gpus {
            for on in &mut on_row[*first as usize..=*last as usize] {
                let ended = |other: &usize| bars[*other].end_s <= bar.start_s;
                let latest = on
                    .iter()
                    .copied()
                    .filter(ended)
                    .max_by(|a, b| bars[*a].end_s.total_cmp(&bars[*b].end_s));
                on.retain(|other| !ended(other) || Some(*other) == latest);
                on.push(this);
            }
        }
    }
    colours
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn bar(job: u32, gpus: &[(u32, u32)], start_s: f64, end_s: f64) -> Bar {
        Bar {
            job,
            job_id: job.to_string().into(),
            gpus: gpus.to_vec(),
            start_s,
            end_s,
        }
    }

    /// Returns the numbers of pairs of bars of different jobs that touch, and of such pairs with one
    /// colour. Compares all pairs.
    fn touching(bars: &[Bar], colours: &[usize], gap_s: f64) -> (usize, usize) {
        let (mut pairs, mut equal) = (0, 0);
        for (i, a) in bars.iter().enumerate() {
            for (k, b) in bars.iter().enumerate().take(i) {
                let meets = |apart: u32| {
                    let near =
                        |x: &(u32, u32), y: &(u32, u32)| x.0 <= y.1 + apart && y.0 <= x.1 + apart;
                    a.gpus.iter().any(|x| b.gpus.iter().any(|y| near(x, y)))
                };
                let (from, to) = (a.start_s.max(b.start_s), a.end_s.min(b.end_s));
                // Between two bars of a row lies no other bar.
                let row = meets(0) && from - to <= gap_s;
                if a.job != b.job && (row || meets(1) && from < to) {
                    pairs += 1;
                    equal += usize::from(colours[i] == colours[k]);
                }
            }
        }
        (pairs, equal)
    }

    /// Jobs of one to eight GPUs on nodes of eight, each preempted several times.
    pub(crate) fn preempted(nodes: u32, stays: u32) -> Vec<Bar> {
        let mut seed = 7u64;
        let mut draw = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut bars = Vec::new();
        for node in 0..nodes {
            let mut free = [0.0f64; 8];
            for _ in 0..stays {
                let width = [1, 1, 1, 2, 2, 4, 8][draw(7) as usize] as usize;
                let at = draw((9 - width) as u64) as usize;
                let start = free[at..at + width].iter().copied().fold(0.0, f64::max);
                let end = start + 300.0 * (1 + draw(12)) as f64;
                free[at..at + width].fill(end);
                let first = node * 8 + at as u32;
                bars.push(bar(
                    draw(400) as u32,
                    &[(first, first + width as u32 - 1)],
                    start,
                    end,
                ));
            }
        }
        bars
    }

    #[test]
    fn no_two_bars_that_touch_have_one_colour() {
        let bars = preempted(4, 500);
        let colours = colours_apart(&bars, 10.0);
        let (pairs, equal) = touching(&bars, &colours, 10.0);
        assert!(pairs > 2500, "{pairs}");
        assert_eq!(equal, 0);
        // The number of a job alone does not separate its bars.
        let by_job: Vec<usize> = bars
            .iter()
            .map(|b| b.job as usize % COLOURS.len())
            .collect();
        assert!(touching(&bars, &by_job, 10.0).1 > 100);
        // All colours are used, about equally.
        let uses = |colour| colours.iter().filter(|c| **c == colour).count();
        assert!((0..COLOURS.len()).all(|colour| uses(colour) > bars.len() / COLOURS.len() / 2));
    }

    #[test]
    fn a_job_keeps_its_colour_unless_a_neighbour_has_it() {
        let mut bars = vec![
            bar(0, &[(0, 0)], 0.0, 10.0),
            bar(1, &[(2, 2)], 0.0, 10.0),
            bar(0, &[(4, 4)], 20.0, 30.0),
        ];
        assert_eq!(colours_apart(&bars, 1.0), [0, 1, 0]);
        // Twenty jobs later, job 16 would have the colour of job 0 beside it.
        bars = (0..17)
            .map(|i| bar(i, &[(3 * i, 3 * i)], 0.0, 10.0))
            .collect();
        bars.push(bar(16, &[(0, 0)], 10.0, 20.0));
        let colours = colours_apart(&bars, 1.0);
        assert_eq!((colours[0], colours[16]), (0, 0));
        assert_ne!(colours[17], 0);
        assert!(colours_apart(&[], 1.0).is_empty());
    }
}
