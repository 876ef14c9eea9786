//! Every bias over shapes, windows, offsets and query scales.

use super::*;

#[test]
fn every_bias_in_every_case() {
    for (case, kinds) in cases() {
        for kind in kinds {
            case.check(kind);
        }
    }
}
