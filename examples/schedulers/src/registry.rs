//! Everything that ships, by name: a file a family, each with its `add`.
//! `parts` has the policies, `params` what several entries have in common.

mod compositions;
mod elastic;
mod gavel;
mod lucid;
mod orders;
mod params;
mod parts;
mod placements;
mod quota_tree;
mod synergy;
mod tiresias;
mod training;

pub use params::param;
pub use tiresias::{PROMOTE, promote, thresholds};

use blox_core::registry::Registry;

/// All schedulers, policies and placements that ship. Add your own to it and
/// hand it to the command line.
pub fn registry() -> Registry {
    let mut r = Registry::new();
    orders::add(&mut r);
    compositions::add(&mut r);
    elastic::add(&mut r);
    gavel::add(&mut r);
    synergy::add(&mut r);
    tiresias::add(&mut r);
    lucid::add(&mut r);
    training::add(&mut r);
    parts::add(&mut r);
    placements::add(&mut r);
    quota_tree::add(&mut r);
    r
}
