//! `blox explain`: what an error code means.

use crate::failure::{Failure, codes};
use crate::terminal::{OK, Terminal};
use blox_core::suggest::one_of;

/// Prints the entry of a code, or all entries.
pub(super) fn run(code: Option<&str>, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let Some(name) = code else {
        for [code, meaning, _] in codes() {
            writeln!(terminal.out, "{code}  {meaning}")?;
        }
        return Ok(OK);
    };
    let wanted = name.trim_matches(['[', ']']);
    let same = |[code, ..]: &[&str; 3]| code.eq_ignore_ascii_case(wanted);
    let [code, meaning, advice] = codes().find(same).ok_or_else(|| {
        let known = one_of(wanted, codes().map(|[code, ..]| code));
        Failure::new(format!("`{name}` is no error code, expected {known}"))
    })?;
    writeln!(terminal.out, "{code}  {meaning}\n{advice}")?;
    Ok(OK)
}
