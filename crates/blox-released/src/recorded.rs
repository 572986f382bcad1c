//! Recorded cases that ship with this crate: small synthetic inputs with the results of the original
//! programs. `recorded/README.md` states how each was made.

use include_dir::{Dir, include_dir};
use std::io;
use std::path::Path;

static RECORDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/recorded");

/// Writes the cases into a folder, as `SYSTEM/CASE/`.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// blox_released::recorded::write(folder.path())?;
/// let cases = blox_released::verify::find_cases(folder.path())?;
/// assert!(cases.iter().any(|case| case.starts_with(folder.path().join("blox"))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path) -> io::Result<()> {
    RECORDED.extract(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;
    use std::collections::BTreeSet;

    #[test]
    fn every_system_has_an_embedded_case() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let cases = verify::find_cases(folder.path()).unwrap();
        let system = |case: &std::path::PathBuf| {
            let inside = case.strip_prefix(folder.path()).unwrap();
            inside.iter().next().unwrap().to_str().unwrap().to_owned()
        };
        let found: BTreeSet<String> = cases.iter().map(system).collect();
        let all = verify::names().into_iter().map(str::to_owned);
        assert_eq!(found, all.collect());
    }
}
