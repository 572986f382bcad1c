//! An index of the jobs of each link.

use crate::ids::{JobId, LinkId};
use crate::sorted::SortedMap;

/// The jobs of each [link](crate::Cluster::links_of) of the network, for policies and models that
/// update them as jobs come and go.
#[derive(Clone, Debug, Default)]
pub struct LinkJobs {
    /// Jobs of each link, in order.
    jobs: Vec<Vec<JobId>>,
    /// Links of each job that has links.
    links: SortedMap<JobId, Vec<LinkId>>,
}

impl LinkJobs {
    /// Sets the links of a job; none if it has left them.
    pub fn set(&mut self, id: JobId, links: &[LinkId]) {
        for link in self.links.remove(&id).into_iter().flatten() {
            let jobs = &mut self.jobs[link.index()];
            if let Ok(at) = jobs.binary_search(&id) {
                jobs.remove(at);
            }
        }
        for link in links {
            let at = link.index();
            if at >= self.jobs.len() {
                self.jobs.resize_with(at + 1, Vec::new);
            }
            let jobs = &mut self.jobs[at];
            if let Err(at) = jobs.binary_search(&id) {
                jobs.insert(at, id);
            }
        }
        if !links.is_empty() {
            self.links.insert(id, links.to_vec());
        }
    }

    /// Returns the jobs of a link, in order.
    pub fn on(&self, link: LinkId) -> &[JobId] {
        self.jobs.get(link.index()).map_or(&[], |jobs| jobs)
    }
}
