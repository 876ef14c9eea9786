use super::AT_ONCE;
use crate::machine::device::adapter;
use crate::ops::norm::tests::all_agree;
use crate::{machine::device::counted, rms_norm, sum, testing::tensor};

/// The last number of rows that one launch takes, and more: there each cube adds up its own rows.
#[test]
fn many_rows_agree_with_the_reference() {
    let Some(device) = adapter("norms on the GPU") else { return };
    all_agree(&device, &[[2, AT_ONCE / 2, 4], [1, AT_ONCE + 1, 3]]);
}

/// One launch backward, and another one where the sums of many rows are added up.
#[test]
fn the_rows_decide_how_many_launches_there_are() {
    let Some(device) = adapter("launches of a norm") else { return };
    let device = device.autodiff();
    let [few, most, many] = [2, AT_ONCE, AT_ONCE + 1].map(|rows| {
        let x = tensor::<2>(1, [rows, 4], &device).require_grad();
        let gain = tensor::<1>(2, [4], &device).require_grad();
        let loss = sum(rms_norm(x, gain, 1e-5));
        counted(|| loss.backward()).1
    });
    assert_eq!(few.launches, most.launches);
    assert_eq!(many.launched(), few.launched() + 1, "{many:?} {few:?}");
}
