//! Model of a node: its disk, node manager, shims and processes.

use blox_cluster::protocol::message::Task;
use blox_cluster::protocol::node::{Found, Identity, Node};
use blox_cluster::protocol::shim::Shim;
use blox_cluster::protocol::{
    AttemptId, ClusterId, Epoch, Exit, Fence, Final, Incarnation, Millis, Report, Session,
};
use blox_core::{Name, NodeSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A clock with its own offset and speed. It also counts the time in which its machine sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Its value at its start.
    pub offset: u64,
    /// Its start in true time.
    pub since: u64,
    /// Speed in millionths of true time.
    pub ppm: u64,
}

impl Clock {
    pub fn read(&self, true_ms: u64) -> Millis {
        let shown = u128::from(true_ms - self.since) * u128::from(self.ppm) / 1_000_000;
        Millis(self.offset + shown as u64)
    }
}

/// State of a launch on the node's disk.
#[derive(Clone, Debug)]
pub struct Journal {
    pub fence: Fence,
    pub task: Arc<Task>,
    pub port: u16,
    pub lease: Millis,
    pub began: Millis,
    pub done: Option<Final>,
}

/// A copy of a node manager's state folder.
#[derive(Clone, Debug)]
pub struct Copy {
    pub session: u64,
    pub cluster: Option<ClusterId>,
    pub epoch: Epoch,
    pub incarnation: Incarnation,
    pub journals: BTreeMap<AttemptId, Journal>,
}

/// The processes of a launch on the node.
#[derive(Clone, Debug)]
pub struct Process {
    /// Their entry in the ledger.
    pub work: usize,
    /// The running ranks, by their index on this node.
    pub ranks: BTreeMap<usize, Rank>,
}

/// A running rank.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Token of its current event; events with other tokens are outdated.
    pub token: u64,
}

#[derive(Debug)]
pub struct ShimModel {
    pub machine: Shim,
    pub alive: bool,
    /// Its folder was replaced, and the node manager does not find it there.
    pub displaced: bool,
    pub paused_until: u64,
}

pub struct NodeModel {
    pub key: Name,
    pub gpus: u32,
    pub clock: Clock,
    // State on disk.
    pub session: u64,
    pub cluster: Option<ClusterId>,
    pub epoch: Epoch,
    pub incarnation: Incarnation,
    pub journals: BTreeMap<AttemptId, Journal>,
    /// An older copy of the state on disk, without the node's name.
    pub copy: Option<Copy>,
    // State that a reboot deletes.
    pub boot: u64,
    pub shims: BTreeMap<AttemptId, ShimModel>,
    pub processes: BTreeMap<AttemptId, Process>,
    /// The provider has switched the machine off.
    pub off: bool,
    /// The machine does not run.
    pub is_down: bool,
    // State that a restart of the node manager deletes.
    pub manager: Option<Node>,
    pub manager_paused_until: u64,
    /// Time until which a manager that is to stop waits for long leases, and the length and the end of
    /// its absence.
    pub leaving: Option<(u64, u64, u64)>,
    /// Launches that must not notice the planned absence of the manager, until a time.
    pub unaware: (Vec<AttemptId>, u64),
    pub frozen_until: u64,
    pub deaf_until: u64,
    pub mute_until: u64,
    /// Orders that are sent before this time arrive late.
    pub slow_until: u64,
    /// End of the current faults.
    pub trouble_until: u64,
    /// Time until which its disk has no room, or returns errors.
    pub full_until: u64,
    pub broken_until: u64,
    /// A GPU that has failed, and the time until which it has.
    pub failed_gpu: (u32, u64),
    /// The manager has read that a GPU has failed.
    pub is_gpu_failed: bool,
    /// State that the manager could not write.
    pub unsaved: Option<(ClusterId, Epoch, Incarnation)>,
    /// Launches for which the manager had no room.
    pub unstarted: BTreeMap<AttemptId, Final>,
    /// Session, number and boot of the last report that the scheduler read.
    pub last_read: Option<(u64, u64, u64)>,
    /// Times at which the scheduler read the last two reports.
    pub reported_at: (u64, u64),
    /// The scheduler has read a report after a reboot, and has not yet stated the loss.
    pub was_rebooted: bool,
    /// Sequence number of the manager's last report, for a planted bug.
    pub last_report: u64,
    /// Last report of this session.
    pub latest: Option<Report>,
    /// Last report of an earlier session.
    pub old: Option<Report>,
}

impl NodeModel {
    /// A machine that has not been started.
    pub fn new(key: Name, gpus: u32, clock: Clock) -> Self {
        NodeModel {
            key,
            gpus,
            clock,
            session: 0,
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            journals: BTreeMap::new(),
            copy: None,
            boot: 0,
            shims: BTreeMap::new(),
            processes: BTreeMap::new(),
            off: false,
            is_down: false,
            manager: None,
            manager_paused_until: 0,
            leaving: None,
            unaware: (Vec::new(), 0),
            frozen_until: 0,
            deaf_until: 0,
            mute_until: 0,
            slow_until: 0,
            trouble_until: 0,
            full_until: 0,
            broken_until: 0,
            failed_gpu: (0, 0),
            is_gpu_failed: false,
            unsaved: None,
            unstarted: BTreeMap::new(),
            last_read: None,
            reported_at: (0, 0),
            was_rebooted: false,
            last_report: 0,
            latest: None,
            old: None,
        }
    }

    /// Returns true if new files can be written at a time.
    pub fn can_write(&mut self, now: u64) -> bool {
        let can = now >= self.full_until.max(self.broken_until);
        if let Some(manager) = self.manager.as_mut().filter(|_| !can) {
            manager.set_no_room(Some("no room".into()));
        }
        can
    }

    pub fn copied(&self) -> Copy {
        Copy {
            session: self.session,
            cluster: self.cluster.clone(),
            epoch: self.epoch,
            incarnation: self.incarnation,
            journals: self.journals.clone(),
        }
    }

    pub fn identity(&self) -> Identity {
        Identity {
            node: self.key.clone(),
            boot: format!("boot-{}", self.boot).into(),
            session: Session(self.session),
            cluster: self.cluster.clone(),
            epoch: self.epoch,
            incarnation: self.incarnation,
            offer: Arc::new(NodeSpec {
                name: Some(self.key.clone()),
                ..NodeSpec::with_gpus(self.gpus)
            }),
            address: self.key.clone(),
        }
    }

    /// Returns the end of the lease that a shim states.
    pub fn followed(&self, id: AttemptId) -> Option<Millis> {
        let shim = self.shims.get(&id).filter(|s| s.alive && !s.displaced);
        shim.map(|s| s.machine.lease())
    }

    /// Returns the launches that a starting node manager finds in the journals.
    pub fn found(&self, adopt: bool) -> Vec<Found> {
        let all = self.journals.iter().filter(|_| adopt);
        all.map(|(id, j)| {
            // A launch of an earlier boot; its end was not observed.
            let gone = !self.shims.contains_key(id) && !self.processes.contains_key(id);
            let done = j.done.clone().or_else(|| {
                gone.then(|| Final {
                    exited_zero: false,
                    exit: Exit::Lost,
                    ran: Millis(0),
                    estimated: true,
                    why: "the node went down".to_owned(),
                })
            });
            Found {
                id: *id,
                fence: j.fence,
                task: Arc::clone(&j.task),
                port: j.port,
                lease: j.lease,
                followed: self.followed(*id),
                done,
                reported: Default::default(),
            }
        })
        .collect()
    }
}
