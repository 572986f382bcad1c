//! Fault injection: which troubles strike, where and when.

use super::{Life, What, World};
use blox_cluster::protocol::node::NodeInput;
use blox_cluster::protocol::scheduler::{ControllerInput, Request};
use blox_cluster::protocol::shim::ShimInput;
use blox_cluster::protocol::{AttemptId, Millis, Timers};
use rand::RngExt;

impl World {
    /// Lets shims and guards check their time limits, and lets troubles strike.
    pub(super) fn nemesis(&mut self) -> Result<(), String> {
        for i in 0..self.nodes.len() {
            if self.now < self.nodes[i].frozen_until {
                continue;
            }
            let ids: Vec<AttemptId> = self.nodes[i].shims.keys().copied().collect();
            for id in ids {
                self.guard(i, id);
                self.shim(i, id, ShimInput::Tick)?;
            }
        }
        self.at(self.now + 200, What::Nemesis);
        if self.peace() {
            return Ok(());
        }
        self.trouble_scheduler()?;
        let i = self.rng.random_range(0..self.nodes.len());
        self.trouble_disk(i);
        if self.rng.random_bool(0.02) {
            self.nodes[i].copy = Some(self.nodes[i].copied());
        }
        let n = &self.nodes[i];
        if !n.off && !n.is_down && self.rng.random_bool(self.crash * 3.0) {
            let well = self.now >= self.nodes[i].trouble_until;
            if !well {
                if !self.rng.random_bool(0.3) {
                    return Ok(());
                }
                self.reached.add("two troubles at once on a node", 1);
            }
            self.trouble_node(i)?;
        }
        Ok(())
    }

    /// Ends the launch of a shim that is stopped, as its guard does after the end of the lease.
    fn guard(&mut self, i: usize, id: AttemptId) {
        let n = &self.nodes[i];
        let now = n.clock.read(self.now);
        let after = Millis(Timers::default().kill.0 / 2);
        let is_due =
            |s: &super::ShimModel| self.now < s.paused_until && now >= s.machine.lease() + after;
        if n.shims.get(&id).is_some_and(is_due) && n.processes.contains_key(&id) {
            self.reached
                .add("a stopped shim whose guard ends its launch", 1);
            self.gone(i, id);
        }
    }

    /// Lets the scheduler stop as planned, or sleep.
    fn trouble_scheduler(&mut self) -> Result<(), String> {
        let idle = |l: &Life| l.paused_until <= self.now && l.full_until <= self.now;
        if let Some(number) = self.life.as_ref().filter(|l| idle(l)).map(|l| l.number)
            && self.rng.random_bool(0.003)
        {
            let long = self.rng.random_bool(0.3);
            let absence = self
                .rng
                .random_range(20_000..if long { 120_000 } else { 60_000 });
            let leave = Request::Leave(Millis(absence));
            self.scheduler_input(ControllerInput::Request(leave), None)?;
            let wait = self.rng.random_range(1_000..6_000);
            self.at(self.now + wait, What::SchedulerStops(number, absence));
        }
        if let Some(life) = &mut self.life
            && self.rng.random_bool(0.001)
        {
            let until = self.now + self.rng.random_range(1_000..60_000);
            life.paused_until = life.paused_until.max(until);
            // A sleeping scheduler does not find that its disk has room again.
            if life.full_until + 10_000 > self.now {
                life.full_until = life.full_until.max(life.paused_until);
            }
            // A shorter pause is no sleep.
            if life.paused_until - self.now > 5_000 {
                life.awake_from = life.paused_until;
                self.reached.add("a scheduler that sleeps", 1);
            }
        }
        Ok(())
    }

    /// Takes the room on the disk of the scheduler or of a node, or lets a GPU fail.
    fn trouble_disk(&mut self, i: usize) {
        let span = self.rng.random_range(1_000..60_000);
        if let Some(life) = &mut self.life
            && self.rng.random_bool(0.002)
        {
            let until = life.paused_until.max(self.now + span);
            life.full_until = until;
            self.reached.add("a scheduler without room on its disk", 1);
            // A node may fall silent just before the disk has room again.
            if self.now >= self.nodes[i].trouble_until && self.rng.random_bool(0.3) {
                let span = self.rng.random_range(8_000..40_000);
                self.nodes[i].trouble_until = until + span + 1_000;
                self.at(until - 500, What::Mute(i, until + span));
            }
        }
        let n = &mut self.nodes[i];
        if n.manager.is_some() && self.rng.random_bool(0.003) {
            n.failed_gpu = (self.rng.random_range(0..n.gpus), self.now + span);
        }
        if n.manager.is_some() && self.rng.random_bool(0.003) {
            match self.rng.random_bool(0.5) {
                true => {
                    n.full_until = self.now + span;
                    self.reached.add("a node without room on its disk", 1);
                }
                false => {
                    n.broken_until = self.now + span;
                    self.reached.add("a node whose disk returns errors", 1);
                }
            }
        }
    }

    /// Lets a trouble strike a node.
    fn trouble_node(&mut self, i: usize) -> Result<(), String> {
        let span = self.rng.random_range(500..40_000);
        let until = self.now + span;
        let n = &mut self.nodes[i];
        n.trouble_until = n.trouble_until.max(until + 1_000);
        match self.rng.random_range(0..15) {
            12.. => {
                // The node manager stops as planned.
                let length = self.rng.random_range(20_000..60_000);
                let back = self.now + 5_500 + self.rng.random_range(0..length);
                let n = &mut self.nodes[i];
                n.trouble_until = n.trouble_until.max(back + 1_000);
                n.leaving = Some((self.now + 5_000, length, back));
                self.manager(i, NodeInput::Leave(Millis(length)))?;
            }
            11 => {
                // A signal to all processes of the program.
                self.reached
                    .add("a shim and its node manager that end together", 1);
                self.shims_suffer(i, span, true);
                self.manager_dies(i);
            }
            10 => {
                // The last orders before a silence arrive late.
                n.slow_until = self.now + 3_000;
                self.at(self.now + 3_000, What::Mute(i, until));
            }
            9 => {
                // A partition, in which only the node manager can end the processes.
                (n.deaf_until, n.mute_until) = (until, until);
                let kill = self.rng.random_bool(0.5);
                self.shims_suffer(i, span, kill);
            }
            8 => {
                // The node manager dies, and restarts with an old copy of its state.
                self.manager_dies(i);
                self.restore(i);
            }
            0 => self.manager_dies(i),
            1 => n.manager_paused_until = until,
            2 => {
                // The whole node sleeps: none of its processes runs.
                self.reached.add("a node that sleeps", 1);
                let works: Vec<usize> = self.nodes[i].processes.values().map(|p| p.work).collect();
                for w in works {
                    self.checks.ledger[w].to.get_or_insert(self.now);
                }
                let n = &mut self.nodes[i];
                if until > n.frozen_until {
                    n.frozen_until = until;
                    self.at(until, What::Thaw(i));
                }
            }
            3 => {
                self.switch_off(i);
                let boot = self.nodes[i].boot;
                self.at(until, What::PowerOn(i, boot));
            }
            4 => (n.deaf_until, n.mute_until) = (until, until),
            5 => n.mute_until = until,
            6 => n.deaf_until = until,
            _ => {
                let kill = self.rng.random_bool(0.5);
                self.shims_suffer(i, span, kill);
            }
        }
        Ok(())
    }

    /// Kills or pauses the shims of a node. Ranks end with their shim.
    fn shims_suffer(&mut self, i: usize, span: u64, kill: bool) {
        let ids: Vec<AttemptId> = self.nodes[i].shims.keys().copied().collect();
        for id in ids {
            let delay = self.rng.random_range(1..1_000);
            let Some(s) = self.nodes[i].shims.get_mut(&id) else {
                continue;
            };
            if kill {
                s.alive = false;
                self.at(self.now + delay, What::RanksDie(i, id));
            } else {
                s.paused_until = s.paused_until.max(self.now + span);
            }
        }
    }
}
