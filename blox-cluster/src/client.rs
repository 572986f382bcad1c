//! What users' commands say to a scheduler.

use crate::wire::{LARGEST, pb};
use pb::jobs_client::JobsClient;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody answers there, or not in time.
    #[error("the scheduler at {at} does not answer: {why}")]
    Unreachable {
        /// Where.
        at: String,
        /// Everything that is known about it.
        why: String,
    },
    /// The scheduler refused.
    #[error("{0}")]
    Refused(String),
}

/// A way to a scheduler.
pub struct Client {
    at: String,
    jobs: JobsClient<Channel>,
}

/// Everything in an error's chain.
fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}

impl Client {
    /// To the scheduler at `host:port`.
    ///
    /// # Errors
    /// Nobody is there.
    pub async fn connect(at: &str) -> Result<Self, ClientError> {
        let unreachable = |e: &dyn std::error::Error| ClientError::Unreachable {
            at: at.to_owned(),
            why: chain(e),
        };
        let endpoint = Endpoint::from_shared(format!("http://{at}"))
            .map_err(|e| unreachable(&e))?
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(10))
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(|e| unreachable(&e))?;
        Ok(Client {
            at: at.to_owned(),
            jobs: JobsClient::new(channel).max_decoding_message_size(LARGEST),
        })
    }

    fn failed(&self, status: &tonic::Status) -> ClientError {
        use tonic::Code;
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
                ClientError::Unreachable {
                    at: self.at.clone(),
                    why: chain(status),
                }
            }
            _ => ClientError::Refused(status.message().to_owned()),
        }
    }

    /// Submits a job under a key: the same key again is the same job.
    ///
    /// # Errors
    /// The scheduler is out of reach, or refuses it.
    pub async fn submit(&mut self, key: String, job: pb::Job) -> Result<u32, ClientError> {
        let request = pb::SubmitRequest {
            key,
            job: Some(job),
        };
        match self.jobs.submit(request).await {
            Ok(reply) => Ok(reply.into_inner().job),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// Cancels, holds, releases or requeues a job.
    ///
    /// # Errors
    /// The scheduler is out of reach, or refuses it.
    pub async fn change(&mut self, job: u32, verb: pb::Verb) -> Result<(), ClientError> {
        let verb = verb.into();
        match self.jobs.change(pb::ChangeRequest { job, verb }).await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// One job, or all that have not ended, or all.
    ///
    /// # Errors
    /// The scheduler is out of reach, or knows no such job.
    pub async fn list(
        &mut self,
        job: Option<u32>,
        all: bool,
    ) -> Result<Vec<pb::JobLine>, ClientError> {
        match self.jobs.list(pb::ListRequest { job, all }).await {
            Ok(reply) => Ok(reply.into_inner().jobs),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// All nodes.
    ///
    /// # Errors
    /// The scheduler is out of reach.
    pub async fn nodes(&mut self) -> Result<Vec<pb::NodeLine>, ClientError> {
        match self.jobs.nodes(pb::NodesRequest {}).await {
            Ok(reply) => Ok(reply.into_inner().nodes),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// Places nothing new on a node, or uses it again if `why` is empty.
    ///
    /// # Errors
    /// The scheduler is out of reach, or knows no such node.
    pub async fn drain(&mut self, node: String, why: String) -> Result<(), ClientError> {
        match self.jobs.drain(pb::DrainRequest { node, why }).await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed(&e)),
        }
    }
}
