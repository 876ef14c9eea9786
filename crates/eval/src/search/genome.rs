//! What a search changes: a factor for every band, and the positions read as trained.

use longwave_core::random::Stream;
use serde::{Deserialize, Serialize};

/// Factors are multiples of one over this.
pub(super) const STEPS: f64 = 100.0;

/// One reading: a factor for every band in hundredths, ascending, and the positions read as trained. Where a band is
/// critical, `factors` are those from it on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Genome {
    pub(super) factors: Vec<u64>,
    pub(super) n_hat: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) critical: Option<usize>,
}

impl Genome {
    /// The factor of every band. Those before a critical band r are NTK's, with the base that gives r its factor.
    pub(super) fn factors(&self) -> Vec<f64> {
        let given = self.factors.iter().map(|&factor| factor as f64 / STEPS);
        let critical = self.critical.unwrap_or(0);
        let at_critical = self.factors.first().map_or(1.0, |&factor| factor as f64 / STEPS);
        let before = (0..critical).map(|band| at_critical.powf(band as f64 / critical as f64));
        before.chain(given).collect()
    }

    /// Draws some of the factors again, from `lowest` to `highest` hundredths.
    pub(super) fn redraw(&mut self, chance: f64, [lowest, highest]: [u64; 2], stream: &mut Stream) {
        for factor in &mut self.factors {
            if stream.uniform() < chance {
                *factor = lowest + stream.below(highest - lowest + 1);
            }
        }
        self.factors.sort_unstable();
    }
}
