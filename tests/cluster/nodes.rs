//! Jobs that must run on a number of nodes.

use super::*;

/// Returns the nodes of a running job by name. They join the cluster in any order.
fn nodes_of_job(c: &Cluster, job: u64) -> Vec<String> {
    let nodes = c.job(job)["nodes"].clone();
    let mut nodes: Vec<String> = serde_json::from_value(nodes).unwrap_or_default();
    nodes.sort_unstable();
    nodes
}

#[test]
fn job_runs_on_its_number_of_nodes_or_waits() {
    let mut c = Cluster::start("fifo", &[3, 3]);
    let sleep = ["--", "sleep", "600"];
    let submit = |c: &Cluster, options: &[&str]| c.submit(&[options, &sleep].concat());
    let spread = submit(&c, &["--nodes", "2", "--gpus-per-node", "2"]);
    c.until_phase(spread, "running");
    assert_eq!(nodes_of_job(&c, spread), ["n0", "n1"]);
    // One GPU is free on each node.
    let together = submit(&c, &["-N", "1", "--gpus", "2"]);
    let needs = format!("job {together} is waiting: needs 2 free GPUs on one node");
    let waits = |c: &Cluster| {
        let why = c.run(&["why", &together.to_string()]);
        why.is_ok_and(|why| why.contains(&needs))
    };
    c.until("the job waits for a node", waits);
    // The log has the number of nodes.
    c.restart_scheduler("fifo");
    c.until("the job waits for a node again", waits);
    c.run(&["cancel", &spread.to_string()]).unwrap();
    c.until_phase(together, "running");
    assert_eq!(nodes_of_job(&c, together).len(), 1);
    for (options, expected) in [
        (
            &["--nodes", "3", "--gpus-per-node", "1"][..],
            "asks for 3 nodes with 1 GPU each, the cluster has 2",
        ),
        (
            &["--nodes", "1", "--gpus", "4"],
            "asks for 1 node with 4 GPUs, the cluster has none",
        ),
        (
            &["--nodes", "2", "--gpus", "3"],
            "--nodes is `2`, expected a number that divides the 3 GPUs",
        ),
        (
            &["--nodes", "2", "--gpus", "4", "--levels", "2,4"],
            "--nodes fixes the GPUs of the job, expected it without --levels and --training",
        ),
    ] {
        let error = c.run(&[&["submit"], options, &sleep].concat()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
