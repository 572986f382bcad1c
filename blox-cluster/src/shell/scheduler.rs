//! The scheduler process: one thread for the state machine and its log, one for the policy, and the
//! network runtime.

use super::archive::Archive;
use super::record::{self, Asks, Ended};
use super::waits::Waits;
use super::{clock, provider};
use crate::daemon::{
    Composed, Counters, Daemon, FromPolicy, Outputs, PolicyReplica, Start, TICK, ToPolicy,
};
pub use crate::daemon::{Earlier, Limits, SchedulerError};
use crate::history::HISTORY_FILE;
use crate::log::{Log, LogError, Recovered};
use crate::protocol::launches::Past;
use crate::protocol::scheduler::{Controller, ControllerInput, RequestError, Settings};
use crate::protocol::{ClusterId, Millis, NodeRequest, Orders, Session};
use crate::provider::NodeProvider;
use crate::wire::pb;
use blox_core::core::Core;
use blox_core::forecast::Forecaster;
use blox_core::runtime::{Follower, Observers};
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    AdmissionDecision, Event, Input, JobId, MemoryError, Name, Pipeline, Scheduler, State, Time,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{mpsc as channel, oneshot};

/// Maximum number of steps in one synchronization.
const GROUP: usize = 256;
/// Longest wait for the last snapshot of a scheduler that stops in order.
const LAST_SNAPSHOT: Millis = Millis(5_000);

/// Message to the scheduler's thread.
pub(super) enum Message {
    /// Input from a node, a user, the policy or the provider, with the channel for its reply.
    Input(Box<ControllerInput>, Option<Reply>),
    /// A node manager's session has opened a stream.
    Linked(Name, Session, ToNode),
    /// A message for the operator.
    Notice(String),
    /// A read-only access to the state.
    Look(Look),
    /// The current snapshot is complete or has failed.
    Compacted,
    /// Shut down.
    Stop,
}

/// Stream of orders to a node.
pub(super) type ToNode = channel::Sender<Result<pb::Orders, tonic::Status>>;

/// Function that reads the state.
pub(super) type Look = Box<dyn FnOnce(&Controller, Millis) + Send>;

/// Message to the policy's thread.
pub(super) enum ToReplica {
    /// A message of the daemon.
    Message(ToPolicy),
    /// A read-only access to core and policy.
    Look(LookAtReplica),
}

/// Function that reads core and policy.
pub(super) type LookAtReplica = Box<dyn FnOnce(&Follower) + Send>;

/// Channel for the reply to an input.
pub(super) type Reply = oneshot::Sender<Result<JobId, RequestError>>;

/// Handle of a running scheduler.
#[derive(Clone)]
pub struct Handle {
    pub(super) to: mpsc::Sender<Message>,
    pub(super) counters: Arc<Counters>,
    pub(super) archive: Archive,
    pub(super) history: PathBuf,
    pub(super) waits: Arc<Waits>,
    pub(super) to_policy: mpsc::Sender<ToReplica>,
}

impl Handle {
    /// Returns copies of state and policy, once the policy has answered earlier questions.
    pub(super) async fn copies(&self) -> Option<(State, Box<dyn Scheduler>)> {
        let (tx, rx) = oneshot::channel();
        let look = move |follower: &Follower| {
            let state = follower.core().state().clone();
            let policy = follower.copy_of_scheduler();
            // The reader may have gone.
            let _ = tx.send((state, policy));
        };
        let look = ToReplica::Look(Box::new(look));
        self.to_policy.send(look).ok()?;
        rx.await.ok()
    }

    /// Sends an input. The reply arrives once the records of the step are on disk.
    pub(super) async fn request(
        &self,
        input: ControllerInput,
    ) -> Option<Result<JobId, RequestError>> {
        self.send(input)?.await.ok()
    }

    /// Sends an input and returns the channel of its reply.
    pub(super) fn send(
        &self,
        input: ControllerInput,
    ) -> Option<oneshot::Receiver<Result<JobId, RequestError>>> {
        let (tx, rx) = oneshot::channel();
        let message = Message::Input(Box::new(input), Some(tx));
        self.to.send(message).ok()?;
        Some(rx)
    }

    /// Reads the scheduler's state.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Controller, Millis) -> T + Send + 'static,
    ) -> Option<T> {
        let (tx, rx) = oneshot::channel();
        let look = move |s: &Controller, now: Millis| drop(tx.send(f(s, now)));
        self.to.send(Message::Look(Box::new(look))).ok()?;
        rx.await.ok()
    }

    /// Reads a job from the archive.
    pub(super) async fn archived(&self, job: JobId) -> Result<Option<Past>, tonic::Status> {
        self.in_archive(move |archive| archive.find(job)).await
    }

    /// Reads a job of an array from the archive.
    pub(super) async fn archived_in_array(
        &self,
        array: JobId,
        index: u32,
    ) -> Result<Option<Past>, tonic::Status> {
        let find = move |archive: &Archive| archive.find_in_array(array, index);
        self.in_archive(find).await
    }

    async fn in_archive(
        &self,
        find: impl FnOnce(&Archive) -> std::io::Result<Option<Past>> + Send + 'static,
    ) -> Result<Option<Past>, tonic::Status> {
        let archive = self.archive.clone();
        let found = tokio::task::spawn_blocking(move || find(&archive)).await;
        let failed = |why: String| tonic::Status::internal(format!("the archive: {why}"));
        let found = found.map_err(|e| failed(e.to_string()))?;
        found.map_err(|e| failed(e.to_string()))
    }

    /// Returns the error for a missing answer.
    pub(super) fn gone(&self) -> tonic::Status {
        match self.counters.why_no_room() {
            Some(why) => tonic::Status::resource_exhausted(why),
            None => tonic::Status::unavailable("the scheduler is stopping"),
        }
    }

    /// Stops the scheduler.
    pub fn stop(&self) {
        // The scheduler may already have stopped.
        let _ = self.to.send(Message::Stop);
    }
}

/// A running scheduler.
pub struct Running {
    /// The handle.
    pub handle: Handle,
    /// Messages for the operator, such as nodes that join or are lost.
    pub notices: channel::UnboundedReceiver<String>,
    /// Forecasts starts and ends of jobs, if set.
    pub forecaster: Option<Arc<dyn Forecaster>>,
    /// Its thread. It ends after a stop request or a disk error.
    pub thread: std::thread::JoinHandle<Result<(), SchedulerError>>,
}

/// Starts a scheduler with the log in `dir`, observed by `watch`, and with a provider of nodes. The
/// requests wait for no other thread. `earlier` creates schedulers that decided before.
///
/// # Errors
/// The log cannot be used, or the scheduler could never run a live job. The cluster manager
/// uses actions that the provider cannot carry out.
pub fn start_with(
    dir: &Path,
    settings: Settings,
    pipeline: Pipeline,
    limits: Limits,
    watch: Watch,
    nodes: Arc<dyn NodeProvider>,
    earlier: Earlier<'_>,
) -> Result<Running, SchedulerError> {
    check_actions(&pipeline, &*nodes)?;
    let opened = Log::open(dir)?;
    let by = (pipeline, earlier);
    start_on(dir, opened, settings, by, limits, watch, nodes)
}

/// Starts a scheduler with an open log.
fn start_on(
    dir: &Path,
    (log, recovered): (Log, Recovered),
    settings: Settings,
    (pipeline, earlier): (Pipeline, Earlier<'_>),
    limits: Limits,
    watch: Watch,
    nodes: Arc<dyn NodeProvider>,
) -> Result<Running, SchedulerError> {
    let trigger = pipeline.trigger();
    let composed = Composed {
        trigger: trigger.clone(),
        feasibility: Some(pipeline.feasibility()),
        scheduler: Box::new(pipeline.awaiting_growth(settings.keeps_large)),
    };
    let wall = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    let node_limits = settings.limits;
    let begin = Start {
        settings,
        limits,
        cluster: new_cluster()?,
        now: clock::now(),
        at: Time::new(wall.as_secs_f64()),
    };
    let (to, from) = mpsc::channel();
    let (to_policy, for_policy) = mpsc::channel();
    let (notices, for_people) = channel::unbounded_channel();
    let archive = Archive::in_dir(dir);
    let waits = Arc::new(Waits::default());
    let answers = to.clone();
    let answer = move |id, result| {
        let input = Box::new(ControllerInput::Provided(id, result));
        // The scheduler may have stopped.
        let _ = answers.send(Message::Input(input, None));
    };
    let to_provider = provider::start(nodes, node_limits, answer).map_err(|error| {
        let path = dir.to_owned();
        LogError::Io { path, error }
    })?;
    let outputs = |replica: &PolicyReplica| {
        Ok(Channels {
            notices,
            links: BTreeMap::new(),
            to_provider,
            to_policy: to_policy.clone(),
            to_watcher: watch.begin(replica, to.clone(), trigger)?,
            archive: archive.clone(),
            to_history: record::start(dir, archive.clone(), waits.clone(), asks(&to)),
        })
    };
    let (daemon, replica) = Daemon::begin_after(log, recovered, composed, earlier, begin, outputs)?;
    let answers = to.clone();
    std::thread::spawn(move || policy(replica, &for_policy, &answers));
    let counters = Arc::clone(daemon.counters());
    let thread = std::thread::spawn(move || serve(daemon, &from));
    Ok(Running {
        handle: Handle {
            to,
            counters,
            archive,
            history: dir.join(HISTORY_FILE),
            waits,
            to_policy,
        },
        notices: for_people,
        forecaster: None,
        thread,
    })
}

/// Checks that a provider can carry out the node actions of a scheduler.
///
/// # Errors
/// The first action that it cannot carry out.
pub fn check_actions(pipeline: &Pipeline, nodes: &dyn NodeProvider) -> Result<(), SchedulerError> {
    let name = || pipeline.name().to_owned();
    match pipeline.actions().beyond(nodes.can()).next() {
        Some(action) => Err(SchedulerError::CannotAct {
            name: name(),
            action,
        }),
        None => Ok(()),
    }
}

/// Returns the requests of the thread of the history.
fn asks(to: &mpsc::Sender<Message>) -> Asks {
    let (looks, notices) = (to.clone(), to.clone());
    // The scheduler may have stopped.
    Asks {
        look: Box::new(move |look| drop(looks.send(Message::Look(look)))),
        notice: Box::new(move |text| drop(notices.send(Message::Notice(text)))),
    }
}

/// Receives the observers and the final state of the core.
pub type Finish = Box<dyn FnOnce(Observers, &Core) + Send>;

/// Collectors and journal of a scheduler. They run in their own thread, so the scheduler does not
/// wait for them.
#[derive(Default)]
pub struct Watch {
    /// Collectors, which receive every event and decision from this start on.
    pub observers: Observers,
    /// Called at the end with the observers.
    pub finish: Option<Finish>,
}

impl Watch {
    /// Starts the observers at the state of `replica`. Returns `None` if there are none.
    fn begin(
        mut self,
        replica: &PolicyReplica,
        notices: mpsc::Sender<Message>,
        trigger: Box<dyn DecisionTrigger>,
    ) -> Result<Option<mpsc::Sender<Arc<Input>>>, MemoryError> {
        if self.observers.is_empty() {
            return Ok(None);
        }
        let follower = replica.follower();
        self.observers
            .start(follower.core(), follower.scheduler())?;
        let saved = follower.core().save();
        let mut core = Core::restore(saved, trigger);
        let (mut observers, finish) = (self.observers, self.finish);
        let (to, inputs) = mpsc::channel::<Arc<Input>>();
        std::thread::spawn(move || {
            let mut commands = Vec::new();
            let mut broken = false;
            while let Ok(input) = inputs.recv() {
                // The copy accepts every input that the core has accepted.
                let _ = observers.handle(&mut core, &mut [], &input, &mut commands);
                commands.clear();
                if let Err(why) = observers.flush_journal()
                    && !std::mem::replace(&mut broken, true)
                {
                    let text = format!("the journal ends before this input: {why}");
                    // The scheduler may be stopping.
                    let _ = notices.send(Message::Notice(text));
                }
            }
            if let Some(finish) = finish {
                finish(observers, &core);
            }
        });
        Ok(Some(to))
    }
}

/// Returns a unique cluster id of 128 random bits.
fn new_cluster() -> Result<ClusterId, LogError> {
    let path = Path::new("/dev/urandom");
    let mut bits = [0; 16];
    let read = File::open(path).and_then(|mut f| f.read_exact(&mut bits));
    read.map_err(|error| LogError::Io {
        path: path.to_owned(),
        error,
    })?;
    Ok(ClusterId(
        format!("{:032x}", u128::from_le_bytes(bits)).into(),
    ))
}

/// The policy's thread. The scheduler does not wait for it.
fn policy(
    mut replica: PolicyReplica,
    inputs: &mpsc::Receiver<ToReplica>,
    answers: &mpsc::Sender<Message>,
) {
    while let Ok(message) = inputs.recv() {
        let message = match message {
            ToReplica::Message(message) => message,
            ToReplica::Look(look) => {
                look(replica.follower());
                continue;
            }
        };
        replica.handle(message, |result| {
            // The scheduler may have stopped.
            let _ = match result {
                FromPolicy::Answer(question, answer) => {
                    let input = Box::new(ControllerInput::Answer(question, answer));
                    answers.send(Message::Input(input, None))
                }
                FromPolicy::Notice(text) => answers.send(Message::Notice(text)),
                FromPolicy::Snapshot(snapshot) => {
                    let answers = answers.clone();
                    std::thread::spawn(move || {
                        snapshot.write();
                        let _ = answers.send(Message::Compacted);
                    });
                    Ok(())
                }
            };
        });
    }
}

/// The channels to nodes, users, the policy and the operator. A receiver may have been dropped at
/// any time: nodes link again, users repeat their requests, and the decisions of a policy that has
/// ended are skipped.
struct Channels {
    notices: channel::UnboundedSender<String>,
    links: BTreeMap<Name, (Session, ToNode)>,
    to_provider: channel::UnboundedSender<NodeRequest>,
    to_policy: mpsc::Sender<ToReplica>,
    to_watcher: Option<mpsc::Sender<Arc<Input>>>,
    archive: Archive,
    to_history: mpsc::Sender<Ended>,
}

impl Channels {
    fn link(&mut self, node: Name, session: Session, orders: ToNode) {
        // An old copy of a node's state must not take over its orders.
        let later = |(known, _): &(Session, ToNode)| *known > session;
        if !self.links.get(&node).is_some_and(later) {
            self.links.insert(node, (session, orders));
        }
    }
}

impl Outputs for Channels {
    type Sender = Reply;

    fn reply(&mut self, to: Reply, reply: Result<JobId, RequestError>) {
        let _ = to.send(reply);
    }

    fn send(&mut self, orders: &Orders) {
        if let Some((_, link)) = self.links.get(&orders.node) {
            // The next orders replace orders that do not fit into the channel.
            let _ = link.try_send(Ok(orders.into()));
        }
    }

    fn provide(&mut self, request: NodeRequest) {
        let _ = self.to_provider.send(request);
    }

    fn policy(&mut self, message: ToPolicy) {
        let _ = self.to_policy.send(ToReplica::Message(message));
    }

    fn observe(&mut self, input: &Arc<Input>) {
        match &**input {
            Input::Event {
                event: Event::Ended { job, .. },
                ..
            } => drop(self.to_history.send(Ended::Now(*job))),
            Input::Event {
                at,
                event: Event::Started { job, .. },
            } => drop(self.to_history.send(Ended::Started(*job, *at))),
            Input::Decided { decision, .. } => {
                for (job, admission) in decision.admissions.iter() {
                    if matches!(admission, AdmissionDecision::Reject(_)) {
                        let _ = self.to_history.send(Ended::Now(*job));
                    }
                }
            }
            _ => {}
        }
        if let Some(watcher) = &self.to_watcher {
            let _ = watcher.send(Arc::clone(input));
        }
    }

    fn notice(&mut self, text: String) {
        let _ = self.notices.send(text);
    }

    fn archive(&mut self, jobs: &[Past]) -> std::io::Result<()> {
        self.archive.add(jobs)?;
        let _ = self.to_history.send(Ended::Archived(jobs.to_vec()));
        Ok(())
    }

    fn clock_us(&self) -> u64 {
        clock::now_us()
    }
}

/// The scheduler's thread: passes messages to the daemon until it is stopped.
fn serve(
    mut daemon: Daemon<Channels>,
    from: &mpsc::Receiver<Message>,
) -> Result<(), SchedulerError> {
    loop {
        let mut next = match from.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let mut looks = Vec::new();
        let mut stop = false;
        // All waiting messages are written in one synchronization.
        while let Some(message) = next {
            match message {
                Message::Stop => {
                    stop = true;
                    break;
                }
                Message::Input(input, reply) => daemon.step(clock::now(), *input, reply)?,
                Message::Linked(node, session, orders) => {
                    daemon.outputs().link(node, session, orders);
                }
                Message::Look(look) => looks.push(look),
                Message::Notice(text) => daemon.outputs().notice(text),
                Message::Compacted => daemon.compacted(),
            }
            if daemon.waiting() >= GROUP {
                break;
            }
            next = from.try_recv().ok();
        }
        if !stop {
            daemon.tick(clock::now())?;
        }
        daemon.flush(clock::now())?;
        if stop {
            return close(daemon, from);
        }
        // A state that is not on disk cannot be read.
        if let Some(machine) = daemon.written() {
            for look in looks {
                look(machine, clock::now());
            }
        }
    }
}

/// Writes a snapshot before the scheduler ends. A policy that is still deciding may take too long: then
/// the next start repeats the decisions since the last snapshot.
fn close(
    mut daemon: Daemon<Channels>,
    from: &mpsc::Receiver<Message>,
) -> Result<(), SchedulerError> {
    let until = clock::now() + LAST_SNAPSHOT;
    while daemon.close(clock::now())? {
        // Requests have no answer any more.
        loop {
            let left = Duration::from_millis((until - clock::now()).0);
            match from.recv_timeout(left) {
                Ok(Message::Compacted) => break,
                Ok(Message::Notice(text)) => daemon.outputs().notice(text),
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
        daemon.compacted();
    }
    Ok(())
}

/// Starts a scheduler on nodes that join and leave by themselves.
#[cfg(test)]
pub(super) fn start(
    dir: &Path,
    settings: Settings,
    pipeline: Pipeline,
    limits: Limits,
    watch: Watch,
) -> Result<Running, SchedulerError> {
    let nodes = provider::Programs::new(None, None, dir.join("requests"));
    let nodes = Arc::new(nodes);
    start_with(dir, settings, pipeline, limits, watch, nodes, &|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{FULL, FileHandle, Files, SystemFiles};
    use crate::protocol::scheduler::Request;
    use crate::protocol::{Epoch, Incarnation, PROTOCOL, Report};
    use blox_core::journal::JsonLines;
    use blox_core::replay::replay;
    use blox_core::{
        Answer, Composition, Event, GpuCount, JobQueue, JobSpec, NodeSpec, Policy, PolicyError,
        SchedulingPolicy, Seconds, State, Stateless, Validity, View, order::SortKey,
        policy::by_key,
    };
    use blox_testing::FirstFit;
    use std::io;
    use std::sync::atomic::Ordering;
    use std::sync::{Condvar, Mutex};

    /// Signals each query, and answers when it is permitted to.
    #[derive(Clone)]
    struct Slow(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

    impl Stateless for Slow {}

    impl SchedulingPolicy for Slow {
        fn schedule(&self, (): &mut (), _: View<'_>, _: &mut JobQueue) -> Answer {
            let _ = self.0.send(());
            let _ = self.1.lock().map(|go| go.recv());
            Ok(Validity::NextRound)
        }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let by = clock::now() + Millis(10_000);
        while !holds() {
            assert!(clock::now() < by, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn policy_still_deciding_is_not_called_again() {
        let dir = tempfile::tempdir().unwrap();
        let ((begins, begun), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let slow = Composition::new("slow")
            .in_rounds(Seconds::new(1.0))
            .scheduling(Slow(begins, Arc::new(Mutex::new(gone))))
            .placement(FirstFit)
            .build()
            .unwrap();
        let settings = Settings {
            wait_for_nodes: 0,
            speed: 100.0,
            ..Settings::default()
        };
        let limits = Limits {
            policy: Duration::from_millis(50),
            ..Limits::default()
        };
        let running = start(dir.path(), settings, slow, limits, Watch::default()).unwrap();
        let submit = Request::Submit {
            key: "key".into(),
            spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
        };
        let submit = Message::Input(Box::new(ControllerInput::Request(submit)), None);
        running.handle.to.send(submit).unwrap();
        begun.recv_timeout(Duration::from_secs(10)).unwrap();
        let counters = &running.handle.counters;
        let late = || counters.unanswered.load(Ordering::Relaxed);
        let asked = || counters.asked.load(Ordering::Relaxed);
        until("its turn is lost", || late() == 1);
        let before = asked();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!((asked(), late()), (before, 1));
        // When it answers, the next query follows immediately.
        go.send(()).unwrap();
        begun.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(asked(), before + 1);
        running.handle.stop();
        running.thread.join().unwrap().unwrap();
    }

    /// Orders jobs by submission, unless its file cannot be read.
    #[derive(Clone)]
    struct FromFile(Arc<std::sync::atomic::AtomicBool>);

    impl Stateless for FromFile {}

    impl SchedulingPolicy for FromFile {
        fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
            if !self.0.load(Ordering::Relaxed) {
                return Err(PolicyError::new("order.txt is missing"));
            }
            view.active()
                .for_each(|job| out.push(blox_core::Request::gang(&job)));
            Ok(Validity::NextRound)
        }
    }

    #[test]
    fn policy_without_an_answer_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let readable = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let policy = Composition::new("from-file")
            .in_rounds(Seconds::new(1.0))
            .scheduling(FromFile(Arc::clone(&readable)))
            .placement(FirstFit)
            .build()
            .unwrap();
        let settings = Settings {
            wait_for_nodes: 0,
            speed: 100.0,
            ..Settings::default()
        };
        let limits = Limits::default();
        let mut running = start(dir.path(), settings, policy, limits, Watch::default()).unwrap();
        let submit = |key: &str| {
            let (tx, rx) = oneshot::channel();
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let key = key.into();
            let input = Box::new(ControllerInput::Request(Request::Submit { key, spec }));
            let submit = Message::Input(input, Some(tx));
            running.handle.to.send(submit).unwrap();
            rx.blocking_recv().unwrap()
        };
        assert_eq!(submit("a"), Ok(JobId(0)));
        let notice = running.notices.blocking_recv().unwrap();
        let failed = "policy `from-file` failed: order.txt is missing";
        assert_eq!(
            notice,
            format!("no decision, and jobs keep their GPUs: {failed}")
        );
        // The scheduler serves requests, and asks again.
        assert_eq!(submit("b"), Ok(JobId(1)));
        readable.store(true, Ordering::Relaxed);
        let failed = || running.handle.counters.unanswered.load(Ordering::Relaxed);
        let asked = || running.handle.counters.asked.load(Ordering::Relaxed);
        // One question may be open.
        until("it decides again", || asked() > failed() + 2);
        running.handle.stop();
        running.thread.join().unwrap().unwrap();
    }

    #[test]
    fn full_log_delays_answers_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = || {
            let fifo = Composition::new("fifo").in_rounds(Seconds::new(1.0));
            let by_submission = by_key(|j| SortKey::by(j.submit().secs())).valid_until_event();
            let fifo = fifo.scheduling(by_submission).placement(FirstFit);
            fifo.build().unwrap()
        };
        let begin = || {
            start(
                dir.path(),
                Settings::default(),
                fifo(),
                Limits::default(),
                Watch::default(),
            )
            .unwrap()
        };
        let Running {
            handle,
            mut notices,
            thread,
            ..
        } = begin();
        let submit = |handle: &Handle, key: &str| {
            let submit = Request::Submit {
                key: key.into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            let (tx, rx) = oneshot::channel();
            let input = Box::new(ControllerInput::Request(submit));
            handle.to.send(Message::Input(input, Some(tx))).unwrap();
            rx
        };
        let look = |handle: &Handle| {
            let (tx, rx) = oneshot::channel();
            let look = move |s: &Controller, _: Millis| {
                let _ = tx.send(s.core().state().next_job_id());
            };
            handle.to.send(Message::Look(Box::new(look))).unwrap();
            rx.blocking_recv().ok()
        };
        let full = dir.path().join(FULL);
        assert_eq!(submit(&handle, "a").blocking_recv(), Ok(Ok(JobId(0))));
        std::fs::write(&full, "").unwrap();
        // The requester receives an error because nothing is on disk yet.
        assert!(submit(&handle, "b").blocking_recv().is_err());
        assert!(handle.counters.why_no_room().is_some());
        // No other request is accepted, and state that is not on disk is not visible.
        assert!(submit(&handle, "c").blocking_recv().is_err());
        assert_eq!(
            (look(&handle), handle.gone().code()),
            (None, tonic::Code::ResourceExhausted)
        );
        std::thread::sleep(Duration::from_millis(500));
        std::fs::remove_file(&full).unwrap();
        // The job is now in the log. A repeated submission returns the same job.
        until("it is over", || look(&handle) == Some(JobId(2)));
        assert_eq!(submit(&handle, "b").blocking_recv(), Ok(Ok(JobId(1))));
        assert_eq!(handle.counters.why_no_room(), None);
        let texts: Vec<String> = std::iter::from_fn(|| notices.try_recv().ok()).collect();
        assert!(texts[0].contains("free space for the log"), "{texts:?}");
        assert_eq!((texts.len(), &*texts[1]), (2, "the log has room again"));
        // The scheduler can be stopped meanwhile.
        std::fs::write(&full, "").unwrap();
        let lost = submit(&handle, "d");
        until("it says so", || handle.counters.why_no_room().is_some());
        handle.stop();
        thread.join().unwrap().unwrap();
        assert!(lost.blocking_recv().is_err());
        let refused = start(
            dir.path(),
            Settings::default(),
            fifo(),
            Limits::default(),
            Watch::default(),
        );
        let why = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("free space for the log"), "{why}");
        std::fs::remove_file(&full).unwrap();
        let again = begin();
        assert_eq!(look(&again.handle), Some(JobId(2)));
        again.handle.stop();
        again.thread.join().unwrap().unwrap();
    }

    /// Files of the operating system, whose synchronizations wait until they are let through.
    #[derive(Clone, Debug, Default)]
    struct Gate(Arc<(Mutex<Passes>, Condvar)>);

    /// Numbers of synchronizations.
    #[derive(Debug, Default)]
    struct Passes {
        begun: u64,
        allowed: u64,
    }

    impl Gate {
        fn allow(&self, more: u64) {
            let mut passes = self.0.0.lock().unwrap();
            passes.allowed = passes.allowed.saturating_add(more);
            self.0.1.notify_all();
        }

        /// Lets no further synchronization through.
        fn close(&self) {
            let mut passes = self.0.0.lock().unwrap();
            passes.allowed = passes.begun;
        }

        /// Waits until a synchronization waits.
        fn wait(&self) {
            let passes = self.0.0.lock().unwrap();
            let goes = |p: &mut Passes| p.begun <= p.allowed;
            let limit = Duration::from_secs(10);
            let waited = self.0.1.wait_timeout_while(passes, limit, goes).unwrap();
            assert!(!waited.1.timed_out(), "no synchronization waits");
        }

        fn guarded(&self, file: Box<dyn FileHandle>) -> Box<dyn FileHandle> {
            Box::new(Guarded(self.clone(), file))
        }
    }

    impl Files for Gate {
        fn create_dir(&self, dir: &Path) -> io::Result<()> {
            SystemFiles.create_dir(dir)
        }

        fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
            SystemFiles.list(dir)
        }

        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            SystemFiles.read(path)
        }

        fn create(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
            Ok(self.guarded(SystemFiles.create(path)?))
        }

        fn open(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
            Ok(self.guarded(SystemFiles.open(path)?))
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            SystemFiles.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            SystemFiles.remove(path)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            SystemFiles.sync_dir(dir)
        }
    }

    #[derive(Debug)]
    struct Guarded(Gate, Box<dyn FileHandle>);

    impl FileHandle for Guarded {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.1.append(bytes)
        }

        fn set_len(&mut self, len: u64) -> io::Result<()> {
            self.1.set_len(len)
        }

        fn sync(&mut self) -> io::Result<()> {
            let (passes, changed) = &*self.0.0;
            let mut passes = passes.lock().unwrap();
            passes.begun += 1;
            let number = passes.begun;
            changed.notify_all();
            drop(changed.wait_while(passes, |p| p.allowed < number).unwrap());
            self.1.sync()
        }
    }

    fn report_of(node: &str) -> Report {
        Report {
            protocol: PROTOCOL,
            absence: None,
            node: node.into(),
            boot: "boot".into(),
            session: Session(1),
            seq: 1,
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            offer: Arc::new(NodeSpec::with_gpus(1)),
            address: "localhost".into(),
            attempts: Vec::new(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        }
    }

    #[test]
    fn nothing_leaves_before_its_record_is_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::default();
        gate.allow(1_000);
        let opened = Log::open_in(Arc::new(gate.clone()), dir.path()).unwrap();
        let nodes = provider::Programs::new(None, None, dir.path().join("requests"));
        let Running {
            handle,
            mut notices,
            thread,
            ..
        } = start_on(
            dir.path(),
            opened,
            Settings::default(),
            (fifo(), &|_| None),
            Limits::default(),
            Watch::default(),
            Arc::new(nodes),
        )
        .unwrap();
        let (to_node, mut orders) = channel::channel(4);
        let link = Message::Linked("k".into(), Session(1), to_node);
        handle.to.send(link).unwrap();
        let submit = |key: &str| {
            let (tx, reply) = oneshot::channel();
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let key = key.into();
            let input = Box::new(ControllerInput::Request(Request::Submit { key, spec }));
            handle.to.send(Message::Input(input, Some(tx))).unwrap();
            reply
        };
        gate.close();
        let first = submit("first");
        gate.wait();
        // These are taken in together, once the synchronization of the first job is over.
        let report = Box::new(ControllerInput::Report(report_of("k")));
        handle.to.send(Message::Input(report, None)).unwrap();
        let mut second = submit("second");
        let (tx, mut seen) = oneshot::channel();
        let look = move |s: &Controller, _: Millis| {
            let _ = tx.send(s.core().state().next_job_id());
        };
        handle.to.send(Message::Look(Box::new(look))).unwrap();
        gate.allow(1);
        gate.wait();
        std::thread::sleep(Duration::from_millis(200));
        assert!(second.try_recv().is_err(), "a job was acknowledged");
        assert!(orders.try_recv().is_err(), "orders left");
        assert!(seen.try_recv().is_err(), "a state was shown");
        assert!(notices.try_recv().is_err(), "a notice was shown");
        gate.allow(u64::MAX);
        assert_eq!(first.blocking_recv(), Ok(Ok(JobId(0))));
        assert_eq!(second.blocking_recv(), Ok(Ok(JobId(1))));
        assert_eq!(seen.blocking_recv(), Ok(JobId(2)));
        assert!(orders.blocking_recv().unwrap().is_ok());
        assert!(notices.blocking_recv().unwrap().contains("has joined"));
        handle.stop();
        thread.join().unwrap().unwrap();
    }

    fn fifo() -> Pipeline {
        Composition::new("fifo")
            .in_rounds(Seconds::new(1.0))
            .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    fn fifo_scheduler(dir: &Path) -> Running {
        let (settings, limits) = (Settings::default(), Limits::default());
        start(dir, settings, fifo(), limits, Watch::default()).unwrap()
    }

    fn received(orders: Option<Result<pb::Orders, tonic::Status>>) -> Orders {
        serde_json::from_slice(&orders.unwrap().unwrap().json).unwrap()
    }

    #[test]
    fn earlier_session_does_not_take_over_the_orders() {
        let dir = tempfile::tempdir().unwrap();
        let Running { handle, thread, .. } = fifo_scheduler(dir.path());
        let (to_node, mut orders) = channel::channel(4);
        let (to_copy, mut others) = channel::channel(4);
        for (session, link) in [(2, to_node), (1, to_copy)] {
            let link = Message::Linked("k".into(), Session(session), link);
            handle.to.send(link).unwrap();
        }
        let report = Report {
            session: Session(2),
            ..report_of("k")
        };
        let report = Box::new(ControllerInput::Report(report));
        handle.to.send(Message::Input(report, None)).unwrap();
        let came = (0..100).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            orders.try_recv().ok()
        });
        assert!(came.is_some());
        assert!(others.try_recv().is_err());
        handle.stop();
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn full_log_renews_the_leases_of_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let Running { handle, thread, .. } = fifo_scheduler(dir.path());
        let (to_node, mut orders) = channel::channel(4);
        let link = Message::Linked("k".into(), Session(1), to_node);
        handle.to.send(link).unwrap();
        let send = |report| {
            let report = Box::new(ControllerInput::Report(report));
            handle.to.send(Message::Input(report, None)).unwrap();
        };
        send(report_of("k"));
        let first = received(orders.blocking_recv());
        std::fs::write(dir.path().join(FULL), "").unwrap();
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
        let key = "key".into();
        let submit = Box::new(ControllerInput::Request(Request::Submit { key, spec }));
        handle.to.send(Message::Input(submit, None)).unwrap();
        until("it has no room", || handle.counters.why_no_room().is_some());
        send(Report {
            seq: 2,
            cluster: Some(first.cluster),
            epoch: first.epoch,
            incarnation: first.incarnation,
            ..report_of("k")
        });
        let renewed = (0..100).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            orders.try_recv().ok()
        });
        assert_eq!(received(renewed).reply_to, 2);
        handle.stop();
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn full_journal_and_failing_policy_are_reported_once() {
        struct Full;
        impl std::io::Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("no space"))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        /// Panics at each submission.
        struct Panicking;
        impl Policy for Panicking {
            type Memory = u32;
            fn initial(&self, _: u64) -> u32 {
                0
            }
            fn on_event(&self, _: &mut u32, _: View<'_>, event: &Event) {
                assert!(!matches!(event, Event::Submitted { .. }), "a submission");
            }
        }
        impl SchedulingPolicy for Panicking {
            fn schedule(&self, _: &mut u32, _: View<'_>, _: &mut JobQueue) -> Answer {
                Ok(Validity::NextRound)
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let policy = Composition::new("panicking")
            .scheduling(Panicking)
            .placement(FirstFit)
            .build()
            .unwrap();
        let mut watch = Watch::default();
        let journal = Box::new(JsonLines::new(Full));
        watch.observers.set_journal(journal);
        let (settings, limits) = (Settings::default(), Limits::default());
        let running = start(dir.path(), settings, policy, limits, watch).unwrap();
        let mut notices = running.notices;
        for job in 0..2 {
            let submit = Request::Submit {
                key: format!("{job}").into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            let input = Box::new(ControllerInput::Request(submit));
            running.handle.to.send(Message::Input(input, None)).unwrap();
        }
        let mut texts: Vec<String> = (0..3).filter_map(|_| notices.blocking_recv()).collect();
        texts.sort();
        assert!(texts[0].contains("no space"), "{texts:?}");
        for text in &texts[1..] {
            assert!(text.contains("a submission"), "{texts:?}");
        }
        running.handle.stop();
        running.thread.join().unwrap().unwrap();
        assert_eq!(notices.try_recv().ok(), None);
    }

    #[test]
    fn old_ended_jobs_stay_archived_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let begin = || {
            let fifo = Composition::new("fifo")
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let limits = Limits {
                ended_jobs: 4,
                ..Limits::default()
            };
            let settings = Settings::default();
            start(dir.path(), settings, fifo, limits, Watch::default()).unwrap()
        };
        let request = |handle: &Handle, request| {
            let (tx, rx) = oneshot::channel();
            let input = Box::new(ControllerInput::Request(request));
            handle.to.send(Message::Input(input, Some(tx))).unwrap();
            rx.blocking_recv().unwrap()
        };
        let kept = |handle: &Handle| {
            let (tx, rx) = oneshot::channel();
            let look = move |s: &Controller, _: Millis| {
                let durable = s.launches().durable();
                let archived: u64 = durable.archived.jobs.values().sum();
                let _ = tx.send((durable.jobs.len(), archived));
            };
            handle.to.send(Message::Look(Box::new(look))).unwrap();
            rx.blocking_recv().unwrap()
        };
        let first = begin();
        for job in 0..12 {
            let submit = Request::Submit {
                key: format!("{job}").into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            assert_eq!(request(&first.handle, submit), Ok(JobId(job)));
            let cancel = Request::Cancel(JobId(job));
            assert_eq!(request(&first.handle, cancel), Ok(JobId(job)));
        }
        until("old jobs are archived", || kept(&first.handle).0 <= 5);
        let (jobs, archived) = kept(&first.handle);
        assert_eq!(jobs as u64 + archived, 12);
        first.handle.stop();
        first.thread.join().unwrap().unwrap();
        let again = begin();
        assert_eq!(kept(&again.handle), (jobs, archived));
        let find = |job| again.handle.archive.find(JobId(job)).unwrap();
        let past = find(0).unwrap();
        assert_eq!((past.job, past.became()), (JobId(0), "cancelled"));
        assert_eq!(find(11), None);
        let hold = request(&again.handle, Request::Hold(JobId(0)));
        assert_eq!(hold, Err(RequestError::Archived(JobId(0))));
        again.handle.stop();
        again.thread.join().unwrap().unwrap();
    }

    #[test]
    fn log_of_another_format_is_refused_and_unchanged() {
        let header =
            |format: u32| serde_json::json!([{ "header": { "format": format, "program": "9.9" } }]);
        for (entry, expected) in [
            (
                serde_json::json!([{ "epoch": { "epoch": 1, "at": 0.0 } }]),
                "blox 0.1 in format 1",
            ),
            (header(3), "blox 9.9 in format 3"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let bytes = serde_json::to_vec(&entry).unwrap();
            let (mut log, _) = Log::open(dir.path()).unwrap();
            log.append(&bytes);
            log.sync().unwrap();
            drop(log);
            let policy = Composition::new("fifo")
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let (settings, limits) = (Settings::default(), Limits::default());
            let refused = start(dir.path(), settings, policy, limits, Watch::default());
            let why = refused.err().unwrap().to_string();
            assert!(why.contains(expected), "{why}");
            assert!(why.contains("this program reads format 2"), "{why}");
            let (_, recovered) = Log::open(dir.path()).unwrap();
            assert_eq!(recovered.records, [bytes]);
        }
    }

    #[test]
    fn scheduler_journal_replays_with_equal_decisions() {
        #[derive(Clone, Default)]
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let fifo = || {
            Composition::new("fifo")
                .in_rounds(Seconds::new(1.0))
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap()
        };
        let settings = Settings {
            wait_for_nodes: 0,
            speed: 100.0,
            ..Settings::default()
        };
        // The second start uses a snapshot.
        for life in 0..2 {
            let text = Shared::default();
            let mut watch = Watch::default();
            watch
                .observers
                .set_journal(Box::new(JsonLines::new(text.clone())));
            let (done, over) = mpsc::channel();
            watch.finish = Some(Box::new(move |_, _| {
                let _ = done.send(());
            }));
            let limits = Limits::default();
            let running = start(dir.path(), settings.clone(), fifo(), limits, watch).unwrap();
            for job in 0..3 {
                let submit = Request::Submit {
                    key: format!("{life}-{job}").into(),
                    spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
                };
                let input = Box::new(ControllerInput::Request(submit));
                running.handle.to.send(Message::Input(input, None)).unwrap();
                std::thread::sleep(Duration::from_millis(60));
            }
            let asked = || running.handle.counters.asked.load(Ordering::Relaxed) > 1;
            until("it decides", asked);
            running.handle.stop();
            running.thread.join().unwrap().unwrap();
            over.recv_timeout(Duration::from_secs(10)).unwrap();
            let text = text.0.lock().unwrap().clone();
            let (state, trigger) = (State::default(), fifo().trigger());
            let mut nobody = Observers::default();
            let equal = replay(&text[..], state, trigger, Box::new(fifo()), &mut nobody);
            assert!(equal.unwrap() > 0);
        }
    }
}
