//! Lists of the tasks of an array, such as `1-9:2,12%4`.

/// Most tasks that a list may have.
const MOST: usize = 100_000;

/// Returns the tasks of a list, in its order. A limit of tasks at a time, such as `%4`, is left out.
/// `None` if the text is no list, is cut short, or has too many tasks.
pub(crate) fn tasks(text: &str) -> Option<Vec<u32>> {
    let list = text.split('%').next().unwrap_or_default();
    let mut all = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        if first > last {
            return None;
        }
        for task in (first..=last).step_by(step) {
            if all.len() == MOST {
                return None;
            }
            all.push(task);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tasks_are_expanded() {
        for (text, expected) in [
            ("3", Some(vec![3])),
            ("0-2,7", Some(vec![0, 1, 2, 7])),
            ("1-9:4,20%2", Some(vec![1, 5, 9, 20])),
            ("1,3,...", None),
            ("5-1", None),
            ("1-9:0", None),
            ("0-4000000000", None),
            ("", None),
        ] {
            assert_eq!(tasks(text), expected, "{text}");
        }
    }
}
