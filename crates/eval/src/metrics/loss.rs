//! `loss`: the mean negative log likelihood.

use super::measure::{Absent, Column, Measure};
use super::sums::TokenSum;

/// The negative log likelihood of a target in nats.
pub(super) const NLL: TokenSum = TokenSum { name: "nll", of: |score| score.nll, counts: false };

/// Mean negative log likelihood, in nats per token.
#[derive(Clone, Copy, Debug)]
pub struct Loss;

impl Measure for Loss {
    fn unit(&self) -> &'static str {
        "nats per token"
    }

    fn column(&self) -> Option<Column> {
        Some(Column { absent: Absent::Never, ..Column::new("nll", "nll_se") })
    }

    fn token_sum(&self) -> Option<TokenSum> {
        Some(NLL)
    }

    fn title(&self) -> &'static str {
        "Loss in nats per token"
    }
}
