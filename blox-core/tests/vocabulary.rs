//! Hard cases of published schedulers as small examples with explicit plans. The core's types must
//! be able to express each of them.

#[path = "vocabulary/elastic.rs"]
mod elastic;
#[path = "vocabulary/groups.rs"]
mod groups;
#[path = "vocabulary/harness.rs"]
mod harness;
#[path = "vocabulary/launches.rs"]
mod launches;
#[path = "vocabulary/memory.rs"]
mod memory;
#[path = "vocabulary/nodes.rs"]
mod nodes;
#[path = "vocabulary/requests.rs"]
mod requests;
#[path = "vocabulary/rounds.rs"]
mod rounds;
#[path = "vocabulary/virtual_clusters.rs"]
mod virtual_clusters;
