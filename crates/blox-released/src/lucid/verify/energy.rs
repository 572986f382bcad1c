//! Cases of Helios' energy service: decisions made from its recorded forecast.

use super::unreadable;
use crate::lucid::files;
use crate::verify::{Case, Compared, VerifyError};
use blox_policies::cluster::{PowerPlan, PowerRule};
use blox_traces::parse_date;

pub(super) fn recognises(case: &Case) -> bool {
    let columns = ["prediction", "powered_on", "change", "lack"];
    columns.iter().all(|c| case.expected.has(c))
}

pub(super) fn compare(case: &Case, system: &'static str) -> Result<Compared, VerifyError> {
    let e = &case.expected;
    let column = |name: &str| e.column(name);
    let (time, active, total) = (column("time")?, column("active")?, column("total")?);
    let prediction = column("prediction")?;
    let Some(first) = e.rows.first() else {
        return Ok(Compared::of(case, system));
    };
    let from = parse_date(&first[time])
        .ok_or_else(|| e.wrong(0, time, "a date such as 2017-12-01 00:00:00"))?;
    let path = case.input("philly_node_sequence.csv")?;
    let nodes = files::read_node_sequence(path, from, e.rows.len());
    let nodes = nodes.map_err(|e| unreadable(case, e))?;
    let forecast: Vec<f64> = (0..e.rows.len())
        .map(|row| e.number(row, prediction))
        .collect::<Result<_, _>>()?;
    let mut out = Compared::of(case, system);
    let mut plan = PowerPlan::new(PowerRule::default());
    for (i, row) in e.rows.iter().enumerate() {
        let what = format!("look {}", row[time]);
        let (in_use, there) = nodes[i];
        let look = plan.look(in_use, there, &forecast[i..]);
        let number = |n: i64| Some(n as f64);
        out.number(&what, "active", &row[active], number(in_use));
        out.number(&what, "total", &row[total], number(there));
        for (name, found) in [
            ("powered_on", look.on),
            ("change", look.change),
            ("lack", look.lack),
        ] {
            out.number(&what, name, &row[column(name)?], number(found));
        }
        out.jobs += 1;
    }
    Ok(out)
}
