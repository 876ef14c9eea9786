//! Training in half precision beside training in f32, on any device.

#![allow(missing_docs, unreachable_pub, reason = "each test file uses a part")]

use super::Project;
use super::trainer::{metrics, train_until_on};
use burn::tensor::Device;
use longwave_kernels::Precision;
use longwave_train::Outcome;
use longwave_train::metrics::Metric;

/// How far losses may lie from those of f32 from the same start on the same batches, in unit roundoffs of the
/// precision (2^-11 and 2^-8), relative to the loss.
///
/// One pass rounds the factors and the result of every product, each by at most one unit. The errors of many numbers
/// average out in the mean loss of a batch, and those of the gradients move the weights by as little; so the losses
/// stay within one rounding of each other. Over six seeds of this training it was at most 0.4 in f16 and 0.8 in bf16.
pub const UNITS: f64 = 2.0;

const STEPS: usize = 48;

fn trained(project: &Project, precision: Precision, seed: u64, device: &Device) -> Vec<Metric> {
    let changes = [
        format!("train.precision={precision}"),
        format!("seed={seed}"),
        format!("train.steps={STEPS}"),
        "train.validate_every=8".to_owned(),
        "evaluate=[]".to_owned(),
    ];
    let folder = format!("{precision}-{seed}");
    assert_eq!(train_until_on(project, &folder, usize::MAX, &changes, device), Outcome::Done);
    metrics(project, &folder)
}

/// Trains in a precision and in f32 with so many seeds; the losses of every step and of every validation must agree.
pub fn hold_losses(precision: Precision, device: &Device, seeds: u64) {
    let project = Project::new();
    for seed in 0..seeds {
        let [half, full] =
            [precision, Precision::F32].map(|precision| trained(&project, precision, seed, device));
        assert_eq!((half.len(), full.len()), (STEPS, STEPS));
        assert!(full[STEPS - 1].loss < full[0].loss - 1.0, "nothing is learned");
        let mut furthest = 0.0_f64;
        for (half, full) in half.iter().zip(&full) {
            assert!(!half.skipped, "{precision}: step {} was left out", half.step);
            assert_eq!(half.loss_scale.is_some(), precision == Precision::F16);
            let losses = [(half.loss, Some(full.loss)), (half.valid_loss.unwrap_or(0.0), full.valid_loss)];
            for (half_loss, full_loss) in losses {
                let Some(full_loss) = full_loss else { continue };
                let apart = (half_loss - full_loss).abs() / full_loss / precision.unit_roundoff();
                furthest = furthest.max(apart);
                assert!(
                    apart <= UNITS,
                    "{precision}, step {}: {half_loss}, f32 {full_loss}: {apart:.2}",
                    full.step
                );
            }
        }
        // As if computed in f32, they would be the same but for rounding errors of that.
        assert!(furthest > 0.01, "{precision}: {furthest} units from f32");
    }
}
