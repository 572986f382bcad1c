//! Parts that tests of the scheduler daemon share.

use blox_cluster::daemon::{Outputs, ToPolicy};
use blox_cluster::protocol::launches::Past;
use blox_cluster::protocol::scheduler::RequestError;
use blox_cluster::protocol::{NodeRequest, Orders};
use blox_core::{Input, JobId};
use std::sync::Arc;

/// Keeps orders, messages of the policy, and notices.
#[derive(Default)]
pub struct Kept {
    pub orders: Vec<Orders>,
    pub policy: Vec<ToPolicy>,
    pub notices: Vec<String>,
}

impl Outputs for Kept {
    type Sender = ();

    fn reply(&mut self, (): (), reply: Result<JobId, RequestError>) {
        reply.unwrap();
    }

    fn send(&mut self, orders: &Orders) {
        self.orders.push(orders.clone());
    }

    fn provide(&mut self, _request: NodeRequest) {}

    fn policy(&mut self, message: ToPolicy) {
        self.policy.push(message);
    }

    fn observe(&mut self, _input: &Arc<Input>) {}

    fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    fn archive(&mut self, _jobs: &[Past]) -> std::io::Result<()> {
        Ok(())
    }
}
