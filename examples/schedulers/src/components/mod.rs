//! Registry entries of single policies, by role.

mod admission;
mod cluster;
mod placement;
mod scheduling;

use blox_registry::Registry;

/// Adds the policies to the registry.
pub(crate) fn add(r: &mut Registry) {
    admission::add(r);
    cluster::add(r);
    scheduling::add(r);
    placement::add(r);
}
