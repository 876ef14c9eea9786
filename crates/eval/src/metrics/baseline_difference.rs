//! `baseline_difference`: the loss minus that of the window baseline.

use super::loss::NLL;
use super::measure::Measure;
use super::sums::{Documents, Facts};

/// The loss minus that of the window baseline of the same run at the same length, in nats per token.
#[derive(Clone, Copy, Debug)]
pub struct BaselineDifference;

impl Measure for BaselineDifference {
    fn unit(&self) -> &'static str {
        "nats per token"
    }

    fn needs_baseline(&self) -> bool {
        true
    }

    fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        Some(facts.values.get("nll")? - facts.baseline?.0.get("nll")?)
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        let (sums, baseline) = (facts.per_document?, facts.baseline?.1?);
        if baseline.tokens != sums.tokens {
            return None;
        }
        let (nll, base) = (sums.get(NLL.name)?, baseline.get(NLL.name)?);
        let differences = nll.iter().zip(base).map(|(nll, base)| nll - base);
        Some(Documents { sums: differences.collect(), weights: sums.tokens.clone() })
    }

    fn title(&self) -> &'static str {
        "Difference to the window baseline in nats"
    }
}
