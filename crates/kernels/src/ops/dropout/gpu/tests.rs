use crate::dropout;
use crate::machine::device::adapter;
use crate::testing::{assert_fused_on, list, numbers, tensor};
use burn::tensor::Device;
use longwave_core::random::StreamKey;

/// Blocks of the generator that end within the tensor, and more of them than a cube takes.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("dropout on the GPU") else { return };
    for count in [1, 15, 16, 17, 37, 1000, 100_003] {
        let key = StreamKey::new(3, "block 0", count as u64);
        let what = format!("dropout of {count}");
        assert_fused_on(&device, &what, &[numbers(1, count)], |x| dropout(x[0].clone(), 0.3, key));
    }
}

#[test]
fn it_drops_what_the_cpu_drops() {
    let Some(device) = adapter("dropout on the GPU") else { return };
    let drop = |device: &Device| {
        // Rows that do not lie contiguously.
        let x = tensor::<3>(1, [5, 7, 66], device).swap_dims(0, 1);
        list(dropout(x, 0.1, StreamKey::new(1, "blocks.0.attention", 77)))
    };
    assert_eq!(drop(&device), drop(&Device::flex()));
}
