//! Result folders, JSON and journals.

mod folder;
mod journals;
mod manifest;
mod names;
mod printed;
pub(super) mod tables;

pub(super) use folder::{
    clear, draw, drawings, drawn_later, folder, nowhere, prepare, scratch, spare, write_run,
};
pub(super) use journals::{SharedJournal, journals, open_journals};
pub(super) use manifest::{
    COMMIT, cluster, command_line, configuration, inputs, offers, write_manifest,
};
pub(super) use names::{CHROME, GROUPS, INDEX, MANIFEST, RUN_FILES, TABLE};
pub(super) use printed::{json, pretty, pretty_text};
pub(super) use tables::{Several, table_files};
