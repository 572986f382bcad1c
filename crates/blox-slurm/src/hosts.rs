//! Lists of hosts, such as `gpu[1-3,07],login`.

/// Most hosts that a list may have; a longer one is an error of its text.
const MOST: usize = 100_000;

/// Returns the hosts of a list, in its order. `None` if the text is no list of hosts.
///
/// ```
/// use blox_slurm::hosts;
/// let all = hosts("gpu[08-10,2],login").unwrap_or_default();
/// assert_eq!(all, ["gpu08", "gpu09", "gpu10", "gpu2", "login"]);
/// assert_eq!(hosts("gpu[1"), None);
/// ```
pub fn hosts(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in split(text)? {
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some((before, bracket)) = rest.split_once('[') {
            let (inside, after) = bracket.split_once(']')?;
            let numbers = numbers(inside)?;
            if names.len().saturating_mul(numbers.len()) > MOST {
                return None;
            }
            let with = |name: &String| {
                let start = format!("{name}{before}");
                numbers.iter().map(move |n| format!("{start}{n}"))
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        if rest.contains(']') {
            return None;
        }
        all.extend(names.into_iter().map(|name| name + rest));
        if all.len() > MOST {
            return None;
        }
    }
    Some(all)
}

/// Splits a list at the commas outside brackets.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0u32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.is_empty());
    (depth == 0).then_some(parts)
}

/// Returns the numbers of ranges such as `08-10,2`, with their leading zeros.
fn numbers(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || to - from >= MOST as u64 {
            return None;
        }
        let width = first.len();
        all.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_are_expanded() {
        let all = |text| hosts(text).map(|list| list.join(" "));
        assert_eq!(all(""), Some(String::new()));
        assert_eq!(all("a"), Some("a".to_owned()));
        assert_eq!(all("a,b[1,3-4]"), Some("a b1 b3 b4".to_owned()));
        assert_eq!(all("n[009-011]x"), Some("n009x n010x n011x".to_owned()));
        for wrong in ["a[1", "a]1", "a[b]", "a[3-1]", "a[0-999999]", "a[[1]]"] {
            assert_eq!(all(wrong), None, "{wrong}");
        }
    }
}
