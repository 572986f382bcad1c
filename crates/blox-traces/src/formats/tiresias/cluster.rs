use crate::source::Source;
use crate::table::Table;
use blox_core::{ClusterSpec, MAX_GPUS_PER_NODE, Name, NodeSpec};
use blox_sim::workload::WorkloadError;
use std::path::Path;

const COLUMNS: [&str; 5] = [
    "num_switch",
    "num_node_p_switch",
    "num_gpu_p_node",
    "num_cpu_p_node",
    "mem_p_node",
];

/// Largest number of nodes, so that a typing error does not exhaust the memory.
const MOST_NODES: u32 = 1_000_000;

/// Reads a cluster in Tiresias' layout, see the [module](super).
///
/// # Errors
/// If the file cannot be read, lacks a column, or does not have exactly one row with a valid
/// cluster.
pub fn read_cluster(path: impl AsRef<Path>) -> Result<ClusterSpec, WorkloadError> {
    read_source(&Source::at(path.as_ref())?)
}

fn read_source(source: &Source) -> Result<ClusterSpec, WorkloadError> {
    let mut table = super::open_table(source)?;
    let [switches, nodes, gpus, cpus, memory] = table.require(COLUMNS)?;
    let one_row = |table: &Table, found: &str| {
        let what = format!("found {found}, expected one row below the header");
        WorkloadError::line(table.path(), table.line(), what)
    };
    if !table.advance()? {
        return Err(one_row(&table, "none"));
    }
    let (switch_count, node_count) = (table.count(switches)?, table.count(nodes)?);
    if node_count > MOST_NODES / switch_count.min(MOST_NODES) {
        return Err(table.wrong(nodes, "at most a million nodes in all"));
    }
    let gpu_count = table.count(gpus)?;
    if gpu_count > MAX_GPUS_PER_NODE {
        let expected = format!("a whole number from 1 to {MAX_GPUS_PER_NODE}");
        return Err(table.wrong(gpus, &expected));
    }
    let amount = "a number of at least 0";
    let node = NodeSpec {
        cpus: table.number(cpus, |x| x >= 0.0, amount)?,
        memory_gib: table.number(memory, |x| x >= 0.0, amount)?,
        ..NodeSpec::with_gpus(gpu_count)
    };
    if table.advance()? {
        return Err(one_row(&table, "another row"));
    }
    let on_switch = |switch: u32| {
        let location = vec![Name::from(format!("switch-{switch}"))];
        let node = NodeSpec {
            location,
            ..node.clone()
        };
        std::iter::repeat_n(node, node_count as usize)
    };
    Ok(ClusterSpec {
        nodes: (0..switch_count).flat_map(on_switch).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &str) -> Result<ClusterSpec, String> {
        let text = format!("{}\n{rows}", COLUMNS.join(","));
        Source::of("c.csv", text.as_bytes())
            .and_then(|source| read_source(&source))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_row_is_a_cluster() {
        let cluster = read("2,3,4,48,256").unwrap();
        assert_eq!((cluster.nodes.len(), cluster.total_gpus()), (6, 24));
        let node = &cluster.nodes[3];
        assert_eq!((node.cpus, node.memory_gib), (48.0, 256.0));
        assert_eq!(node.location, [Name::from("switch-1")]);
    }

    #[test]
    fn cells_may_stand_between_spaces() {
        let text = format!("{} note\r\n1 2 8 96 500 x", COLUMNS.join(" "));
        let cluster = read_source(&Source::of("c.txt", text.as_bytes()).unwrap()).unwrap();
        assert_eq!((cluster.nodes.len(), cluster.total_gpus()), (2, 16));
    }

    #[test]
    fn other_rows_are_refused() {
        assert_eq!(
            read("1,1,65,1,1").unwrap_err(),
            "c.csv: line 2: num_gpu_p_node is `65`, expected a whole number from 1 to 64"
        );
        assert_eq!(
            read("").unwrap_err(),
            "c.csv: line 1: found none, expected one row below the header"
        );
        assert_eq!(
            read("1,1,1,1,1\n1,1,1,1,1\n").unwrap_err(),
            "c.csv: line 3: found another row, expected one row below the header"
        );
        assert!(read("4000000000,4000000000,1,1,1").is_err());
    }
}
