//! What the validations of a training say of its end: whether an earlier step was better.

use crate::checkpoint::Best;

/// Nats per token by which an earlier step must be better to be named: 1% of a perplexity, less than which the next batches may change.
const WORTH_SAYING: f64 = 0.01;

/// The validations of the last stage of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validated {
    /// The best, the first of several.
    pub best: Best,
    pub last: Best,
}

impl Validated {
    /// That of the losses of a stage's validations, in their order; `None` where there is none.
    pub fn of(losses: impl IntoIterator<Item = (u64, f64)>) -> Option<Self> {
        let losses = losses.into_iter().map(|(step, loss)| Best { step, loss });
        losses.fold(None, |so_far, last| {
            let better = |so_far: &Self| last.loss < so_far.best.loss || so_far.best.loss.is_nan();
            let best = so_far.filter(|so_far| !better(so_far)).map_or(last, |so_far| so_far.best);
            Some(Self { best, last })
        })
    }

    /// That an earlier step was better, in words; nothing where it was not by much.
    pub fn earlier(&self) -> Option<String> {
        let Self { best, last } = self;
        let gain = last.loss - best.loss;
        // A loss that is no number is worse than any.
        let is_worse = best.loss.is_finite() && (gain.is_nan() || gain >= WORTH_SAYING);
        (last.step > best.step && is_worse).then(|| {
            format!(
                "step {} was better on validation: loss {:.2} against {:.2} at the end",
                best.step, best.loss, last.loss
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier(losses: &[f64]) -> Option<String> {
        Validated::of((1..).map(|count| 50 * count).zip(losses.iter().copied()))?.earlier()
    }

    #[test]
    fn the_best_step_is_named_where_it_was_better() {
        assert_eq!(
            earlier(&[6.5, 5.9, 5.67, 8.1, 9.62]).unwrap(),
            "step 150 was better on validation: loss 5.67 against 9.62 at the end"
        );
        assert!(earlier(&[3.0, 2.0, 2.0, 2.5]).unwrap().starts_with("step 100 "), "the first of equal ones");
        assert!(earlier(&[3.0, f64::NAN]).unwrap().starts_with("step 50 "));
        assert!(earlier(&[f64::NAN, 3.0, 4.0]).unwrap().starts_with("step 100 "));
        for losses in [&[][..], &[3.0], &[3.0, 2.0], &[3.0, 2.0, 2.009]] {
            assert_eq!(earlier(losses), None, "{losses:?}");
        }
    }
}
