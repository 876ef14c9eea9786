use super::*;
use crate::machine::device::adapter;
use crate::testing::numbers;
use burn::backend::DispatchDevice;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Device, TensorData};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::slice;
use burn_cubecl::ops::into_data_sync;
use std::io::Write;
use std::sync::LazyLock;

/// In a process with this variable, kernels check their bounds and say so.
const CHECKED: &str = "LONGWAVE_TEST_CHECKED_KERNELS";

/// Every kernel of this crate.
const KERNELS: &[&str] = &[
    "forward_kernel",
    "piece_kernel",
    "merge_pieces_kernel",
    "backward_kernel",
    "distance_kernel",
    "split_kernel",
    "merge_kernel",
    "rotate_kernel",
    "update_kernel",
    "norm_kernel",
    "norm_gradient_kernel",
    "gelu_kernel",
    "gelu_gradient_kernel",
    "swiglu_kernel",
    "swiglu_gradient_kernel",
    "loss_kernel",
    "dropout_kernel",
    "sum_kernel",
    "fill_kernel",
    "squares_kernel",
    "clip_kernel",
];

pub(crate) fn checked(kernel: &str) -> bool {
    static ASKED: LazyLock<bool> = LazyLock::new(|| std::env::var_os(CHECKED).is_some());
    if *ASKED {
        writeln!(std::io::stderr(), "checked {kernel}").unwrap();
    }
    *ASKED
}

/// The tests named `odd_shapes` compare every kernel with its reference over sizes that no tile and no vector divides.
/// Here they run once more in a process whose kernels check their bounds: a write past the end of a buffer would
/// change its last number, and a read past it would be of another number.
#[test]
fn every_kernel_stays_within_its_buffers() {
    if adapter("kernels that check their bounds").is_none() {
        return;
    }
    let arguments = ["odd_shapes", "--nocapture", "--test-threads=1"];
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(arguments).env(CHECKED, "1").output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    for kernel in KERNELS {
        assert!(err.lines().any(|line| line == format!("checked {kernel}")), "{kernel} did not run:\n{out}");
    }
}

/// Numbers in rows of which each is followed by a gap, as runtimes that pad rows allocate them.
fn padded([rows, columns]: [usize; 2], device: &Device) -> CubeTensor {
    const GAP: usize = 64;
    let device = match device.as_dispatch() {
        DispatchDevice::Cube(device) => device.clone(),
        _ => panic!("not on the GPU"),
    };
    let data = TensorData::new(numbers(1, rows * (columns + GAP)), [rows, columns + GAP]);
    let padded = slice(CubeBackend::float_from_data(data, &device), &[0..rows, 0..columns]);
    assert_eq!(padded.meta.strides().to_vec(), [columns + GAP, 1], "rows that lie apart");
    padded
}

fn list(tensor: CubeTensor) -> Vec<f32> {
    into_data_sync(tensor).try_to_vec().unwrap()
}

/// What kernels count in lies in row-major order, whatever it is made from or beside.
#[test]
fn tensors_to_count_in_lie_contiguously() {
    let Some(device) = adapter("tensors on the GPU") else { return };
    for columns in [1, 37, 48, 96, 300] {
        let padded = padded([6, columns], &device);
        let expected = list(padded.clone());
        let contiguous = |x: &CubeTensor, strides: &[usize]| {
            assert_eq!(x.meta.strides().to_vec(), strides);
            linear(x);
        };
        contiguous(&empty(&padded, [2, 3, columns]), &[3 * columns, columns, 1]);
        let zeros = zeros(&padded, vec![2, 3, columns]);
        contiguous(&zeros, &[3 * columns, columns, 1]);
        assert_eq!(list(zeros), vec![0.0; 6 * columns]);
        for same in [copied(padded.clone()), into_contiguous(padded)] {
            contiguous(&same, &[columns, 1]);
            assert_eq!(list(same), expected);
        }
    }
}

#[test]
#[should_panic(expected = "a kernel counts in a tensor")]
fn rows_that_lie_apart_are_not_counted_in() {
    let Some(device) = adapter("tensors on the GPU") else { panic!("a kernel counts in a tensor: left out") };
    linear(&padded([3, 37], &device));
}
