use crate::ONCE;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::cluster::{PowerRule, PowerSaving};
use blox_policies::{
    placement::{Consolidated, Walk},
    scheduling::Fifo,
};

/// What can be chosen about [`helios_ces`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeliosCesParams {
    /// When nodes are switched off and on.
    pub rule: PowerRule,
    /// Nodes in use at each look from the start on, as forecast; empty for none.
    pub forecast: Vec<f64>,
}

/// First in, first out on a cluster whose idle nodes sleep (Helios, SC 2021, section 4.3:
/// the cluster energy saving service).
///
/// **Rule.** Every 10 minutes the service looks at the nodes in use and at a forecast of
/// them for the next hours. More in use than on: they are switched on, with a buffer, and
/// stay on for 10 looks. Demand has fallen, and is forecast to fall: all idle nodes beyond the buffer
/// are switched off. See [`PowerSaving`], a cluster manager that goes with any other
/// scheduler.
///
/// **Parameters** (command line): `buffer` (20 nodes), `keep` (10 looks), `forecast` (a file
/// with a column `prediction`, one value a look; without it demand is expected to stay).
///
/// **Verified.** Its decisions equal those of Helios' service on Philly's nodes, given the
/// service's forecast, at all 2016 looks of two weeks.
pub fn helios_ces() -> Pipeline {
    helios_ces_with(HeliosCesParams::default())
}

/// [`helios_ces`] with other parameters.
pub fn helios_ces_with(params: HeliosCesParams) -> Pipeline {
    let looks = Seconds::new(600.0);
    Composition::new("helios-ces")
        .in_rounds(Seconds::new(60.0))
        .cluster(PowerSaving::new(params.rule, looks, params.forecast))
        .scheduling(Fifo::default())
        .placement(Walk::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}
