//! Client of the scheduler for users' commands.

use crate::identity::tls::explain;
use crate::identity::tokens::Invitation;
use crate::identity::{IdentityError, IdentityFile, Role, request};
use crate::private;
use crate::protocol::Millis;
use crate::shell::clock;
pub use crate::shell::dial::Credentials;
use crate::shell::dial::dial;
pub use crate::shell::token::Token;
use crate::wire::{LARGEST, pb};
use blox_core::Seconds;
use pb::access_client::AccessClient;
use pb::entry_client::EntryClient;
use pb::jobs_client::JobsClient;
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use tonic::Response;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

/// Limit on the jobs of one page of a list.
const PAGE: u32 = 10_000;
/// Timeout of an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Time for which a reader of a log waits for a scheduler that does not answer.
const PATIENCE: Millis = Millis(60_000);
/// Initial interval between reconnection attempts. It doubles with each attempt.
const FIRST_TRY: Duration = Duration::from_millis(100);
/// Longest interval between reconnection attempts.
const LAST_TRY: Duration = Duration::from_secs(2);

/// Interval of the checks whether a scheduler has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Number of failed checks after which it has.
const FAILURES: u32 = 50;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The scheduler does not answer, or not in time.
    #[error("the scheduler at {at} does not answer: {why}")]
    Unreachable {
        /// Its address.
        at: String,
        /// The reason.
        why: String,
    },
    /// The address is invalid.
    #[error("`{0}` is no address of a scheduler, expected HOST:PORT with a port from 1 to 65535")]
    NoAddress(String),
    /// The file of the secret or the certificate cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// The scheduler's disk is full. The request may still be executed once there is space.
    #[error("{0}")]
    NoRoom(String),
    /// The scheduler refused.
    #[error("{0}")]
    Refused(String),
}

/// Connection to a scheduler.
pub struct Client {
    at: String,
    jobs: JobsClient<InterceptedService<Channel, Credentials>>,
    access: AccessClient<InterceptedService<Channel, Credentials>>,
}

/// Timeout of a forecast, which simulates many futures.
const FORECAST: Duration = Duration::from_secs(120);

/// Creates a request with a timeout.
fn soon<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// Returns the root cause of an error. The outer errors only repeat it.
pub(crate) fn root(e: &(dyn std::error::Error + 'static)) -> String {
    let mut first = e;
    while let Some(next) = first.source() {
        first = next;
    }
    let text = match first.downcast_ref::<tonic::Status>() {
        Some(status) if status.message().is_empty() => status.code().to_string(),
        Some(status) => status.message().to_owned(),
        None => first.to_string(),
    };
    // Error numbers of the operating system are omitted.
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Returns true if no process listens at the address.
fn is_free(status: &tonic::Status) -> bool {
    let mut next = status.source();
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Returns the URL of the scheduler at `host:port`.
///
/// # Errors
/// The address is invalid.
pub fn url(at: &str) -> Result<String, ClientError> {
    let url = format!("http://{at}");
    let endpoint = Endpoint::from_shared(url.clone()).ok();
    let port = endpoint.and_then(|e| e.uri().port_u16());
    port.map(|_| url)
        .ok_or_else(|| ClientError::NoAddress(at.to_owned()))
}

/// Joins a cluster: creates a key, gets its certificate for a token, and writes both to `file`.
/// A token without a name takes `name`, or else `host`. Returns name and role.
///
/// # Errors
/// The scheduler does not answer or is not of the token's authority. It refuses the token, or the
/// file cannot be written.
pub async fn join(
    at: &str,
    token: &Invitation,
    name: &str,
    host: &str,
    file: &Path,
) -> Result<(String, String), ClientError> {
    let refused = |e: IdentityError| ClientError::Refused(e.to_string());
    let (key, request) = request().map_err(refused)?;
    // A token is not used up for a file that cannot be written.
    let folder = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // A folder that exists keeps its rights: the file itself is private.
    if !folder.is_dir() {
        private::folder(folder).map_err(|e| {
            let folder = folder.display();
            ClientError::Refused(format!("{folder}: {e}"))
        })?;
    }
    let unreachable = |why: String| ClientError::Unreachable {
        at: at.to_owned(),
        why,
    };
    let newcomer = Credentials::Newcomer(token.fingerprint.clone());
    let (beat, url) = (Duration::from_secs(4), url(at)?);
    let channel = dial(&url, &newcomer, (beat, beat), false).await;
    let channel = channel.map_err(|e| unreachable(root(&e)))?;
    let request = pb::JoinRequest {
        secret: token.secret.clone(),
        request,
        name: name.to_owned(),
        host: host.to_owned(),
    };
    let reply = EntryClient::new(channel).join(soon(request)).await;
    let reply = reply.map_err(|status| match status.code() {
        tonic::Code::PermissionDenied | tonic::Code::InvalidArgument => {
            ClientError::Refused(status.message().to_owned())
        }
        tonic::Code::ResourceExhausted => ClientError::NoRoom(status.message().to_owned()),
        _ => unreachable(explain(&root(&status))),
    })?;
    let reply = reply.into_inner();
    IdentityFile::write(file, &key, &reply.chain).map_err(refused)?;
    Ok((reply.name, reply.role))
}

impl Client {
    /// Connects to the scheduler at `host:port`, with a secret or a certificate if it requires one.
    ///
    /// # Errors
    /// The scheduler does not answer, is another one than the authority names, or refuses the
    /// certificate. The file of the secret or the certificate cannot be used.
    pub async fn connect(
        at: &str,
        credentials: impl Into<Credentials>,
    ) -> Result<Self, ClientError> {
        let credentials = credentials.into().read();
        let credentials = credentials.map_err(|e| ClientError::Credentials(e.to_string()))?;
        let unreachable = |e: tonic::transport::Error| ClientError::Unreachable {
            at: at.to_owned(),
            why: root(&e),
        };
        let beat = (Duration::from_secs(2), Duration::from_secs(4));
        let url = url(at)?;
        let channel = dial(&url, &credentials, beat, false);
        let channel = channel.await.map_err(unreachable)?;
        let own = credentials.clone();
        let mut client = Client {
            at: at.to_owned(),
            access: AccessClient::with_interceptor(channel.clone(), own),
            jobs: JobsClient::with_interceptor(channel, credentials.clone())
                .max_decoding_message_size(LARGEST),
        };
        if let Credentials::Identity(_) = credentials {
            // The scheduler refuses a certificate after the client's side of the handshake.
            client.who_am_i().await?;
        }
        Ok(client)
    }

    fn failed(&self, status: &tonic::Status) -> ClientError {
        use tonic::Code::{Cancelled, DeadlineExceeded, ResourceExhausted, Unavailable, Unknown};
        // Errors that the scheduler sent have no source here.
        let transport = status.source().is_some();
        match status.code() {
            Unavailable | DeadlineExceeded | Cancelled | Unknown => {}
            _ if transport => {}
            ResourceExhausted => return ClientError::NoRoom(status.message().to_owned()),
            _ => return ClientError::Refused(status.message().to_owned()),
        }
        ClientError::Unreachable {
            at: self.at.clone(),
            why: explain(&root(status)),
        }
    }

    /// Returns name and role of this client.
    ///
    /// # Errors
    /// The scheduler does not answer, or refuses the certificate.
    pub async fn who_am_i(&mut self) -> Result<pb::WhoAmIReply, ClientError> {
        let reply = self.access.who_am_i(soon(pb::WhoAmIRequest {})).await;
        self.reply(reply)
    }

    /// Creates a token with which one user or node joins within `seconds`.
    ///
    /// # Errors
    /// The scheduler does not answer, or this client is no admin.
    pub async fn create_token(
        &mut self,
        role: Role,
        name: Option<String>,
        seconds: u64,
    ) -> Result<String, ClientError> {
        let request = pb::CreateTokenRequest {
            role: role.to_string(),
            name: name.unwrap_or_default(),
            seconds,
        };
        let reply = self.access.create_token(soon(request)).await;
        Ok(self.reply(reply)?.token)
    }

    /// Refuses all certificates of a name that were issued until now, or one serial number. The
    /// reply states whether the name is unknown.
    ///
    /// # Errors
    /// The scheduler does not answer, or this client is no admin.
    pub async fn revoke(&mut self, what: String) -> Result<pb::RevokeReply, ClientError> {
        let reply = self.access.revoke(soon(pb::RevokeRequest { what })).await;
        self.reply(reply)
    }

    fn reply<T>(&self, reply: Result<Response<T>, tonic::Status>) -> Result<T, ClientError> {
        let reply = reply.map_err(|e| self.failed(&e))?;
        Ok(reply.into_inner())
    }

    /// Submits a job under a key. A second submission with the same key returns the same job.
    ///
    /// # Errors
    /// The scheduler does not answer, or refuses the job.
    pub async fn submit(&mut self, key: String, job: pb::Job) -> Result<u32, ClientError> {
        if let Some(why) = crate::wire::too_large(&job) {
            return Err(ClientError::Refused(why));
        }
        let request = pb::SubmitRequest {
            key,
            job: Some(job),
        };
        let reply = self.jobs.submit(soon(request)).await;
        Ok(self.reply(reply)?.job)
    }

    /// Cancels, holds, releases or requeues a job.
    ///
    /// # Errors
    /// The scheduler does not answer, or refuses the request.
    pub async fn change(&mut self, job: u32, verb: pb::Verb) -> Result<(), ClientError> {
        let verb = verb.into();
        let request = soon(pb::ChangeRequest { job, verb });
        let reply = self.jobs.change(request).await;
        self.reply(reply).map(drop)
    }

    /// Lists one job, all jobs that have not ended, or all jobs.
    ///
    /// # Errors
    /// The scheduler does not answer, or there is no such job.
    pub async fn list(
        &mut self,
        job: Option<u32>,
        all: bool,
    ) -> Result<Vec<pb::JobLine>, ClientError> {
        let request = pb::ListRequest {
            job,
            all,
            ..pb::ListRequest::default()
        };
        Ok(self.first(request, usize::MAX).await?.0)
    }

    /// Lists the first jobs of a request, at most `limit`. Returns true with them if more follow.
    /// It reads as many pages as it needs.
    ///
    /// # Errors
    /// The scheduler does not answer, or there is no such job.
    pub async fn first(
        &mut self,
        mut request: pb::ListRequest,
        limit: usize,
    ) -> Result<(Vec<pb::JobLine>, bool), ClientError> {
        let mut jobs = Vec::new();
        loop {
            let left = limit - jobs.len();
            request.limit = u32::try_from(left).unwrap_or(PAGE).clamp(1, PAGE);
            let reply = self.jobs.list(soon(request.clone())).await;
            let page = self.reply(reply)?;
            jobs.extend(page.jobs);
            if page.next.is_none() || jobs.len() >= limit {
                return Ok((jobs, page.next.is_some()));
            }
            request.after = page.next;
        }
    }

    /// Lists the selected jobs, as [`Client::first`]; without `all`, only those that have not ended.
    ///
    /// # Errors
    /// The scheduler does not answer, or there is no such job.
    pub async fn list_selected(
        &mut self,
        filter: pb::Filter,
        all: bool,
        limit: usize,
    ) -> Result<(Vec<pb::JobLine>, bool), ClientError> {
        let request = pb::ListRequest {
            all,
            filter: Some(filter),
            ..pb::ListRequest::default()
        };
        self.first(request, limit).await
    }

    /// Submits the jobs of an array, or a job that depends on others. A second submission with the
    /// same key returns the same jobs.
    ///
    /// # Errors
    /// The scheduler does not answer, or refuses the jobs.
    pub async fn submit_many(
        &mut self,
        request: pb::SubmitManyRequest,
    ) -> Result<pb::SubmitManyReply, ClientError> {
        let reply = self.jobs.submit_many(soon(request)).await;
        self.reply(reply)
    }

    /// Cancels, holds, releases, requeues or prioritizes the selected jobs.
    ///
    /// # Errors
    /// The scheduler does not answer, or a listed job does not exist.
    pub async fn change_many(
        &mut self,
        filter: pb::Filter,
        verb: pb::Verb,
        priority: i32,
    ) -> Result<pb::ChangeManyReply, ClientError> {
        let request = pb::ChangeManyRequest {
            filter: Some(filter),
            verb: verb.into(),
            priority,
        };
        let reply = self.jobs.change_many(soon(request)).await;
        self.reply(reply)
    }

    /// Forecasts start and end of one queued job or array, such as `12` or `12_3`, or of all.
    ///
    /// # Errors
    /// The scheduler does not answer, there is no such job, or it makes no forecasts.
    pub async fn when(&mut self, name: Option<String>) -> Result<pb::WhenReply, ClientError> {
        let request = pb::WhenRequest {
            // An earlier scheduler reads the number.
            job: name.as_deref().and_then(|name| name.parse().ok()),
            name: name.unwrap_or_default(),
        };
        let mut request = soon(request);
        request.set_timeout(FORECAST);
        let reply = self.jobs.when(request).await;
        self.reply(reply)
    }

    /// Returns accounts of ended jobs.
    ///
    /// # Errors
    /// The scheduler does not answer, or cannot read its history.
    pub async fn accounts(
        &mut self,
        request: pb::AccountsRequest,
    ) -> Result<Vec<pb::GroupLine>, ClientError> {
        let reply = self.jobs.accounts(soon(request)).await;
        Ok(self.reply(reply)?.groups)
    }

    /// Lists all nodes.
    ///
    /// # Errors
    /// The scheduler does not answer.
    pub async fn nodes(&mut self) -> Result<Vec<pb::NodeLine>, ClientError> {
        let reply = self.jobs.nodes(soon(pb::NodesRequest {})).await;
        Ok(self.reply(reply)?.nodes)
    }

    /// Passes each chunk of a rank's log to `show`, with its launch number, until the log ends or
    /// `show` fails.
    ///
    /// If the scheduler stops answering, a reader that follows the log waits one minute and then
    /// resumes at its position. `away` receives the reason of the wait, and `None` when reading
    /// resumes.
    ///
    /// # Errors
    /// The scheduler does not answer, or there is no such log.
    pub async fn logs<E>(
        &mut self,
        mut wanted: pb::LogsRequest,
        mut show: impl FnMut(u32, &[u8]) -> Result<(), E>,
        mut away: impl FnMut(Option<&ClientError>),
    ) -> Result<Result<(), E>, ClientError> {
        let (mut begun, mut since, mut wait) = (false, None, FIRST_TRY);
        loop {
            let reply = tokio::time::timeout(DEADLINE, self.jobs.logs(wanted)).await;
            let late = |_| Err(tonic::Status::deadline_exceeded("no answer in time"));
            let error = match reply.unwrap_or_else(late) {
                Err(e) => self.failed(&e),
                Ok(reply) => {
                    begun = true;
                    if since.take().is_some() {
                        away(None);
                    }
                    let mut parts = reply.into_inner();
                    loop {
                        match parts.message().await {
                            Ok(Some(part)) => {
                                wait = FIRST_TRY;
                                let read = wanted.after.get_or_insert_default();
                                if read.launch != part.launch {
                                    (read.launch, read.offset) = (part.launch, 0);
                                }
                                read.offset += part.data.len() as u64;
                                if let Err(e) = show(part.launch, &part.data) {
                                    return Ok(Err(e));
                                }
                            }
                            Ok(None) => return Ok(Ok(())),
                            Err(e) => break self.failed(&e),
                        }
                    }
                }
            };
            let may_come_back = matches!(error, ClientError::Unreachable { .. });
            if !(wanted.follow && begun && may_come_back) {
                return Err(error);
            }
            let now = clock::now();
            match since {
                Some(since) if now - since > PATIENCE => return Err(error),
                Some(_) => {}
                None => {
                    since = Some(now);
                    away(Some(&error));
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST_TRY);
        }
    }

    /// Removes a node permanently. The node must be lost or drained, and empty.
    ///
    /// # Errors
    /// The scheduler does not answer, there is no such node, or the scheduler refuses the request.
    pub async fn remove(&mut self, node: String) -> Result<(), ClientError> {
        let reply = self.jobs.remove(soon(pb::RemoveRequest { node })).await;
        self.reply(reply).map(drop)
    }

    /// Ends the launches of a silent node that its operator has powered off.
    ///
    /// # Errors
    /// The scheduler does not answer, there is no such node, or the node is not silent.
    pub async fn down(&mut self, node: String) -> Result<(), ClientError> {
        let reply = self.jobs.down(soon(pb::DownRequest { node })).await;
        self.reply(reply).map(drop)
    }

    /// Stops the scheduler for up to this time, in which running jobs continue; `None` for the time
    /// that it was started with.
    ///
    /// # Errors
    /// The scheduler does not answer, or the time is too long.
    pub async fn stop(&mut self, absence: Option<Seconds>) -> Result<pb::StopReply, ClientError> {
        let absence_s = absence.map(Seconds::secs);
        let reply = self.jobs.stop(soon(pb::StopRequest { absence_s })).await;
        self.reply(reply)
    }

    /// Waits until a stopping scheduler has ended and its address is free, up to a time limit. Returns
    /// false if it still answers then.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        let look = async {
            let mut failures = 0;
            // Behind a tunnel, the address accepts connections also without a scheduler.
            while failures < FAILURES {
                match self.access.who_am_i(soon(pb::WhoAmIRequest {})).await {
                    Err(status) if is_free(&status) => return,
                    Err(status) if status.source().is_some() => failures += 1,
                    _ => failures = 0,
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(limit, look).await.is_ok()
    }

    /// Lists the offers of nodes. Before that, sets the price of an hour of a node of `offer`, or
    /// announces that the provider takes `reclaim` of its nodes back.
    ///
    /// # Errors
    /// The scheduler does not answer, there is no such offer, or the price is not a number of at
    /// least 0.
    pub async fn offers(
        &mut self,
        offer: Option<String>,
        price: Option<f64>,
        reclaim: Option<u32>,
    ) -> Result<Vec<pb::OfferLine>, ClientError> {
        let request = pb::OffersRequest {
            offer,
            price,
            reclaim,
        };
        let reply = self.jobs.offers(soon(request)).await;
        Ok(self.reply(reply)?.offers)
    }

    /// Uses a drained node again.
    ///
    /// # Errors
    /// The scheduler does not answer, or there is no such node.
    pub async fn resume(&mut self, node: String) -> Result<(), ClientError> {
        let reply = self.jobs.resume(soon(pb::ResumeRequest { node })).await;
        self.reply(reply).map(drop)
    }

    /// Places nothing new on a node. With `evict_after`, jobs that still run on it after that time
    /// are preempted; without, they continue.
    ///
    /// # Errors
    /// The scheduler does not answer, there is no such node, or the reason is empty.
    pub async fn drain(
        &mut self,
        node: String,
        why: String,
        evict_after: Option<Seconds>,
    ) -> Result<(), ClientError> {
        let request = pb::DrainRequest {
            node,
            why,
            evict_after_s: evict_after.map(Seconds::secs),
        };
        let reply = self.jobs.drain(soon(request)).await;
        self.reply(reply).map(drop)
    }
}
