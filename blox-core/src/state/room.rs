//! Room: the nodes that a cluster could ever offer a job.

use crate::cluster::spec::NodeSpec;
use crate::cluster::{Node, NodeKind, NodeStatus, is_too_much};
use crate::ids::{GpuTypeId, Name, NameId, NodeId};
use crate::job::JobRef;
use crate::job::nodes::NodeLimit;
use crate::job::spec::JobSpec;
use crate::job::training::Adapts;
use crate::reason::{Amount, Reason, Resource, Shortfall, Within};
use crate::shape::Shape;
use crate::sort;
use crate::state::State;
use crate::units::GpuCount;
use crate::view::View;
use smallvec::SmallVec;
use std::sync::Arc;

/// The nodes that a cluster could ever offer a job, all of them empty and up.
///
/// These are the nodes in view that have not left, and requested nodes that have not joined. Nodes
/// that a cluster manager can still request by [offers](crate::Cluster::offers) may belong to them, too.
/// Broken GPUs count, since they may be repaired.
///
/// A placement checks with it whether it could ever place a job
/// ([`PlacementPolicy::can_ever_place`](crate::PlacementPolicy::can_ever_place)). Each check takes a
/// job and one of its shapes, and counts GPUs, their types, CPUs and memory. If the check fails, the
/// reason names the resource that is missing and the largest amount that there is.
///
/// ```
/// use blox_core::{ClusterSpec, Event, Extras, GpuCount, JobId, JobSpec, Room, Seconds, Shape};
/// use blox_core::{State, Time, View};
/// let mut cluster: ClusterSpec = "2x4:v100,1x8:k80".parse()?;
/// cluster.nodes.iter_mut().for_each(|node| node.memory_gib = 256.0);
/// let mut state = State::new(&cluster)?;
/// let job = JobId(0);
/// let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0)).with_extras(Extras {
///     gpu_types: vec!["v100".into()],
///     memory_gib: 512.0,
///     ..Extras::default()
/// });
/// state.apply(Time::ZERO, &Event::Submitted { job, spec: spec.into() })?;
/// let room = Room::of(View::of(&state));
/// let job = state.job(job).expect("it was submitted");
/// // One GPU on each of the two nodes has 256 GiB.
/// assert_eq!(room.anywhere(&job, &Shape::gang(&job)), Ok(()));
/// let why = room.on_one_node(&job, &Shape::gang(&job)).unwrap_err().to_string();
/// assert_eq!(why, "asks for 512 GiB of memory, the largest node of type v100 has 256 GiB");
/// let why = room.anywhere(&job, &Shape::gpus(GpuCount(9))).unwrap_err().to_string();
/// assert_eq!(why, "asks for 9 GPUs of type v100, at most 8 are possible");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Room<'a> {
    view: View<'a>,
    offers: bool,
    aside: &'a [NodeId],
    only: Option<&'a str>,
}

/// Alike nodes of a [`Room`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Alike<'a> {
    /// Type of the GPUs; empty if the nodes state none.
    pub gpu_type: &'a str,
    /// Number of GPUs of each node.
    pub gpus: u32,
    /// CPU cores of each node; 0 if unknown.
    pub cpus: f64,
    /// Memory in GiB of each node; 0 if unknown.
    pub memory_gib: f64,
    /// Number of nodes.
    pub nodes: u32,
}

/// Nodes on which a job runs, with the GPUs of a shape that each of them could hold.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit<'a> {
    /// The nodes.
    pub alike: Alike<'a>,
    /// Largest number of the shape's GPUs for which a node has GPUs, CPUs and memory.
    pub most: u32,
}

/// Offers that suit a job in a shape.
pub type Fits<'a> = SmallVec<[Fit<'a>; 4]>;

impl<'a> Room<'a> {
    /// Returns the room in a view.
    #[inline]
    pub fn of(view: View<'a>) -> Self {
        Room {
            view,
            offers: false,
            aside: &[],
            only: None,
        }
    }

    /// Adds the nodes that can still be requested by the offers of the cluster.
    #[must_use]
    pub fn with_offers(self) -> Self {
        Room {
            offers: true,
            ..self
        }
    }

    /// Leaves out nodes that a placement keeps for another purpose.
    #[must_use]
    pub fn without(self, aside: &'a [NodeId]) -> Self {
        Room { aside, ..self }
    }

    /// Leaves out all nodes with GPUs of other types.
    #[must_use]
    pub fn only(self, gpu_type: &'a str) -> Self {
        let only = Some(gpu_type);
        Room { only, ..self }
    }

    /// Returns the view.
    #[inline]
    pub fn view(&self) -> View<'a> {
        self.view
    }

    /// Returns the nodes in view, in order. Nodes that could join come after them.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'a> {
        let room = *self;
        room.view.nodes().filter(move |node| {
            let only = |only: &str| only == type_name(room.view, node.gpu_type());
            node.status() != NodeStatus::Left
                && room.only.is_none_or(only)
                && !room.aside.contains(&node.id())
        })
    }

    /// Returns all nodes by kind.
    pub fn alike(&self) -> impl Iterator<Item = Alike<'a>> + use<'a> {
        let (room, cluster) = (*self, self.view.cluster());
        let kinds = cluster.kinds().iter();
        let present = kinds.filter_map(move |kind| room.present(kind));
        let requested = cluster.growing().iter();
        let requested =
            requested.filter_map(|g| Some((&cluster.offer(g.offer)?.spec, g.names.len() as u32)));
        let offers = cluster.offers().filter(move |_| room.offers);
        let offers = offers.map(|(id, offer)| (&offer.spec, cluster.left_of(id)));
        let coming = requested.chain(offers);
        let coming = coming.filter_map(move |(spec, count)| room.coming(spec, count));
        let all = present.chain(coming);
        all.filter(move |alike| room.only.is_none_or(|only| only == alike.gpu_type))
    }

    fn present(&self, kind: &NodeKind) -> Option<Alike<'a>> {
        let cluster = self.view.cluster();
        let vc = self.view.virtual_cluster();
        if vc.is_some() && kind.partition.is_some() && kind.partition != vc {
            return None;
        }
        let alike = |id: &&NodeId| {
            let node = cluster.node(**id);
            node.is_some_and(|node| NodeKind::of(node).is_alike(kind))
        };
        let aside = self.aside.iter().filter(alike).count() as u32;
        Some(Alike {
            gpu_type: type_name(self.view, kind.gpu_type),
            gpus: kind.gpus,
            cpus: kind.cpus,
            memory_gib: kind.memory_gib,
            nodes: kind.nodes.checked_sub(aside).filter(|n| *n > 0)?,
        })
    }

    fn coming(&self, spec: &'a NodeSpec, nodes: u32) -> Option<Alike<'a>> {
        let vc = self.view.virtual_cluster();
        let vc = vc.and_then(|vc| self.view.names().get(vc));
        if vc.is_some() && spec.partition.is_some() && spec.partition.as_ref() != vc {
            return None;
        }
        (nodes > 0).then(|| Alike {
            gpu_type: spec.gpu_type.as_ref().map_or("", Name::as_str),
            gpus: spec.gpus,
            cpus: spec.cpus,
            memory_gib: spec.memory_gib,
            nodes,
        })
    }

    /// Returns the nodes on which a job runs in a shape.
    pub fn fits(&self, job: &JobRef<'_>, shape: &Shape) -> Fits<'a> {
        let wanted = shape.gpu_type.map(|t| type_name(self.view, t));
        let suits = |nodes: &Alike<'_>| {
            wanted.is_none_or(|wanted| wanted == nodes.gpu_type) && job.runs_on_type(nodes.gpu_type)
        };
        let fit = |alike| Fit {
            alike,
            most: most_on(&alike, shape),
        };
        self.alike().filter(suits).map(fit).collect()
    }

    /// Checks whether the nodes together could hold a job: each node as many GPUs as it has CPUs
    /// and memory for.
    ///
    /// # Errors
    /// Returns what is missing.
    pub fn anywhere(&self, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        let plain = shape.gpu_type.is_none() && !shape.has_resources() && !job.has_extras();
        let all = self.only.is_none() && self.aside.is_empty();
        if plain && all && shape.gpus <= self.view.installed_gpus() {
            return Ok(());
        }
        self.holds(job, shape, Within::Cluster, |fits, needed| {
            let each = fits
                .iter()
                .map(|f| u64::from(f.most) * u64::from(f.alike.nodes));
            each.sum::<u64>() >= u64::from(needed)
        })
    }

    /// Checks whether one node could hold a whole job.
    ///
    /// # Errors
    /// Returns what is missing.
    pub fn on_one_node(&self, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.holds(job, shape, Within::OneNode, |fits, needed| {
            fits.iter().any(|fit| fit.most >= needed)
        })
    }

    /// Checks whether the nodes could hold a job on one node, or otherwise on whole nodes: it uses
    /// all GPUs of each of its nodes but the last.
    ///
    /// # Errors
    /// Returns what is missing.
    pub fn on_whole_nodes(&self, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.holds(job, shape, Within::Cluster, hold_as_whole_nodes)
    }

    /// Checks whether there are as many nodes for a job as it [states](JobRef::node_limit), each with
    /// room for its part of a shape.
    ///
    /// # Errors
    /// Returns what is missing.
    #[inline]
    pub fn on_its_nodes(&self, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        match job.node_limit() {
            Some(limit) => self.on_nodes_of(limit, job, shape),
            None => Ok(()),
        }
    }

    #[cold]
    fn on_nodes_of(&self, limit: NodeLimit, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        if shape.gpus.get() != limit.nodes * limit.gpus {
            let found = shape.gpus;
            return Err(Reason::other(format!(
                "needs {limit}, the scheduler requests {found} GPUs"
            )));
        }
        let enough = |fits: &[Fit<'_>]| -> u64 {
            let each = fits.iter().filter(|fit| fit.most >= limit.gpus);
            each.map(|fit| u64::from(fit.alike.nodes)).sum()
        };
        let rule = |fits: &[Fit<'_>], _| enough(fits) >= u64::from(limit.nodes);
        self.holds(job, shape, Within::Cluster, rule)
            .map_err(|why| {
                let Reason::NeverFits(mut shortfall) = why else {
                    return why;
                };
                if shortfall.resource == Resource::Gpus {
                    let any = Shape {
                        cpus: 0.0,
                        memory_gib: 0.0,
                        ..shape.clone()
                    };
                    let its = Arc::make_mut(&mut shortfall);
                    its.resource = Resource::NodesWith(GpuCount(limit.gpus));
                    its.asked = Amount(f64::from(limit.nodes));
                    its.possible = Amount(enough(&self.fits(job, &any)) as f64);
                }
                Reason::NeverFits(shortfall)
            })
    }

    /// Checks whether nodes of one GPU type could hold a job, according to a check of the room with
    /// only these nodes.
    ///
    /// # Errors
    /// Returns what is missing: the reason of the type that comes closest.
    pub fn of_one_type(
        &self,
        job: &JobRef<'_>,
        shape: &Shape,
        check: impl Fn(&Room<'a>) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut types: SmallVec<[&str; 4]> = SmallVec::new();
        for fit in self.fits(job, shape) {
            if !types.contains(&fit.alike.gpu_type) {
                types.push(fit.alike.gpu_type);
            }
        }
        let mut closest: Option<Reason> = None;
        for gpu_type in &types {
            let Err(why) = check(&self.only(gpu_type)) else {
                return Ok(());
            };
            if closest.as_ref().is_none_or(|best| is_closer(&why, best)) {
                closest = Some(why);
            }
        }
        Err(match closest {
            None => self.shortfall(job, shape, Within::Cluster, |_, _| false),
            Some(why) => self.of_types(job, shape, types.len(), why),
        })
    }

    /// Checks whether a placement could hold one of the shapes of a job.
    ///
    /// # Errors
    /// Returns what is missing for the first shape. If shapes differ in their GPU type, it is the
    /// reason of the type that comes closest.
    pub(crate) fn of_shapes(
        &self,
        job: &JobRef<'_>,
        shapes: &[Shape],
        check: impl Fn(&Shape) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut types: SmallVec<[GpuTypeId; 4]> = SmallVec::new();
        let mut closest: Option<(Reason, &Shape)> = None;
        for shape in shapes {
            let Err(why) = check(shape) else {
                return Ok(());
            };
            let is_new = shape.gpu_type.is_some_and(|t| !types.contains(&t));
            let is_better = |(best, _): &(Reason, &Shape)| is_new && is_closer(&why, best);
            if closest.as_ref().is_none_or(is_better) {
                closest = Some((why, shape));
            }
            types.extend(shape.gpu_type.filter(|_| is_new));
        }
        Err(match closest {
            None => Reason::NotChosen,
            Some((why, shape)) if shape.gpu_type.is_some() => {
                let untyped = Shape {
                    gpu_type: None,
                    ..shape.clone()
                };
                self.of_types(job, &untyped, types.len(), why)
            }
            Some((why, _)) => why,
        })
    }

    /// Returns the reason of one of some GPU types as the reason of all of them.
    fn of_types(&self, job: &JobRef<'_>, shape: &Shape, types: usize, why: Reason) -> Reason {
        let Reason::NeverFits(mut shortfall) = why else {
            return why;
        };
        let gpus = (shortfall.resource, &shortfall.within) == (Resource::Gpus, &Within::Cluster);
        if types > 1 && gpus {
            Arc::make_mut(&mut shortfall).within = Within::OneType;
        }
        if gpus || types == 1 {
            Arc::make_mut(&mut shortfall).gpu_types = self.types_of(job, shape);
        }
        Reason::NeverFits(shortfall)
    }

    /// Checks whether the nodes could hold a job, according to a rule that gets the nodes on which
    /// the job runs, and the number of GPUs. `within` says what the rule restricts a job to.
    ///
    /// # Errors
    /// Returns what is missing: GPUs if the rule refuses the job even without its CPUs and memory.
    pub fn holds(
        &self,
        job: &JobRef<'_>,
        shape: &Shape,
        within: Within,
        rule: impl Fn(&[Fit<'_>], u32) -> bool,
    ) -> Result<(), Reason> {
        match rule(&self.fits(job, shape), shape.gpus.get()) {
            true => Ok(()),
            false => Err(self.shortfall(job, shape, within, rule)),
        }
    }

    /// Returns what is missing for a job that a rule refuses.
    #[cold]
    fn shortfall(
        &self,
        job: &JobRef<'_>,
        shape: &Shape,
        within: Within,
        rule: impl Fn(&[Fit<'_>], u32) -> bool,
    ) -> Reason {
        let with = |cpus, memory_gib| {
            let shape = Shape {
                cpus,
                memory_gib,
                ..shape.clone()
            };
            self.fits(job, &shape)
        };
        let needed = shape.gpus.get();
        let fits = with(0.0, 0.0);
        let gpu_types = self.types_of(job, shape);
        let extras = job.spec().extras();
        if fits.is_empty() && gpu_types.is_empty() && !extras.runs_anywhere() {
            return Reason::other(match extras.speeds {
                Some(_) => "has a speed above 0 on no type of GPU that it may use",
                None => "may use no type of GPU",
            });
        }
        let largest = |of: fn(&Alike<'_>) -> f64| {
            let amounts = fits.iter().map(|fit| of(&fit.alike));
            Amount(amounts.fold(0.0, f64::max))
        };
        let gpus = |within: &Within| match within {
            Within::OneNode => largest(|alike| f64::from(alike.gpus)),
            _ => {
                let all = |alike: Alike<'_>| f64::from(alike.gpus) * f64::from(alike.nodes);
                Amount(fits.iter().fold(0.0, |sum, fit| sum + all(fit.alike)))
            }
        };
        let (resource, asked, possible, within) = if !rule(&fits, needed) {
            let possible = gpus(&within);
            (Resource::Gpus, Amount::from(shape.gpus), possible, within)
        } else if rule(&with(0.0, shape.memory_gib), needed) {
            let largest = largest(|alike| alike.cpus);
            (Resource::Cpus, Amount(shape.cpus), largest, Within::OneNode)
        } else {
            let (asked, largest) = (Amount(shape.memory_gib), largest(|alike| alike.memory_gib));
            (Resource::Memory, asked, largest, Within::OneNode)
        };
        Reason::NeverFits(Arc::new(Shortfall {
            resource,
            asked,
            possible,
            within,
            gpu_types,
            unused_level: None,
        }))
    }

    /// Returns the GPU types to which a job is restricted; empty if there is no restriction, or if
    /// the job runs on no type with a name.
    fn types_of(&self, job: &JobRef<'_>, shape: &Shape) -> Vec<Name> {
        let extras = job.spec().extras();
        let only = self.only.filter(|name| !name.is_empty());
        let wanted = shape.gpu_type.map(|t| type_name(self.view, t));
        if let Some(name) = only.or(wanted).filter(|name| !name.is_empty()) {
            return vec![name.into()];
        }
        let named: Vec<&Name> = match (&*extras.gpu_types, &extras.speeds, &extras.training) {
            ([], Some(speeds), _) => speeds.types().map(|(name, _)| name).collect(),
            ([], None, Some(training)) => training.types.keys().collect(),
            (named, ..) => named.iter().collect(),
        };
        let usable = |name: &&Name| !name.is_empty() && extras.runs_on(name);
        named.into_iter().filter(usable).cloned().collect()
    }
}

fn type_name(view: View<'_>, gpu_type: GpuTypeId) -> &str {
    let name = view.cluster().gpu_types().get(NameId(gpu_type.0));
    name.map_or("", Name::as_str)
}

/// Returns for how many of the shape's GPUs an empty node has GPUs, CPUs and memory.
fn most_on(alike: &Alike<'_>, shape: &Shape) -> u32 {
    let most = alike.gpus.min(shape.gpus.get());
    if !shape.has_resources() {
        return most;
    }
    let all = f64::from(shape.gpus.get());
    let enough = |count: &u32| {
        let part = f64::from(*count) / all;
        !is_too_much(shape.cpus * part, alike.cpus, alike.cpus)
            && !is_too_much(shape.memory_gib * part, alike.memory_gib, alike.memory_gib)
    };
    (1..=most).rev().find(enough).unwrap_or(0)
}

/// Takes whole nodes, the largest first, until a node has room for the rest. A job that fits on a
/// node takes only this node.
fn hold_as_whole_nodes(fits: &[Fit<'_>], needed: u32) -> bool {
    if fits.iter().any(|fit| fit.most >= needed) {
        return true;
    }
    let mut whole: SmallVec<[(u32, u32); 4]> = SmallVec::new();
    let mut parts = 0;
    for fit in fits {
        match fit.most == fit.alike.gpus && fit.most > 0 {
            true => whole.push((fit.most, fit.alike.nodes)),
            false => parts = parts.max(fit.most),
        }
    }
    whole.sort_unstable_by_key(|(gpus, _)| std::cmp::Reverse(*gpus));
    let mut left = needed;
    for at in 0..whole.len() {
        let (gpus, nodes) = whole[at];
        for rest in (0..nodes).rev() {
            left -= gpus.min(left);
            // The next node that is wholly free is the largest of the others.
            let next = match rest {
                0 => whole.get(at + 1).map_or(0, |(gpus, _)| *gpus),
                _ => gpus,
            };
            if left <= gpus && left <= next.max(parts) {
                return true;
            }
        }
    }
    false
}

/// Returns whether a reason comes closer to a job that fits than another: it misses CPUs or memory
/// only, or offers more GPUs.
fn is_closer(why: &Reason, other: &Reason) -> bool {
    let rank = |why: &Reason| match why {
        Reason::NeverFits(s) => Some((s.resource != Resource::Gpus, s.possible)),
        _ => None,
    };
    rank(why) > rank(other)
}

impl State {
    /// Checks whether the nodes together could ever hold a job that is not submitted, in one of
    /// the shapes of its specification. These are its gang, its levels with a speed, and one
    /// replica of a training job that changes its GPUs.
    ///
    /// ```
    /// use blox_core::{ClusterSpec, Extras, GpuCount, JobSpec, Seconds, State, Time};
    /// let state = State::new(&"2x4:v100".parse::<ClusterSpec>()?)?;
    /// let job = JobSpec::new(Time::ZERO, GpuCount(16), Seconds::new(600.0));
    /// let why = state.could_hold(&job.clone().into()).unwrap_err().to_string();
    /// assert_eq!(why, "asks for 16 GPUs, at most 8 are possible");
    /// let levels = vec![GpuCount(8), GpuCount(16)];
    /// let elastic = job.with_extras(Extras { levels, ..Extras::default() });
    /// assert_eq!(state.could_hold(&elastic.into()), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns what is missing for the smallest of these shapes.
    pub fn could_hold(&self, spec: &Arc<JobSpec>) -> Result<(), Reason> {
        let room = Room::of(View::of(self));
        self.with_candidate(spec, |job| {
            let shapes: Vec<Shape> = own_sizes(spec)
                .into_iter()
                .map(|gpus| Shape::sized(&job, gpus))
                .collect();
            room.of_shapes(&job, &shapes, |shape| {
                room.on_its_nodes(&job, shape)?;
                room.anywhere(&job, shape)
            })
        })
    }
}

/// Returns the GPU counts on which a job could run according to its specification, the smallest
/// first.
fn own_sizes(spec: &JobSpec) -> Vec<GpuCount> {
    let extras = spec.extras();
    let levels = extras.levels.iter().copied();
    let mut sizes: Vec<GpuCount> = levels
        .filter(|gpus| spec.rate_at(*gpus).is_none_or(|rate| rate > 0.0))
        .collect();
    if let Some(training) = extras.training.as_deref()
        && training.adapts != Adapts::Nothing
    {
        let stages = training.types.values().map(|limits| limits.stages);
        sizes.extend(stages.map(GpuCount));
    }
    sizes.push(spec.gpus);
    sort::by_key(&mut sizes, |gpus| *gpus);
    sizes
}

impl View<'_> {
    /// Returns the largest number of a shape's GPUs that an empty node in view could hold, with the
    /// shape's CPUs and memory for them. Nodes that are down count, since they may return.
    #[inline]
    pub fn largest_part(&self, job: &JobRef<'_>, shape: &Shape) -> GpuCount {
        let kinds = self.cluster().kinds();
        // A placement that keeps jobs on one node if possible asks for the number at each decision.
        if let ([kind], None, false) = (kinds, self.virtual_cluster(), job.has_extras())
            && shape.gpu_type.is_none()
            && !shape.has_resources()
        {
            return GpuCount(kind.gpus.min(shape.gpus.get()));
        }
        let fits = Room::of(*self).fits(job, shape);
        GpuCount(fits.iter().map(|fit| fit.most).max().unwrap_or(0))
    }
}
