//! Cases of Helios' energy service: decisions made from its recorded forecast.

use crate::compared::{Case, Compared, VerifyError};
use crate::lucid::files;
use blox_policies::cluster::{PowerPlan, PowerRule};
use blox_traces::parse_date;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["prediction", "powered_on", "change", "lack"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let e = &case.expected;
    let [time, ..] = e.columns(["time", "prediction", "active", "total"])?;
    let Some(first) = e.rows.first() else {
        return Ok(());
    };
    let from = parse_date(&first[time])
        .ok_or_else(|| e.wrong(0, time, "a date such as 2017-12-01 00:00:00"))?;
    let path = case.input("philly_node_sequence.csv")?;
    let nodes = files::read_node_sequence(path, from, e.rows.len())?;
    let forecast = case.numbers("prediction")?;
    let mut plan = PowerPlan::new(PowerRule::DEFAULT);
    for (i, row) in e.rows.iter().enumerate() {
        let what = format!("look {}", row[time]);
        let (in_use, there) = nodes[i];
        let look = plan.look(in_use, there, &forecast[i..]);
        let found = [
            ("active", in_use),
            ("total", there),
            ("powered_on", look.on),
            ("change", look.change),
            ("lack", look.lack),
        ];
        out.numbers(
            &what,
            case,
            row,
            found.map(|(name, n)| (name, Some(n as f64))),
        );
        out.jobs += 1;
    }
    Ok(())
}
