//! Each hard case of the published schedulers as a toy, with its plans written
//! out: what the vocabulary has to be able to say.

#[path = "vocabulary/elastic.rs"]
mod elastic;
#[path = "vocabulary/harness.rs"]
mod harness;
#[path = "vocabulary/launches.rs"]
mod launches;
#[path = "vocabulary/memory.rs"]
mod memory;
#[path = "vocabulary/requests.rs"]
mod requests;
#[path = "vocabulary/rounds.rs"]
mod rounds;
#[path = "vocabulary/virtual_clusters.rs"]
mod virtual_clusters;
