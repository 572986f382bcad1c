//! Logs of ranks, requested from the nodes in chunks and forwarded to the reader.

use super::admit::brief;
use super::clock;
use super::files;
use super::room::{end_of, share};
use super::scheduler::Handle;
use super::shim::LaunchFile;
use crate::protocol::launches::Past;
use crate::protocol::scheduler::Controller;
use crate::protocol::{AttemptId, Millis, Session};
use crate::wire::pb;
use blox_core::JobId;
use pb::node_link_client::NodeLinkClient;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Largest chunk in bytes.
const PART: u64 = 128 << 10;
/// Timeout for the answer of a node.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time in which the nodes of a restarted scheduler are expected to reconnect.
const RETURN: Millis = Millis(10_000);
/// Polling interval of a followed log.
const LOOK: Duration = Duration::from_millis(200);

/// Connected nodes, and requests that wait for an answer.
#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    links: BTreeMap<String, (Session, mpsc::Sender<pb::LogWanted>)>,
    waiting: BTreeMap<u64, oneshot::Sender<pb::LogPart>>,
    last: u64,
}

impl Desk {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the stream of a node manager's session.
    pub fn link(&self, node: String, session: Session, to: mpsc::Sender<pb::LogWanted>) {
        let mut inner = self.inner();
        // An old copy of a node's state must not take over its requests.
        let later = inner.links.get(&node).is_some_and(|l| l.0 > session);
        if !later {
            inner.links.insert(node, (session, to));
        }
    }

    /// Delivers the answer of a node.
    pub fn answer(&self, part: pb::LogPart) {
        let waiting = self.inner().waiting.remove(&part.request);
        if let Some(waiting) = waiting {
            // The requester may have stopped waiting.
            let _ = waiting.send(part);
        }
    }

    async fn ask(&self, node: &str, mut wanted: pb::LogWanted) -> Option<pb::LogPart> {
        let (tx, rx) = oneshot::channel();
        let (request, link) = {
            let mut inner = self.inner();
            let (_, link) = inner.links.get(node)?.clone();
            inner.last += 1;
            let request = inner.last;
            inner.waiting.insert(request, tx);
            (request, link)
        };
        wanted.request = request;
        let answered = tokio::time::timeout(PATIENCE, async {
            link.send(wanted).await.ok()?;
            rx.await.ok()
        });
        let part = answered.await.ok().flatten();
        self.inner().waiting.remove(&request);
        part
    }
}

/// Location of a launch's logs.
struct Place {
    launch: Option<u32>,
    /// Number of ranks.
    ranks: u32,
    /// Persistent names of its nodes.
    nodes: Vec<String>,
    /// True if its processes may still write.
    open: bool,
    /// True if the job has ended.
    ended: bool,
    /// Reason of the job's rejection; empty if it was not rejected.
    why: String,
}

/// Returns the location of a launch's logs. `past` is the job if it is archived.
fn place(s: &Controller, job: JobId, launch: Option<u32>, past: Option<&Past>) -> Option<Place> {
    let durable = s.launches().durable();
    let brief = durable.jobs.get(&job).or(past.map(|past| &past.brief))?;
    let archived = past.iter().flat_map(|past| &past.accounts);
    let accounts = || {
        let archived = archived.clone().map(|(part, end)| (*part, end));
        durable.accounts_of(job).chain(archived)
    };
    let last_open = durable.of_job(job).map(|(id, _)| id.attempt).last();
    let last_over = accounts().map(|(p, _)| p.id.attempt).last();
    let launch = launch.or(last_open.max(last_over));
    let mut nodes: Vec<_> = Vec::new();
    let (mut ranks, mut open) = (0, false);
    if let Some(attempt) = launch {
        let id = AttemptId { job, attempt };
        if let Some(a) = durable.attempts.get(&id) {
            open = true;
            for (node, task) in &a.launch.parts {
                nodes.push(*node);
                ranks += task.ranks.len() as u32;
            }
        } else {
            for (part, end) in accounts().filter(|(p, _)| p.id == id) {
                nodes.push(part.node);
                // Each GPU has one rank.
                ranks += end.gpus;
            }
        }
    }
    let key = |n| durable.key_of(n).map(|key| key.to_string());
    Some(Place {
        launch,
        ranks,
        nodes: nodes.into_iter().filter_map(key).collect(),
        open,
        ended: brief.ended.is_some(),
        why: brief.why.clone(),
    })
}

/// Forwards a log until it ends or its reader disconnects.
pub(super) async fn hand_on(
    handle: Handle,
    desk: Desk,
    wanted: pb::LogsRequest,
    to: mpsc::Sender<Result<pb::LogsReply, Status>>,
) {
    if let Err(status) = copy(&handle, &desk, &wanted, &to).await {
        let _ = to.send(Err(brief(status))).await;
    }
}

async fn copy(
    handle: &Handle,
    desk: &Desk,
    wanted: &pb::LogsRequest,
    to: &mpsc::Sender<Result<pb::LogsReply, Status>>,
) -> Result<(), Status> {
    let job = JobId(wanted.job);
    let after = wanted.after;
    let mut launch = after.map(|a| a.launch).or(wanted.launch);
    let mut offset = after.map_or(0, |a| a.offset);
    let mut found = after.is_some();
    // A resumed request may arrive before the nodes reconnect.
    let patient_until = clock::now() + RETURN;
    let mut answered = after.is_none();
    let mut past: Option<Arc<Past>> = None;
    loop {
        let archived = past.clone();
        let look = move |s: &Controller, _: Millis| {
            let past = archived.as_deref();
            (place(s, job, launch, past), place(s, job, None, past))
        };
        let (place, newest) = match handle.look(look).await {
            Some((Some(place), Some(newest))) => (place, newest),
            Some(_) if past.is_none() => match handle.archived(job).await? {
                Some(found) => {
                    past = Some(Arc::new(found));
                    continue;
                }
                None => return Err(Status::not_found(format!("there is no job {job}"))),
            },
            Some(_) => return Err(Status::not_found(format!("there is no job {job}"))),
            // A reader that follows a log can wait.
            None if wanted.follow && handle.counters.why_no_room().is_some() => {
                tokio::select! {
                    () = to.closed() => return Ok(()),
                    () = tokio::time::sleep(LOOK) => continue,
                }
            }
            None => return Err(handle.gone()),
        };
        if let Some(number) = place.launch {
            launch = Some(number);
            let id = AttemptId {
                job,
                attempt: number,
            };
            let rank = wanted.rank;
            // A followed rank may have existed in an earlier launch.
            if !found && (1..=rank).contains(&place.ranks) {
                let last = place.ranks - 1;
                let text = format!("there is no rank {rank} of launch {id}: its last is {last}");
                return Err(Status::not_found(text));
            }
            let is_there = read_on(desk, &place, id, wanted, &mut offset, to).await?;
            found |= is_there;
            answered |= is_there || clock::now() > patient_until;
            let none = || {
                let text = format!("no node that answers has a log of rank {rank} of launch {id}");
                Err(Status::not_found(text))
            };
            if !wanted.follow && !found {
                return none();
            }
            if !place.open && answered {
                // The job may have ended since the last poll, after a launch that was not polled.
                if wanted.launch.is_none() && newest.launch > launch {
                    (launch, offset) = (Some(number + 1), 0);
                    answered = after.is_none();
                    continue;
                }
                if wanted.launch.is_some() || place.ended {
                    return if found { Ok(()) } else { none() };
                }
            }
            if !wanted.follow {
                return Ok(());
            }
        } else if !wanted.follow || place.ended {
            let text = match place.why.is_empty() {
                true => format!("job {job} has not run"),
                false => format!("job {job} has not run: it is rejected: {}", place.why),
            };
            return Err(Status::failed_precondition(text));
        }
        tokio::select! {
            () = to.closed() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Forwards all data of a log that exists now. Returns true if there is such a log.
async fn read_on(
    desk: &Desk,
    place: &Place,
    id: AttemptId,
    wanted: &pb::LogsRequest,
    offset: &mut u64,
    to: &mpsc::Sender<Result<pb::LogsReply, Status>>,
) -> Result<bool, Status> {
    let mut found = false;
    for node in &place.nodes {
        loop {
            let ask = pb::LogWanted {
                request: 0,
                id: Some(id.into()),
                rank: wanted.rank,
                err: wanted.err,
                offset: *offset,
            };
            let Some(part) = desk.ask(node, ask).await.filter(|p| p.found) else {
                break;
            };
            found = true;
            if part.data.is_empty() {
                return Ok(true);
            }
            *offset += part.data.len() as u64;
            let reply = pb::LogsReply {
                launch: id.attempt,
                data: part.data,
            };
            if to.send(Ok(reply)).await.is_err() {
                return Ok(true);
            }
        }
    }
    Ok(found)
}

type Channel = tonic::service::interceptor::InterceptedService<
    tonic::transport::Channel,
    super::dial::Credentials,
>;

/// Answers the scheduler's log requests on a node, until the stream ends.
pub(super) async fn answer(mut client: NodeLinkClient<Channel>, dir: &Path) {
    let Some(node) = files::read_unsynced::<String>(&dir.join("node.json")) else {
        return;
    };
    let Ok(Some(session)) = super::slots::session(dir) else {
        return;
    };
    let (tx, rx) = mpsc::channel(16);
    let hello = pb::LogPart {
        node,
        session,
        ..pb::LogPart::default()
    };
    if tx.send(hello).await.is_err() {
        return;
    }
    let Ok(reply) = client.logs(ReceiverStream::new(rx)).await else {
        return;
    };
    let mut questions = reply.into_inner();
    while let Ok(Some(wanted)) = questions.message().await {
        let data = part_of(dir, &wanted);
        let part = pb::LogPart {
            request: wanted.request,
            found: data.is_ok(),
            data: data.unwrap_or_default(),
            ..pb::LogPart::default()
        };
        if tx.send(part).await.is_err() {
            return;
        }
    }
}

fn part_of(dir: &Path, wanted: &pb::LogWanted) -> io::Result<Vec<u8>> {
    let id = wanted.id.unwrap_or_default();
    let kind = if wanted.err { "err" } else { "out" };
    let name = format!("rank-{}.{kind}", wanted.rank);
    let folder = format!("{}.{}", id.job, id.attempt);
    let open = |kept: &str| {
        // The job may have replaced the file by a link.
        let follow_no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(follow_no_link);
        let folder = dir.join(kept).join(&folder);
        let file = options.open(folder.join(&name))?;
        Ok((
            file,
            files::read_unsynced::<LaunchFile>(&folder.join("launch.json")),
        ))
    };
    let (mut file, launch) = open("attempts").or_else(|_: io::Error| open("logs"))?;
    let room = launch.and_then(|l| Some(share(l.log_bytes?, l.task.ranks.len() * 2)));
    let end = room.map_or(u64::MAX, |each| end_of(&file, each));
    file.seek(SeekFrom::Start(wanted.offset))?;
    let mut data = Vec::new();
    file.take(PART.min(end.saturating_sub(wanted.offset)))
        .read_to_end(&mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::super::archive::Archive;
    use super::super::scheduler::Message;
    use super::*;
    use crate::protocol::ClusterId;
    use crate::protocol::scheduler::{ControllerInput, Request, Saved, Settings};
    use blox_core::{GpuCount, JobSpec, Seconds, Time, trigger::Rounds};

    #[tokio::test]
    async fn disconnected_follower_of_a_waiting_job_is_dropped() {
        let trigger = Box::new(Rounds::default());
        let (settings, saved) = (Settings::default(), Saved::default());
        let cluster = ClusterId("c".into());
        let (mut s, _) = Controller::begin(
            settings,
            saved,
            &[],
            cluster,
            trigger,
            Millis(0),
            Time::ZERO,
        );
        let submit = Request::Submit {
            key: "key".into(),
            spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
        };
        s.step(Millis(1), ControllerInput::Request(submit));
        let (to, looks) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(Message::Look(look)) = looks.recv() {
                look(&s, Millis(2));
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let handle = Handle {
            to,
            counters: Arc::default(),
            archive: Archive::in_dir(dir.path()),
            history: dir.path().join("history"),
            waits: Arc::default(),
            to_policy: std::sync::mpsc::channel().0,
        };
        let wanted = pb::LogsRequest {
            follow: true,
            ..pb::LogsRequest::default()
        };
        let (tx, rx) = mpsc::channel(1);
        let followed = tokio::spawn(hand_on(handle, Desk::default(), wanted, tx));
        tokio::time::sleep(LOOK / 2).await;
        assert!(!followed.is_finished());
        drop(rx);
        let over = tokio::time::timeout(LOOK * 10, followed).await;
        assert!(over.is_ok(), "it is looked for still");
    }
}
