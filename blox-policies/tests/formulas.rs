//! Orders by formulas conform.

use crate::composed;
use blox_policies::placement::{Consolidated, InOrder};
use blox_policies::scheduling::ByFormula;
use blox_testing::conformance;

/// Formulas with their promise: whether they preempt.
const FORMULAS: [(&str, bool); 6] = [
    ("-priority, submit", false),
    ("where(attained < 5min, 0, 1), submit", true),
    ("-age / (true_duration + 1s)", true),
    ("attained", true),
    ("where(age < 10min, 0, 1), estimate, gpus", true),
    (
        "deadline - now, min(true_left, 1h), where(user == 'a', 0, 1)",
        false,
    ),
];

#[test]
fn orders_by_formulas_conform() {
    for (text, preemptive) in FORMULAS {
        let build = |_| {
            let order = ByFormula::new(text.parse().unwrap());
            let order = if preemptive {
                order.preemptive()
            } else {
                order
            };
            composed(order, InOrder::new(Consolidated::default()))
        };
        let report = conformance(build).cases(40).check();
        let report = report.unwrap_or_else(|failure| panic!("{text}: {failure}"));
        assert!(report.completed > 100, "{text}: {report}");
        assert_eq!(report.preemptions > 0, preemptive, "{text}: {report}");
    }
}
