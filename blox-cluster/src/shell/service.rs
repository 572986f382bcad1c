//! Network services of the scheduler.

use super::admit::{Caller, Guard, Guarded, Object, brief};
use super::entry::{Names, NodeOf, own, submitter};
use super::listen::{ConnectionLimits, connections};
use super::logs::{self, Desk};
use super::metrics;
use super::notes::Notes;
use super::refusals::Refusals;
use super::scheduler::{Handle, Message, Running, SchedulerError};
use super::select;
use super::shown;
use super::speakers::{Claim, Speakers};
use super::token::Token;
use crate::client::root;
use crate::history::{self, HistoryError};
use crate::identity::audit::Audit;
use crate::identity::authority::Authority;
use crate::identity::tls::ServerTls;
use crate::protocol::launches::Past;
use crate::protocol::scheduler::{
    Controller, ControllerInput, LONGEST_ARRAY, Request as Ask, RequestError, SubmitMany,
};
use crate::protocol::timers::LONGEST_ABSENCE;
use crate::protocol::{Dependency, Millis, Report, Session};
use crate::wire::{LARGEST, WireError, check_new, job_spec, pb, too_large};
use blox_core::forecast::Forecaster;
use blox_core::{JobId, JobSpec, Name, NodeId, NodeStatus, Phase, Seconds};
use prost::Message as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Limit on the concurrent requests of a connection.
const STREAMS: u32 = 64;
/// Limit on the descriptions of the jobs of an array in bytes.
const LARGEST_ARRAY: usize = 16 << 20;
/// Timeout of an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time after which a forecast is stopped, and for which it waits for others. Together they are below
/// [`DEADLINE`].
const FORECAST: Duration = Duration::from_millis(4_800);
/// Interval at which the health service checks the log.
const HEALTH: Duration = Duration::from_millis(250);
/// Interval of the checks whether all nodes have acknowledged a planned absence.
const CHECK: Duration = Duration::from_millis(50);
/// Time for the reply to a request to stop.
const REPLY: Duration = Duration::from_millis(200);

/// Addresses and token of a scheduler. The addresses are bound, so an address in use is an error
/// before the scheduler starts.
#[derive(Debug)]
pub struct Listen {
    listener: TcpListener,
    at: SocketAddr,
    metrics: Option<(TcpListener, SocketAddr)>,
    token: Token,
    tls: Option<Arc<ServerTls>>,
    audit: Option<Arc<Audit>>,
}

impl Listen {
    /// Binds an address for nodes and users that present the token, and optionally an address
    /// for Prometheus.
    ///
    /// # Errors
    /// An address cannot be used.
    pub async fn bind(
        address: SocketAddr,
        metrics: Option<SocketAddr>,
        token: Token,
    ) -> Result<Self, SchedulerError> {
        let (listener, at) = bind(address).await?;
        let metrics = match metrics {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Listen {
            listener,
            at,
            metrics,
            token,
            tls: None,
            audit: None,
        })
    }

    /// Requires TLS and certificates of an authority instead of the token.
    #[must_use]
    pub fn with_tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(Arc::new(tls));
        self
    }

    /// Records calls in an audit log.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Returns the bound address for nodes and users.
    pub fn at(&self) -> SocketAddr {
        self.at
    }
}

/// Serves nodes and users until `stop` is ready, a user stops the scheduler, or the scheduler's
/// thread ends. Before it stops in order, it grants all launches leases that cover its planned
/// absence, and waits for a few seconds until the nodes have acknowledged them. `ready` receives
/// the bound addresses for users and for Prometheus. `notice` receives messages for the operator,
/// such as nodes that join or are lost.
///
/// # Errors
/// The network or the scheduler failed. It was stopped while its log had no room for longer leases.
pub async fn serve(
    running: Running,
    listen: Listen,
    ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    mut notice: impl FnMut(&str),
    stop: impl Future<Output = ()> + Send,
) -> Result<(), SchedulerError> {
    let (handle, mut notices) = (running.handle, running.notices);
    let refusals = Refusals::new(handle.to.clone());
    let mut tasks = tokio::task::JoinSet::new();
    let metrics = listen.metrics.map(|(listener, at)| {
        let (handle, refusals) = (handle.clone(), refusals.clone());
        tasks.spawn(metrics::serve(listener, handle, refusals));
        at
    });
    ready(listen.at, metrics);
    let (stopped, mut is_stopped) = mpsc::channel(1);
    let (health, health_service) = tonic_health::server::health_reporter();
    let notes = Notes {
        refusals,
        audit: listen.audit,
    };
    let guard = Guard {
        token: listen.token,
        authority: listen.tls.as_ref().map(|tls| Arc::clone(tls.authority())),
        notes: notes.clone(),
    };
    if let Some(authority) = guard.authority.clone() {
        tasks.spawn(keep(authority, handle.clone()));
    }
    let service = Service {
        handle: handle.clone(),
        guard: guard.clone(),
        desk: Desk::default(),
        speakers: Speakers::default(),
        forecaster: running.forecaster,
        forecasting: Arc::default(),
        stopped: stopped.clone(),
    };
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(crate::wire::DESCRIPTOR)
    };
    let failed = |e: tonic_reflection::server::Error| SchedulerError::Network(e.to_string());
    // Older clients ask for the alpha version.
    let reflection_alpha = reflection().build_v1alpha().map_err(failed)?;
    let reflection = reflection().build_v1().map_err(failed)?;
    let counters = Arc::clone(&handle.counters);
    tasks.spawn(async move {
        loop {
            let is_serving = counters.why_no_room().is_none();
            let status = match is_serving {
                true => tonic_health::ServingStatus::Serving,
                false => tonic_health::ServingStatus::NotServing,
            };
            let jobs = <pb::jobs_server::JobsServer<Service> as tonic::server::NamedService>::NAME;
            for service in ["", jobs] {
                health.set_service_status(service, status).await;
            }
            tokio::time::sleep(HEALTH).await;
        }
    });
    let (over_tx, over) = tokio::sync::oneshot::channel();
    let watch = tokio::task::spawn_blocking(move || {
        let result = running.thread.join();
        let _ = over_tx.send(());
        result
    });
    let served = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(2)))
        .http2_keepalive_timeout(Some(Duration::from_secs(4)))
        .tcp_nodelay(true)
        .max_concurrent_streams(STREAMS)
        .timeout(DEADLINE)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(reflection_alpha)
        .add_service(pb::entry_server::EntryServer::new(Names(guard.clone())))
        .add_service(Guarded::new(
            pb::access_server::AccessServer::new(Names(guard.clone())),
            guard.clone(),
        ))
        .add_service(Guarded::new(
            pb::node_link_server::NodeLinkServer::new(service.clone())
                .max_decoding_message_size(LARGEST),
            guard.clone(),
        ))
        .add_service(Guarded::new(
            pb::jobs_server::JobsServer::new(service).max_decoding_message_size(LARGEST),
            guard,
        ))
        .serve_with_incoming(connections(
            listen.listener,
            ConnectionLimits::raise(),
            listen.tls.map(|tls| (tls, notes)),
        ));
    let (mut served, mut stop) = (std::pin::pin!(served), std::pin::pin!(stop));
    let mut over = over;
    let mut stopping = false;
    let mut without_leases = None;
    loop {
        tokio::select! {
            served = &mut served => {
                served.map_err(|e| SchedulerError::Network(root(&e)))?;
                break;
            }
            () = &mut stop, if !stopping => {
                stopping = true;
                let (handle, stopped) = (handle.clone(), stopped.clone());
                tokio::spawn(async move {
                    let left = leave(&handle, None).await;
                    let why = left.err().map(|status| status.message().to_owned());
                    // The scheduler may have ended.
                    let _ = stopped.send(why).await;
                });
            }
            why = is_stopped.recv() => {
                without_leases = why.flatten();
                break;
            }
            _ = &mut over => break,
            Some(text) = notices.recv() => notice(&text),
        }
    }
    handle.stop();
    while let Ok(text) = notices.try_recv() {
        notice(&text);
    }
    // The address for users, which `served` holds, is free last: a client that waits for it can start
    // another scheduler with the same options.
    tasks.shutdown().await;
    match watch.await {
        Ok(Ok(result)) => match without_leases {
            Some(why) => result.and(Err(SchedulerError::WithoutLeases(why))),
            None => result,
        },
        _ => Err(SchedulerError::Network(
            "the scheduler's thread panicked".to_owned(),
        )),
    }
}

/// Grants all launches leases that cover the planned absence of the scheduler, and waits until their
/// nodes have acknowledged them. Returns the length of the absence, and the nodes that have not.
///
/// # Errors
/// The reason why no leases can be granted. A later scheduler would not find them in its log.
async fn leave(handle: &Handle, absence: Option<Millis>) -> Result<(Millis, Vec<String>), Status> {
    if absence == Some(Millis(0)) {
        return Ok((Millis(0), Vec::new()));
    }
    let timers = handle.look(|s, _| *s.launches().timers()).await;
    let timers = timers.ok_or_else(|| handle.gone())?;
    let absence = absence.unwrap_or(timers.absence);
    if absence == Millis(0) {
        return Ok((absence, Vec::new()));
    }
    let leave = ControllerInput::Request(Ask::Leave(absence));
    if handle.request(leave).await.is_none() {
        return Err(handle.gone());
    }
    let names = |s: &Controller, _: Millis| {
        let name = |node: NodeId| {
            let spec = s.view().node(node).map(|n| n.spec());
            let name = spec.and_then(|spec| spec.name.clone());
            name.map_or_else(|| node.to_string(), |name| name.to_string())
        };
        let nodes = s.launches().without_long_lease().into_iter();
        let nodes: Vec<String> = nodes.map(name).collect();
        (nodes, s.launches().has_open())
    };
    let until = super::clock::now() + timers.margin;
    loop {
        let seen = handle.look(names).await;
        let (short, has_open) = seen.ok_or_else(|| handle.gone())?;
        if short.is_empty() || super::clock::now() >= until {
            let secs = absence.as_secs();
            let text = match short.join(", ") {
                short if !short.is_empty() => Some(format!(
                    "{short}: no acknowledgement of leases of {secs} s: without a scheduler, the jobs there may end with their leases"
                )),
                _ => has_open
                    .then(|| format!("running jobs continue for {secs} s without a scheduler")),
            };
            // The scheduler may have ended.
            let _ = text.map(|text| handle.to.send(Message::Notice(text)));
            return Ok((absence, short));
        }
        tokio::time::sleep(CHECK).await;
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), SchedulerError> {
    let network = |e: std::io::Error| SchedulerError::Network(format!("{address}: {e}"));
    let listener = TcpListener::bind(address).await.map_err(network)?;
    let at = listener.local_addr().map_err(network)?;
    Ok((listener, at))
}

/// Interval of the checks of the scheduler's own certificate.
const KEEP: Duration = Duration::from_secs(10);

/// Renews the certificate of the scheduler in time, forever.
async fn keep(authority: Arc<Authority>, handle: Handle) {
    let mut failure = String::new();
    loop {
        let kept = authority.keep_scheduler();
        let text = kept.err().map_or_else(String::new, |e| e.to_string());
        if text != failure && !text.is_empty() {
            let text = format!("the scheduler's certificate cannot be renewed: {text}");
            // The scheduler may be stopping.
            let _ = handle.to.send(Message::Notice(text));
        }
        failure = text;
        tokio::time::sleep(KEEP).await;
    }
}

#[derive(Clone)]
struct Service {
    handle: Handle,
    guard: Guard,
    desk: Desk,
    speakers: Speakers,
    forecaster: Option<Arc<dyn Forecaster>>,
    /// Held by the only forecast that is made at a time.
    forecasting: Arc<tokio::sync::Mutex<()>>,
    /// Receives a message once the scheduler may stop, with the reason if no leases were granted.
    stopped: mpsc::Sender<Option<String>>,
}

/// A flag that is set when the request ends for which a computation runs.
#[derive(Default)]
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn refused(e: &RequestError) -> Status {
    match e {
        RequestError::NoJob(_) | RequestError::NoNode(_) | RequestError::NoOffer(_) => {
            Status::not_found(e.to_string())
        }
        RequestError::WrongPhase { .. }
        | RequestError::Ended { .. }
        | RequestError::WrongNode { .. }
        | RequestError::NeverFits(_)
        | RequestError::NotTakenIn(_) => Status::failed_precondition(e.to_string()),
        RequestError::OtherJob { .. } => Status::already_exists(e.to_string()),
        _ => Status::invalid_argument(e.to_string()),
    }
}

/// Returns why a request for a job was refused, with the name of the job for users.
fn named_by(called: &str, job: JobId, why: &RequestError) -> String {
    let text = why.to_string();
    match text.strip_prefix(&format!("job {job} ")) {
        Some(rest) => format!("job {called} {rest}"),
        None => text,
    }
}

/// Checks key and description of a new job. The user of the job is the caller, if the caller has a
/// name.
fn sound(caller: &Caller, key: String, job: Option<pb::Job>) -> Result<(Name, JobSpec), Status> {
    let mut job = job.ok_or_else(|| Status::invalid_argument("job is missing"))?;
    if key.is_empty() || key.len() > 200 {
        return Err(Status::invalid_argument("key: expected 1 to 200 bytes"));
    }
    // Lengths first: a later refusal may repeat a text.
    if let Some(why) = too_large(&job) {
        return Err(Status::out_of_range(why));
    }
    let wrong = |e: WireError| Status::invalid_argument(e.to_string());
    check_new(&job).map_err(wrong)?;
    job.user = submitter(caller, std::mem::take(&mut job.user))?;
    if job.priority > 0 && caller.owner("Jobs/Submit").is_some() {
        let found = job.priority;
        let text = format!("priority is {found}, expected 0 or less: only an operator raises it");
        return Err(Status::permission_denied(text));
    }
    Ok((Name::from(key), job_spec(job).map_err(wrong)?))
}

/// Returns the request of a verb.
fn ask_of(verb: pb::Verb, job: JobId, priority: i32) -> Result<Ask, Status> {
    Ok(match verb {
        pb::Verb::Cancel => Ask::Cancel(job),
        pb::Verb::Hold => Ask::Hold(job),
        pb::Verb::Release => Ask::Release(job),
        pb::Verb::Requeue => Ask::Requeue(job),
        pb::Verb::Prioritize => Ask::Prioritize(job, priority),
        pb::Verb::Unspecified => return Err(Status::invalid_argument("verb is missing")),
    })
}

/// A response, or the error that a client receives.
type Answer<T> = Result<Response<T>, Status>;

impl Service {
    async fn ask(&self, ask: Ask) -> Answer<pb::JobReply> {
        let reply = self.handle.request(ControllerInput::Request(ask)).await;
        let reply = reply.ok_or_else(|| self.handle.gone())?;
        let job = reply.map_err(|e| refused(&e))?;
        Ok(Response::new(pb::JobReply { job: job.0 }))
    }

    /// Finds a node by its id or name. If several match, it prefers one that is up, then the
    /// latest.
    async fn node(&self, wanted: String) -> Result<NodeId, Status> {
        let none = Status::not_found(format!("there is no node {wanted}"));
        let find = move |s: &Controller, _: Millis| {
            let there = |n: &&blox_core::Node| {
                let named = n.spec().name.as_ref().is_some_and(|x| x.as_str() == wanted);
                n.status() != NodeStatus::Left && (named || n.id().to_string() == wanted)
            };
            let all = s.view().cluster().nodes().iter().filter(there);
            all.max_by_key(|n| (n.status() == NodeStatus::Up, n.id()))
                .map(blox_core::Node::id)
        };
        self.look(find).await?.ok_or(none)
    }

    /// Evaluates a function of the state.
    async fn look<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Controller, Millis) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let seen = self.handle.look(f).await;
        seen.ok_or_else(|| self.handle.gone())
    }

    /// Replaces the names of archived jobs of arrays, such as `12_3`, by [`select::exactly`] these
    /// jobs. Returns the last of them.
    async fn name_archived(&self, filter: &mut pb::Filter) -> Result<Option<Past>, Status> {
        if !filter.jobs.iter().any(|name| name.contains('_')) {
            return Ok(None);
        }
        let names = filter.jobs.clone();
        let look = move |s: &Controller, _: Millis| {
            let unknown = |name: &String| select::is_unknown_in_array(s, name);
            names.iter().map(unknown).collect::<Vec<_>>()
        };
        let mut last = None;
        for (text, unknown) in filter.jobs.iter_mut().zip(self.look(look).await?) {
            let Some((array, index)) = unknown else {
                continue;
            };
            if let Some(past) = self.handle.archived_in_array(array, index).await? {
                *text = select::exactly(past.job);
                last = Some(past);
            }
        }
        Ok(last)
    }

    async fn all_nodes(&self) -> Answer<pb::NodesReply> {
        let nodes = self.look(shown::nodes).await?;
        Ok(Response::new(pb::NodesReply { nodes }))
    }
}

/// The stream of a node manager.
struct Speaking {
    speakers: Speakers,
    /// The node, the number of the stream, and true at its first report.
    of: Option<(Name, u64, bool)>,
}

impl Speaking {
    /// Refuses the first report of a node manager while another one of its node is present.
    fn report(&mut self, report: &Report, handle: &Handle) -> Result<(), Status> {
        if let Some((node, stream, is_new)) = &mut self.of {
            *is_new = false;
            self.speakers.reported(node, *stream);
            return Ok(());
        }
        let (stream, claim) = self.speakers.claim(&report.node, report.session);
        let name = report.offer.name.as_deref().unwrap_or_default();
        match claim {
            Claim::Free => {
                self.of = Some((report.node.clone(), stream, true));
                Ok(())
            }
            Claim::Later => Err(Status::unavailable(format!(
                "another manager of node {name} is still connected"
            ))),
            Claim::Taken => {
                let text = format!(
                    "another manager of node {name} reports: a second one was started with a copy of its state folder"
                );
                // The scheduler may be stopping.
                let _ = handle
                    .to
                    .send(Message::Notice(format!("{text}, and is refused")));
                Err(Status::failed_precondition(format!(
                    "{text}: give this one a new --state-dir"
                )))
            }
        }
    }

    fn is_new(&self) -> bool {
        self.of.as_ref().is_some_and(|(_, _, is_new)| *is_new)
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        if let Some((node, stream, _)) = &self.of {
            self.speakers.ended(node, *stream);
        }
    }
}

#[tonic::async_trait]
impl pb::node_link_server::NodeLink for Service {
    type LinkStream = ReceiverStream<Result<pb::Orders, Status>>;

    async fn link(&self, request: Request<Streaming<pb::Report>>) -> Answer<Self::LinkStream> {
        let node = NodeOf::of(&request, &self.handle, &self.guard)?;
        let mut reports = request.into_inner();
        let (tx, rx) = mpsc::channel(16);
        let (handle, speakers) = (self.handle.clone(), self.speakers.clone());
        tokio::spawn(async move {
            let mut speaking = Speaking { speakers, of: None };
            // The stream may have ended.
            let refuse = async |status| drop(tx.send(Err(brief(status))).await);
            // The node reopens a broken stream.
            while let Ok(Some(report)) = reports.message().await {
                let report = match Report::try_from(report) {
                    Ok(report) => report,
                    Err(e) => return refuse(Status::invalid_argument(e.to_string())).await,
                };
                if let Err(status) = node.sends(&report).await {
                    return refuse(status).await;
                }
                if let Err(status) = speaking.report(&report, &handle) {
                    return refuse(status).await;
                }
                if speaking.is_new() {
                    let link = Message::Linked(report.node.clone(), report.session, tx.clone());
                    if handle.to.send(link).is_err() {
                        return;
                    }
                }
                // Only a node that is not admitted receives a reply.
                if let Some(Err(e)) = handle.request(ControllerInput::Report(report)).await {
                    return refuse(refused(&e)).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    type LogsStream = tokio_stream::adapters::Map<
        ReceiverStream<pb::LogWanted>,
        fn(pb::LogWanted) -> Result<pb::LogWanted, Status>,
    >;

    async fn logs(&self, request: Request<Streaming<pb::LogPart>>) -> Answer<Self::LogsStream> {
        let node = NodeOf::of(&request, &self.handle, &self.guard)?;
        let mut parts = request.into_inner();
        let (tx, rx) = mpsc::channel(16);
        let desk = self.desk.clone();
        tokio::spawn(async move {
            while let Ok(Some(part)) = parts.message().await {
                match part.request {
                    0 if !node.owns(&part.node).await => return,
                    0 => desk.link(part.node, Session(part.session), tx.clone()),
                    _ => desk.answer(part),
                }
            }
        });
        use tokio_stream::StreamExt;
        let ok: fn(pb::LogWanted) -> Result<pb::LogWanted, Status> = Ok;
        Ok(Response::new(ReceiverStream::new(rx).map(ok)))
    }
}

#[tonic::async_trait]
impl pb::jobs_server::Jobs for Service {
    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Answer<pb::JobReply> {
        let caller = Caller::of(&request)?;
        Object::of(&request, format!("key {}", request.get_ref().key));
        let pb::SubmitRequest { key, job } = request.into_inner();
        let (key, spec) = sound(&caller, key, job)?;
        self.ask(Ask::Submit { key, spec }).await
    }

    async fn submit_many(
        &self,
        request: Request<pb::SubmitManyRequest>,
    ) -> Answer<pb::SubmitManyReply> {
        let caller = Caller::of(&request)?;
        Object::of(&request, format!("key {}", request.get_ref().key));
        let request = request.into_inner();
        let bytes = request.job.as_ref().map_or(0, pb::Job::encoded_len);
        let (key, spec) = sound(&caller, request.key, request.job)?;
        let indices = request.indices;
        let invalid = |text: String| Status::invalid_argument(text);
        if indices.len() > LONGEST_ARRAY {
            let found = indices.len();
            let text = format!("the array has {found} jobs, expected {LONGEST_ARRAY} at most");
            return Err(invalid(text));
        }
        if bytes * indices.len() > LARGEST_ARRAY {
            let text = format!(
                "the descriptions of {} jobs of {bytes} bytes are too large, expected at most {LARGEST_ARRAY} bytes together: put their data into files",
                indices.len()
            );
            return Err(Status::out_of_range(text));
        }
        if !indices.is_sorted_by(|a, b| a < b) {
            return Err(invalid("indices: expected ascending numbers".to_owned()));
        }
        let dependency = match request.dependency.as_str() {
            "" => Dependency::default(),
            text => text
                .parse()
                .map_err(|e| invalid(format!("dependency: {e}")))?,
        };
        let count = indices.len().max(1) as u32;
        let many = SubmitMany {
            key,
            spec,
            indices,
            at_once: request.at_once,
            dependency,
            hold: request.hold,
        };
        let reply = self.ask(Ask::SubmitMany(Box::new(many))).await?;
        let job = reply.into_inner().job;
        Ok(Response::new(pb::SubmitManyReply { job, count }))
    }

    async fn change_many(
        &self,
        request: Request<pb::ChangeManyRequest>,
    ) -> Answer<pb::ChangeManyReply> {
        let caller = Caller::of(&request)?;
        let verb = request.get_ref().verb().as_str_name();
        let verb = verb.trim_start_matches("VERB_").to_lowercase();
        Object::of(&request, format!("jobs {verb}"));
        let request = request.into_inner();
        let (verb, priority) = (request.verb(), request.priority);
        if verb == pb::Verb::Prioritize && caller.owner("Jobs/ChangeMany").is_some() {
            let text = "only an operator changes the priority of a queued job";
            return Err(Status::permission_denied(text));
        }
        let mut filter = request.filter.unwrap_or_default();
        if filter == pb::Filter::default() {
            let text = "no job is selected: expected numbers of jobs or a filter";
            return Err(Status::invalid_argument(text));
        }
        self.name_archived(&mut filter).await?;
        let find = move |s: &Controller, now: Millis| select::all(s, now, &filter);
        let jobs = self.look(find).await?.map_err(Status::not_found)?;
        let mut reply = pb::ChangeManyReply::default();
        // All inputs are sent before the first reply, so that one synchronization writes many.
        let mut open = Vec::new();
        for job in jobs {
            if let Err(status) = own(&self.handle, &caller, "Jobs/ChangeMany", job).await {
                reply.refused.push(pb::RefusedLine {
                    job: job.0,
                    why: status.message().to_owned(),
                });
                continue;
            }
            let ask = ask_of(verb, job, priority)?;
            open.push((job, self.handle.send(ControllerInput::Request(ask))));
        }
        for (job, answer) in open {
            let done = match answer {
                Some(answer) => answer.await.ok(),
                None => None,
            };
            match done.ok_or_else(|| self.handle.gone())? {
                Ok(_) => reply.changed.push(job.0),
                Err(why) => {
                    let look = move |s: &Controller, _: Millis| s.launches().durable().called(job);
                    let called = self.look(look).await?;
                    let why = named_by(&called, job, &why);
                    reply.refused.push(pb::RefusedLine { job: job.0, why });
                }
            }
        }
        Ok(Response::new(reply))
    }

    async fn change(&self, request: Request<pb::ChangeRequest>) -> Answer<pb::JobReply> {
        let caller = Caller::of(&request)?;
        let verb = request.get_ref().verb().as_str_name();
        let verb = verb.trim_start_matches("VERB_").to_lowercase();
        Object::of(&request, format!("job {} {verb}", request.get_ref().job));
        let request = request.into_inner();
        own(&self.handle, &caller, "Jobs/Change", JobId(request.job)).await?;
        let ask = match request.verb() {
            pb::Verb::Prioritize => return Err(Status::invalid_argument("priority is missing")),
            verb => ask_of(verb, JobId(request.job), 0)?,
        };
        self.ask(ask).await
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Answer<pb::ListReply> {
        let mut wanted = request.into_inner();
        let job = wanted.job;
        let mut filter = wanted.filter.take().unwrap_or_default();
        let past = self.name_archived(&mut filter).await?;
        if let Some(past) = past.filter(|past| wanted.all && select::is_only(&filter, past.job)) {
            let look = move |s: &Controller, _: Millis| vec![shown::archived(s, &past)];
            let jobs = self.look(look).await?;
            return Ok(Response::new(pb::ListReply { jobs, next: None }));
        }
        let look = move |s: &Controller, now: Millis| select::lines(s, now, &wanted, &filter);
        let reply = self.look(look).await?.map_err(Status::not_found)?;
        let Some(job) = job.filter(|_| reply.jobs.is_empty()) else {
            if reply.encoded_len() > LARGEST {
                let text = format!(
                    "the list of {} jobs is too large for one message: ask for pages, with a limit",
                    reply.jobs.len()
                );
                return Err(Status::out_of_range(text));
            }
            return Ok(Response::new(reply));
        };
        let none = || Status::not_found(format!("there is no job {job}"));
        let past = self.handle.archived(JobId(job)).await?.ok_or_else(none)?;
        let look = move |s: &Controller, _: Millis| vec![shown::archived(s, &past)];
        let jobs = self.look(look).await?;
        Ok(Response::new(pb::ListReply { jobs, next: None }))
    }

    type LogsStream = ReceiverStream<Result<pb::LogsReply, Status>>;

    async fn logs(&self, request: Request<pb::LogsRequest>) -> Answer<Self::LogsStream> {
        let caller = Caller::of(&request)?;
        let job = request.get_ref().job;
        Object::of(&request, format!("job {job}"));
        own(&self.handle, &caller, "Jobs/Logs", JobId(job)).await?;
        let (tx, rx) = mpsc::channel(16);
        let (handle, desk) = (self.handle.clone(), self.desk.clone());
        tokio::spawn(logs::hand_on(handle, desk, request.into_inner(), tx));
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    /// The forecast runs on copies, beside the scheduler.
    async fn when(&self, request: Request<pb::WhenRequest>) -> Answer<pb::WhenReply> {
        let pb::WhenRequest { job, name } = request.into_inner();
        let none = || Status::unimplemented("this scheduler makes no forecasts");
        let forecaster = self.forecaster.clone().ok_or_else(none)?;
        let stop = StopAtEnd::default();
        let (stopped, late) = (Arc::clone(&stop.0), Arc::clone(&stop.0));
        let forecasting = Arc::clone(&self.forecasting).lock_owned();
        let forecasting = tokio::time::timeout(FORECAST, forecasting).await;
        let busy = "other forecasts are being made: try again later";
        let forecasting = forecasting.map_err(|_| Status::failed_precondition(busy))?;
        let over = tokio::spawn(async move {
            tokio::time::sleep(FORECAST).await;
            late.store(true, Ordering::Relaxed);
        });
        let copies = self.handle.copies().await;
        let (mut state, policy) = copies.ok_or_else(|| self.handle.gone())?;
        let filter = pb::Filter {
            jobs: match (name.as_str(), job) {
                ("", job) => job.iter().map(u32::to_string).collect(),
                (name, _) => vec![name.to_owned()],
            },
            ..pb::Filter::default()
        };
        let listed = move |s: &Controller, _: Millis| select::jobs(s, &filter);
        let listed = self.look(listed).await?.map_err(Status::not_found)?;
        let is_live = |id: &JobId| state.job(*id).is_some_and(|j| j.phase() != Phase::Ended);
        if listed.as_ref().is_some_and(|ids| !ids.iter().any(is_live)) {
            let wanted = job.map_or(name, |job| job.to_string());
            return Err(Status::not_found(format!(
                "there is no queued job {wanted}"
            )));
        }
        let look = |s: &Controller, now: Millis| (s.time(now), shown::ended(s));
        let (now, past) = self.look(look).await?;
        // The core's time advances only with events.
        state.advance(now);
        let forecast = move || {
            let _one_at_a_time = forecasting;
            forecaster.expect(&state, &*policy, &past, &stopped)
        };
        let forecast = tokio::task::spawn_blocking(forecast).await;
        over.abort();
        let forecast = forecast.map_err(|e| Status::internal(e.to_string()))?;
        let wait = FORECAST.as_secs_f64();
        let slow = || format!("a forecast of this queue takes longer than {wait} s");
        let mut jobs = forecast.ok_or_else(|| Status::failed_precondition(slow()))?;
        let is_listed = |id: JobId| {
            listed
                .as_ref()
                .is_none_or(|ids| ids.binary_search(&id).is_ok())
        };
        jobs.retain(|expected| is_listed(expected.job));
        let look = move |s: &Controller, _: Millis| pb::WhenReply {
            now_s: s.launches().durable().unix(now),
            jobs: shown::expected(s, &jobs),
        };
        Ok(Response::new(self.look(look).await?))
    }

    /// The accounts are read from the file, beside the scheduler.
    async fn accounts(&self, request: Request<pb::AccountsRequest>) -> Answer<pb::AccountsReply> {
        let request = request.into_inner();
        let query = history::Query {
            by: request.by().into(),
            since_s: request.since_s,
            until_s: request.until_s,
            user: request.user,
        };
        let path = self.handle.history.clone();
        let read = move || history::accounts(&path, &query);
        let read = tokio::task::spawn_blocking(read).await;
        let groups = match read.map_err(|e| Status::internal(e.to_string()))? {
            Ok(groups) => groups,
            // No job has ended yet.
            Err(HistoryError::Missing(_)) => Vec::new(),
            Err(e) => return Err(Status::internal(e.to_string())),
        };
        let groups = groups.into_iter().map(Into::into).collect();
        Ok(Response::new(pb::AccountsReply { groups }))
    }

    async fn nodes(&self, _: Request<pb::NodesRequest>) -> Answer<pb::NodesReply> {
        self.all_nodes().await
    }

    async fn drain(&self, request: Request<pb::DrainRequest>) -> Answer<pb::NodesReply> {
        Object::of(&request, format!("node {}", request.get_ref().node));
        let pb::DrainRequest {
            node,
            why,
            evict_after_s,
        } = request.into_inner();
        if why.trim().is_empty() {
            return Err(Status::invalid_argument("why is empty, expected a reason"));
        }
        let seconds = |s: f64| match s.is_finite() && s >= 0.0 {
            true => Ok(Seconds::new(s)),
            false => Err(Status::invalid_argument(format!(
                "evict_after_s is {s}, expected a number of seconds"
            ))),
        };
        let evict_after = evict_after_s.map(seconds).transpose()?;
        let node = self.node(node).await?;
        let why = why.into();
        self.ask(Ask::Drain {
            node,
            why,
            evict_after,
        })
        .await?;
        self.all_nodes().await
    }

    async fn resume(&self, request: Request<pb::ResumeRequest>) -> Answer<pb::NodesReply> {
        Object::of(&request, format!("node {}", request.get_ref().node));
        let id = self.node(request.into_inner().node).await?;
        self.ask(Ask::Resume(id)).await?;
        self.all_nodes().await
    }

    async fn offers(&self, request: Request<pb::OffersRequest>) -> Answer<pb::OffersReply> {
        let pb::OffersRequest {
            offer,
            price,
            reclaim,
        } = request.into_inner();
        if let Some(price) = price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return Err(Status::invalid_argument(format!(
                "price is {price}, expected a number of at least 0"
            )));
        }
        let change = price.is_some() || reclaim.is_some();
        match offer {
            Some(name) => {
                let none = Status::not_found(format!("there is no offer {name}"));
                let find = move |s: &Controller, _: Millis| {
                    let mut offers = s.view().cluster().offers();
                    let found = offers.find(|(_, offer)| offer.name.as_str() == name);
                    found.map(|(id, _)| id)
                };
                let offer = self.look(find).await?.ok_or(none)?;
                if let Some(price) = price {
                    self.ask(Ask::Price { offer, price }).await?;
                }
                if let Some(count) = reclaim {
                    self.ask(Ask::Reclaim { offer, count }).await?;
                }
            }
            None if change => return Err(Status::invalid_argument("offer is missing")),
            None => {}
        }
        let look = |s: &Controller, _: Millis| shown::offers(s);
        let offers = self.look(look).await?;
        Ok(Response::new(pb::OffersReply { offers }))
    }

    async fn remove(&self, request: Request<pb::RemoveRequest>) -> Answer<pb::NodesReply> {
        Object::of(&request, format!("node {}", request.get_ref().node));
        let id = self.node(request.into_inner().node).await?;
        self.ask(Ask::Remove(id)).await?;
        self.all_nodes().await
    }

    async fn down(&self, request: Request<pb::DownRequest>) -> Answer<pb::NodesReply> {
        let id = self.node(request.into_inner().node).await?;
        self.ask(Ask::Down(id)).await?;
        self.all_nodes().await
    }

    async fn stop(&self, request: Request<pb::StopRequest>) -> Answer<pb::StopReply> {
        let absence_s = request.into_inner().absence_s;
        let longest = LONGEST_ABSENCE.as_secs();
        if let Some(s) = absence_s.filter(|s| !(0.0..=longest).contains(s)) {
            return Err(Status::invalid_argument(format!(
                "absence_s is {s}, expected 0 to {longest} s"
            )));
        }
        let absence = absence_s.map(|s| Millis((s * 1000.0) as u64));
        let left = leave(&self.handle, absence).await;
        let (absence, unacknowledged) = left.map_err(|status| {
            let text = format!(
                "{}: the scheduler does not stop, since running jobs would end with their leases; --for 0 stops it all the same",
                status.message()
            );
            Status::new(status.code(), text)
        })?;
        let stopped = self.stopped.clone();
        tokio::spawn(async move {
            tokio::time::sleep(REPLY).await;
            // The scheduler may have ended.
            let _ = stopped.send(None).await;
        });
        let absence_s = absence.as_secs();
        Ok(Response::new(pb::StopReply {
            absence_s,
            unacknowledged,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::scheduler::Settings;
    use crate::protocol::{Epoch, Incarnation, PROTOCOL};
    use crate::shell::scheduler::{Limits, Watch, start};
    use blox_core::{Composition, NodeSpec, order::SortKey, policy::by_key};
    use blox_testing::FirstFit;
    use std::sync::Arc;

    /// Starts and serves a scheduler until the returned sender is dropped.
    async fn served(
        dir: &std::path::Path,
    ) -> (
        tokio::sync::oneshot::Sender<()>,
        tokio::task::JoinHandle<Result<(), SchedulerError>>,
        tonic::transport::Channel,
    ) {
        let fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap();
        let running = start(
            dir,
            Settings::default(),
            fifo,
            Limits::default(),
            Watch::default(),
        )
        .unwrap();
        let any = ([127, 0, 0, 1], 0).into();
        let listen = Listen::bind(any, None, Token::none()).await.unwrap();
        let (ready, at) = tokio::sync::oneshot::channel();
        let ready = move |at, _| ready.send(at).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let until = async { drop(stopped.await) };
        let served = tokio::spawn(serve(running, listen, ready, |_| {}, until));
        let url = format!("http://{}", at.await.unwrap());
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap();
        (stop, served, channel.connect().await.unwrap())
    }

    #[tokio::test]
    async fn scheduler_refuses_what_the_command_line_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let (stop, served, channel) = served(dir.path()).await;
        let mut client = pb::jobs_client::JobsClient::new(channel);
        let job = |grace_s| pb::SubmitRequest {
            key: "key".to_owned(),
            job: Some(pb::Job {
                command: vec!["true".to_owned()],
                gpus: 1,
                iterations: 1.0,
                rate: 1.0,
                grace_s,
                ..pb::Job::default()
            }),
        };
        let drain = |why: &str| pb::DrainRequest {
            node: "0".to_owned(),
            why: why.to_owned(),
            evict_after_s: None,
        };
        let none = client.submit(job(Some(0.0))).await.unwrap_err();
        let drained = client.drain(drain(" ")).await.unwrap_err();
        let unknown = client.drain(drain("a fan")).await.unwrap_err();
        let taken = client.submit(job(None)).await.map(|r| r.into_inner().job);
        drop(stop);
        served.await.unwrap().unwrap();
        let codes = [&none, &drained, &unknown].map(tonic::Status::code);
        let invalid = tonic::Code::InvalidArgument;
        assert_eq!(codes, [invalid, invalid, tonic::Code::NotFound]);
        assert_eq!(drained.message(), "why is empty, expected a reason");
        let grace = "grace_s is 0 s, expected above 0, and a day (86400 s) at most";
        assert_eq!(none.message(), grace);
        assert_eq!(taken.ok(), Some(0));
    }

    #[test]
    fn addresses_of_a_stopped_scheduler_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let (ready, at) = std::sync::mpsc::channel();
        let state = dir.path().to_owned();
        // The runtime ends with the scheduler, as in its process.
        let daemon = std::thread::spawn(move || {
            let fifo = Composition::new("fifo")
                .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let (settings, limits) = (Settings::default(), Limits::default());
            let running = start(&state, settings, fifo, limits, Watch::default()).unwrap();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let any = ([127, 0, 0, 1], 0).into();
            let listen = runtime.block_on(Listen::bind(any, Some(any), Token::none()));
            let ready = move |at, metrics| ready.send((at, metrics)).unwrap();
            let never = std::future::pending();
            runtime.block_on(serve(running, listen.unwrap(), ready, |_| {}, never))
        });
        let (at, metrics): (SocketAddr, Option<SocketAddr>) = at.recv().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let is_over = runtime.block_on(async {
            let text = at.to_string();
            let client = crate::client::Client::connect(&text, Token::none());
            let mut client = client.await.unwrap();
            assert!(!client.ended(Duration::from_millis(50)).await);
            client.stop(Some(Seconds::ZERO)).await.unwrap();
            client.ended(Duration::from_secs(60)).await
        });
        assert!(is_over);
        for address in [at, metrics.unwrap()] {
            std::net::TcpListener::bind(address).unwrap();
        }
        daemon.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn long_list_comes_in_pages() {
        let dir = tempfile::tempdir().unwrap();
        let (stop, served, channel) = served(dir.path()).await;
        let mut client = pb::jobs_client::JobsClient::new(channel);
        for number in 0..300 {
            let request = pb::SubmitRequest {
                key: number.to_string(),
                job: Some(pb::Job {
                    name: format!("{number:0100}"),
                    command: vec!["true".to_owned()],
                    gpus: 1,
                    iterations: 1.0,
                    rate: 1.0,
                    ..pb::Job::default()
                }),
            };
            client.submit(request).await.unwrap();
        }
        let mut request = pb::ListRequest {
            limit: 120,
            ..pb::ListRequest::default()
        };
        let (mut jobs, mut pages) = (Vec::new(), 0);
        loop {
            let page = client.list(request.clone()).await.unwrap().into_inner();
            jobs.extend(page.jobs.iter().map(|line| line.job));
            pages += 1;
            let Some(next) = page.next else { break };
            request.after = Some(next);
        }
        assert_eq!(jobs, (0..300).collect::<Vec<u32>>());
        assert_eq!(pages, 3);
        let few = pb::ListRequest {
            limit: 7,
            after: Some(4),
            ..pb::ListRequest::default()
        };
        let few = client.list(few).await.unwrap().into_inner();
        let numbers: Vec<u32> = few.jobs.iter().map(|line| line.job).collect();
        assert_eq!((numbers, few.next), ((5..12).collect(), Some(11)));
        drop(stop);
        served.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn health_is_not_serving_while_the_log_has_no_room() {
        use tonic_health::pb::HealthCheckRequest;
        use tonic_health::pb::health_check_response::ServingStatus;
        use tonic_health::pb::health_client::HealthClient;
        let dir = tempfile::tempdir().unwrap();
        let (stop, served, channel) = served(dir.path()).await;
        let mut health = HealthClient::new(channel.clone());
        let mut until = async |wanted: ServingStatus| {
            for _ in 0..100 {
                let asked = health.check(HealthCheckRequest::default()).await;
                if asked.is_ok_and(|r| r.into_inner().status() == wanted) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            panic!("never {wanted:?}");
        };
        until(ServingStatus::Serving).await;
        let full = dir.path().join(crate::log::FULL);
        std::fs::write(&full, "").unwrap();
        let mut jobs = pb::jobs_client::JobsClient::new(channel);
        let job = pb::Job {
            command: vec!["true".to_owned()],
            gpus: 1,
            iterations: 1.0,
            rate: 1.0,
            ..pb::Job::default()
        };
        let request = pb::SubmitRequest {
            key: "k".to_owned(),
            job: Some(job),
        };
        let refused = jobs.submit(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        until(ServingStatus::NotServing).await;
        std::fs::remove_file(full).unwrap();
        until(ServingStatus::Serving).await;
        drop(stop);
        served.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn report_of_another_protocol_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (stop, served, channel) = served(dir.path()).await;
        let mut client = pb::node_link_client::NodeLinkClient::new(channel);
        let report = pb::Report {
            json: br#"{"protocol":9}"#.to_vec(),
        };
        let orders = client.link(tokio_stream::once(report)).await;
        let refused = orders.unwrap().into_inner().message().await.unwrap_err();
        drop(stop);
        served.await.unwrap().unwrap();
        assert_eq!(
            refused.message(),
            "the sender's protocol version is 9 and that of the receiver 2, expected a difference of 1 at most: upgrade one version at a time"
        );
    }

    #[tokio::test]
    async fn unreadable_report_is_answered_with_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (stop, served, channel) = served(dir.path()).await;
        let mut client = pb::node_link_client::NodeLinkClient::new(channel);
        let (tx, rx) = mpsc::channel(4);
        let good = Report {
            protocol: PROTOCOL,
            absence: None,
            node: "n".into(),
            boot: "b".into(),
            session: Session(0),
            seq: 1,
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            offer: Arc::new(NodeSpec::with_gpus(1)),
            address: "a".into(),
            attempts: Vec::new(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        };
        tx.send((&good).into()).await.unwrap();
        let orders = client.link(ReceiverStream::new(rx)).await;
        let mut orders = orders.unwrap().into_inner();
        assert!(orders.message().await.unwrap().is_some());
        tx.send(pb::Report::default()).await.unwrap();
        let end = async {
            loop {
                match orders.message().await {
                    Ok(Some(_)) => {}
                    end => return end,
                }
            }
        };
        let end = tokio::time::timeout(Duration::from_secs(5), end).await;
        drop(stop);
        served.await.unwrap().unwrap();
        let status = end.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        let unreadable = "report is unreadable (EOF while parsing a value at line 1 column 0), \
            expected JSON of a program of this version";
        assert_eq!(status.message(), unreadable);
    }
}
