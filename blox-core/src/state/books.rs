//! What every change of a job writes down.

use super::{NO_SLOT, State};
use crate::ids::JobId;
use crate::job::{Phase, Record};

impl State {
    /// The ledger is the truth about who runs beside whom.
    pub(super) fn pair_up(&mut self, id: JobId) {
        let Some(s) = self.slot(id) else { return };
        let Some(a) = &mut self.records[s].promised else {
            return;
        };
        let mut owners = self.cluster.promised_owners(a.gpus[0]).iter();
        let partner = owners.find(|&o| o != id);
        if a.partner != partner {
            a.partner = partner;
            self.touch_slot(s);
        }
    }

    pub(super) fn let_wait(&mut self, s: usize) {
        self.records[s].eligible_since = self.next_moment.max(self.now);
        self.set_phase(s, Phase::Waiting);
    }

    pub(super) fn set_phase(&mut self, s: usize, phase: Phase) {
        let rec = &mut self.records[s];
        let old = std::mem::replace(&mut rec.phase, phase);
        self.counts[old as usize] -= 1;
        self.counts[phase as usize] += 1;
        let group = |p: Phase| match p {
            Phase::Submitted | Phase::Ended => 0,
            Phase::Deferred => 1,
            Phase::Waiting => 2,
            Phase::Starting | Phase::Running | Phase::Stopping => 3,
        };
        let (was, is) = (group(old), group(phase));
        if was != is {
            self.change_group(s, was, is);
        }
        self.touch_slot(s);
    }

    /// From one list of jobs to another: none, deferred, waiting, placed.
    fn change_group(&mut self, s: usize, was: u8, is: u8) {
        let rec = &self.records[s];
        let (index, gpus, vc) = (rec.id.index(), u64::from(rec.gpus), rec.virtual_cluster);
        match was {
            1 => self.deferred.set(index, false),
            2 => self.waiting.set(index, false),
            3 => self.placed.set(index, false),
            _ => {}
        }
        match is {
            1 => self.deferred.insert(index),
            2 => self.waiting.insert(index),
            3 => self.placed.insert(index),
            _ => {}
        }
        if (was >= 2) != (is >= 2) {
            let sign = is >= 2;
            self.demand = add(self.demand, gpus, sign);
            if let Some(vc) = vc {
                if self.demand_of_vc.len() <= vc.index() {
                    self.demand_of_vc.resize(vc.index() + 1, 0);
                }
                let d = &mut self.demand_of_vc[vc.index()];
                *d = add(*d, gpus, sign);
            }
        }
    }

    #[inline]
    pub(super) fn touch_slot(&mut self, s: usize) {
        let rec = &mut self.records[s];
        rec.changed = self.version;
        if !rec.touched {
            rec.touched = true;
            self.touched.push(rec.id);
        }
    }

    #[inline]
    pub(super) fn slot(&self, id: JobId) -> Option<usize> {
        match self.slot_of.get(id.index()) {
            Some(&s) if s != NO_SLOT => Some(s as usize),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn record(&self, id: JobId) -> Option<&Record> {
        self.slot(id).map(|s| &self.records[s])
    }

    pub(super) fn partner_of(&self, s: usize) -> Option<usize> {
        let a = self.records[s].promised.as_ref()?;
        a.partner.and_then(|p| self.slot(p))
    }
}

fn add(total: u64, amount: u64, plus: bool) -> u64 {
    if plus {
        total + amount
    } else {
        total.saturating_sub(amount)
    }
}
