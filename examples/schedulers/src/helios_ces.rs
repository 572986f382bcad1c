use blox::core::{Composition, Pipeline, Seconds};
use blox::estimate::Log;
use blox::policies::cluster::{PowerRule, PowerSaving};
use blox::policies::placement::{Consolidated, InOrder};
use blox::policies::scheduling::Fifo;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    numeric(
        "buffer",
        PowerRule::DEFAULT.buffer as f64,
        "nodes kept on beyond the nodes in use",
    ),
    numeric(
        "keep",
        PowerRule::DEFAULT.keep as f64,
        "intervals of 10 minutes after switching on in which no node is switched off",
    ),
    param(
        "forecast",
        "none",
        "a CSV file with a column `prediction`, a row every 10 minutes",
    ),
];

/// First in, first out on a cluster that switches idle nodes off (Helios, SC 2021, section 4.3: the
/// cluster energy saving service).
///
/// **Rule.** Every 10 minutes, the service reads the nodes in use and a forecast of them for the
/// next hours. If more nodes are in use than on, nodes are switched on, with a buffer, and stay on
/// for `keep` checks. If demand has fallen and is forecast to fall, all idle nodes beyond the
/// buffer are switched off. See [`PowerSaving`], a cluster manager that works with any other
/// scheduler.
///
/// **Parameters** (command line): `buffer` in nodes, `keep` in checks, `forecast` (a file with a
/// column `prediction`, one value per check; without it, demand is expected to stay constant).
///
/// **Verified.** Given the forecast of Helios' service, its decisions equal that service on
/// Philly's nodes, at all 2016 checks of two weeks.
///
/// **Claims.** 3 of 4 claims of the paper hold here, 1 does not hold: `blox policies helios-ces`.
pub fn helios_ces() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

/// Returns [`helios_ces`] with another rule, and a forecast of the nodes in use at each check from
/// the start on; empty for none.
pub fn helios_ces_with(rule: PowerRule, forecast: Vec<f64>) -> Pipeline {
    let looks = Seconds::new(600.0);
    Composition::new("helios-ces")
        .in_rounds(Seconds::new(60.0))
        .cluster(PowerSaving::new(rule, looks, forecast))
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect("each role is taken once")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let forecast = match p.text("forecast") {
        "none" => Vec::new(),
        path => Log::read(path)
            .and_then(|log| log.numbers("prediction"))
            .map_err(|e| p.wrong("forecast", format!("a file of forecasts ({e})")))?,
    };
    let rule = PowerRule {
        buffer: from_zero(p, "buffer")? as i64,
        keep: from_zero(p, "keep")? as usize,
        ..PowerRule::DEFAULT
    };
    Ok(helios_ces_with(rule, forecast))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "helios-ces",
            "first in, first out; idle nodes are switched off by a forecast of the demand",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_notice_if(
            ("forecast", "none"),
            "no forecast is given (forecast=FILE.csv): demand is expected to stay constant",
        );
}
