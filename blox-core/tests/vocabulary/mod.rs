//! Hard cases of published schedulers as small examples with explicit plans. The core's types must
//! be able to express each of them.

mod elastic;
mod groups;
mod harness;
mod launches;
mod memory;
mod nodes;
mod notices;
mod offers;
mod requests;
mod rounds;
mod virtual_clusters;
