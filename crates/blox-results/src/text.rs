//! Texts of numbers and names, and groups of equal keys.

/// Formats a number with a comma between thousands.
pub fn whole(n: u64) -> String {
    blox_plot::grouped(n as f64, 0)
}

/// Groups items with equal keys, in order of the first item of each group.
pub fn in_groups<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, list)) => list.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Replaces the characters of a text that do not fit into a path.
pub fn in_paths(text: &str) -> String {
    let fit = |c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '=' => c,
        _ => '_',
    };
    text.chars().map(fit).collect()
}

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub fn number_of(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", whole(n)),
    }
}

/// Quotes a word of a command line for a shell, if it must be.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+…".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
