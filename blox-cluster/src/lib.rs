//! The real cluster: any composition, unchanged, schedules real processes.
//!
//! [`protocol`] is the heart: scheduler, node manager and shim as functions of
//! state, input and moment, with no socket and no clock. [`log`] keeps what must
//! not be forgotten, `wire` has the typed messages. `shell` is the processes
//! around these machines, `client` what users' commands say to them.
//!
//! `client`, `shell` and `wire` need the feature `rpc`.

#![warn(missing_docs)]

#[cfg(feature = "rpc")]
pub mod client;
pub mod log;
pub mod protocol;
#[cfg(feature = "rpc")]
pub mod shell;
#[cfg(feature = "rpc")]
pub mod wire;

/// Makes a folder, unless it is there.
fn folder(dir: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| match dir.is_file() {
        true => std::io::Error::other("is a file, expected a folder"),
        false => e,
    })
}
