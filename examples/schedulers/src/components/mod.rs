//! Registry entries of single policies, by role.

mod admission;
mod cluster;
mod placement;
mod quota_tree;
mod scheduling;
mod scored;

use blox_core::registry::Registry;

/// Adds the policies to the registry.
pub(crate) fn add(r: &mut Registry) {
    admission::add(r);
    cluster::add(r);
    scheduling::add(r);
    quota_tree::add(r);
    placement::add(r);
    scored::add(r);
}
