//! Prices of offers over time, and nodes that a provider takes back.
//!
//! A table with the columns `time_s`, `offer`, `price` and `reclaim`. Each row is either a price of an
//! hour of a node from this time on, or a number of nodes that the provider takes back:
//!
//! ```csv
//! time_s,offer,price,reclaim
//! 0,spot,3.67,
//! 7200,spot,4.10,
//! 9000,spot,,2
//! ```

use crate::source::Source;
use crate::table::Table;
use blox_core::{ClusterSpec, Event, OfferId, Time};
use blox_workloads::WorkloadError;
use std::path::Path;

/// Reads the events of the offers of a cluster, in the order of the rows.
///
/// # Errors
/// The file cannot be read, lacks a column, or has a row with an unknown offer or without one value.
pub fn read_prices(
    path: impl AsRef<Path>,
    cluster: &ClusterSpec,
) -> Result<Vec<(Time, Event)>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [time, offer, price, reclaim] = table.require(["time_s", "offer", "price", "reclaim"])?;
    let names: Vec<&str> = cluster.offers.iter().map(|o| o.name.as_str()).collect();
    let mut all = Vec::new();
    while table.advance()? {
        let at = Time::new(table.get(time.of::<f64>())?);
        let known = names.iter().position(|name| *name == table.text(offer));
        let expected = || match names.is_empty() {
            true => "a cluster with offers".to_owned(),
            false => format!("an offer of the cluster: {}", names.join(", ")),
        };
        let known = known.ok_or_else(|| table.wrong(offer, &expected()))?;
        let offer = OfferId(known as u32);
        let event = match [price, reclaim].map(|cell| !table.text(cell).is_empty()) {
            [true, false] => Event::Priced {
                offer,
                price: table.get(price.of::<f64>())?,
            },
            [false, true] => Event::Reclaimed {
                offer,
                count: table.count(reclaim)?,
            },
            [true, true] => {
                let expected = "an empty cell, because `reclaim` has a number of nodes";
                return Err(table.wrong(price, expected));
            }
            [false, false] => {
                return Err(table.wrong(price, "a price, or a number of nodes in `reclaim`"));
            }
        };
        all.push((at, event));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(rows: &str) -> Result<Vec<(Time, Event)>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "time_s,offer,price,reclaim\n{rows}").unwrap();
        let cluster = "+8x4=3,+2x8=20".parse().unwrap();
        let name = file.path().display().to_string();
        read_prices(file.path(), &cluster).map_err(|e| e.to_string().replace(&name, "p.csv"))
    }

    #[test]
    fn rows_are_prices_and_reclaimed_nodes() {
        let (small, large) = (OfferId(0), OfferId(1));
        let events = read("0,offer-0,3.67,\n7200,offer-1,,2\n").unwrap();
        let expected = [
            (
                0.0,
                Event::Priced {
                    offer: small,
                    price: 3.67,
                },
            ),
            (
                7200.0,
                Event::Reclaimed {
                    offer: large,
                    count: 2,
                },
            ),
        ];
        assert_eq!(events, expected.map(|(at, event)| (Time::new(at), event)));
    }

    #[test]
    fn wrong_rows_name_the_cell() {
        for (rows, error) in [
            (
                "0,spot,1,\n",
                "p.csv:2: offer is `spot`, expected an offer of the cluster: offer-0, offer-1",
            ),
            (
                "0,offer-0,,\n",
                "p.csv:2: price is ``, expected a price, or a number of nodes in `reclaim`",
            ),
            (
                "0,offer-0,1,1\n",
                "p.csv:2: price is `1`, expected an empty cell, because `reclaim` has a number of nodes",
            ),
            (
                "0,offer-0,-1,\n",
                "p.csv:2: price is `-1`, expected a number of at least 0",
            ),
            (
                "x,offer-0,1,\n",
                "p.csv:2: time_s is `x`, expected a number of at least 0",
            ),
        ] {
            assert_eq!(read(rows).unwrap_err(), error);
        }
    }
}
