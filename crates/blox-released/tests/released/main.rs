//! Tests of the parts of released programs, as schedulers of the registry and in compositions.

mod conformance;
mod recorded;
mod registry;
mod synergy;
mod tiresias;
