//! Suggestions for misspelt names.
//!
//! Every message about an unknown name takes its suggestion from here.
//!
//! ```
//! use blox_core::suggest::{did_you_mean, nearest, one_of};
//!
//! let known = ["submit_s", "gpus", "duration_s"];
//! assert_eq!(nearest("duraton", known), Some("duration_s"));
//! assert_eq!(nearest("colour", known), None);
//! assert_eq!(did_you_mean("gpu", known, "; "), ", did you mean `gpus`? ");
//! assert_eq!(did_you_mean("colour", known, "; "), "; ");
//! assert_eq!(one_of("gpu", ["gpus", "cpus"]), "one of gpus, cpus; did you mean `gpus`?");
//! ```

/// The least similarity, from 0 to 1, of two names that share their beginning.
const LEAST_SIMILARITY: f64 = 0.86;

/// Returns the most similar known name, if a slip explains the difference.
///
/// A slip is one wrong, missing, extra or swapped letter in up to seven, or a name that continues
/// or shortens the known one. Upper and lower case are alike; so are `-`, `_` and a blank.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name);
    let most = 1.max(name.chars().count() / 4);
    let judged = known.into_iter().filter_map(|known| {
        let other = plain(known);
        let slips = strsim::osa_distance(&name, &other);
        let similarity = strsim::jaro_winkler(&name, &other);
        // Of two letters, one is half of the name.
        let is_slip = slips <= most && 2 * slips < name.len().max(other.len());
        (is_slip || similarity >= LEAST_SIMILARITY).then_some((slips, similarity, known))
    });
    let nearest = judged.min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    nearest.map(|(_, _, known)| known)
}

/// Returns `, did you mean `NAME`? ` if a known name is [nearest], else `otherwise`.
///
/// It stands between an unknown name and the list of known ones.
pub fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    match nearest(name, known) {
        Some(known) => format!(", did you mean `{known}`? "),
        None => otherwise.to_owned(),
    }
}

/// Returns `one of A, B, C`, with `; did you mean `A`?` if a known name is [nearest].
///
/// It stands after "expected".
pub fn one_of<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let list = known.join(", ");
    match nearest(name, known) {
        Some(known) => format!("one of {list}; did you mean `{known}`?"),
        None => format!("one of {list}"),
    }
}

/// Returns `; did you mean `NAME`?` for a message of serde about an unknown field or variant, else
/// an empty text.
///
/// ```
/// let message = "unknown field `gpu`, expected one of `count`, `gpus`";
/// assert_eq!(blox_core::suggest::for_serde(message), "; did you mean `gpus`?");
/// ```
pub fn for_serde(message: &str) -> String {
    let is_unknown = ["unknown field `", "unknown variant `"].map(|start| message.contains(start));
    let mut quoted = message.split('`').skip(1).step_by(2);
    let found = quoted.next().filter(|_| is_unknown.contains(&true));
    match found.and_then(|found| nearest(found, quoted)) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}

/// Without differences that only spelling makes.
fn plain(name: &str) -> String {
    let fold = |c: char| match c {
        '-' | ' ' => '_',
        c => c,
    };
    name.trim().to_lowercase().chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_slip_finds_the_name() {
        let known = ["fifo", "srtf", "las", "va", "submit_s", "gpus", "num_gpus"];
        for (slip, name) in [
            ("fifi", Some("fifo")),
            ("ffio", Some("fifo")),
            ("srfl", Some("srtf")),
            ("LAS", Some("las")),
            ("submit", Some("submit_s")),
            ("Num GPUs", Some("num_gpus")),
            ("gpu", Some("gpus")),
            ("colour", None),
            ("nope", None),
            ("vd", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, known), name, "{slip}");
        }
        assert_eq!(nearest("las", []), None);
    }
}
