//! The one global switch; in its own process, because it acts on every thread.

use burn::tensor::{Device, Tensor};
use longwave_kernels::{gelu, reference_in_use, use_reference};

#[test]
fn the_switch_sends_operations_to_the_reference() {
    let x = Tensor::<1>::from_floats([-4.5], &Device::flex()).reshape([1, 1, 1]);
    let value = || gelu(x.clone()).into_scalar::<f32>();
    assert!(!reference_in_use());
    let fused = value();
    use_reference(true);
    assert!(reference_in_use());
    let reference = value();
    use_reference(false);
    assert_eq!(value().to_bits(), fused.to_bits());
    // 1 + erf cancels this far out; the fused form computes the tail itself.
    assert_ne!(fused.to_bits(), reference.to_bits());
    assert!((fused - reference).abs() < 1e-6);
    assert!((fused - -1.528_952_9e-5).abs() < 2e-11, "{fused}");
}
