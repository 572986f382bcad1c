//! Admission policies: which jobs may enter.

mod load;
mod quota;

pub use blox_core::policy::AcceptAll;
pub use load::LoadThreshold;
pub use quota::{Quota, QuotaBy};
