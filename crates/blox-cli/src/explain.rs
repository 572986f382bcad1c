//! `blox explain`: what an error code means.

use super::failure::Code;
use super::{Failure, OK, Terminal};
use blox_core::suggest::one_of;

/// Prints the entry of a code, or all entries.
pub(super) fn run(code: Option<&str>, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let Some(name) = code else {
        for code in Code::ALL {
            writeln!(terminal.out, "{code}  {}", code.meaning())?;
        }
        return Ok(OK);
    };
    let wanted = name.trim_matches(['[', ']']);
    let same = |code: &Code| code.name().eq_ignore_ascii_case(wanted);
    let code = Code::ALL.into_iter().find(same).ok_or_else(|| {
        let known = one_of(wanted, Code::ALL.map(Code::name));
        Failure::new(format!("`{name}` is no error code, expected {known}"))
    })?;
    writeln!(terminal.out, "{code}  {}", code.meaning())?;
    writeln!(terminal.out, "{}", code.advice())?;
    Ok(OK)
}
