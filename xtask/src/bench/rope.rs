//! `cargo xtask bench rope`: the rotation, and the split of packed projections with the rotation of q and k.
//!
//! n numbers are read and n written, forward and backward, besides a table of `length x head_dim` numbers:
//! 8 n bytes. The peer is `x cos + turned(x) sin` by burn's own operations, for the split after the slices and transposes that
//! a model built from these would make.

use super::copy::copy;
use longwave::burn::tensor::{Device, Tensor};
use longwave_bench::clock::{Subject, Timing, subject};
use longwave_bench::{Bench, Direction, Record, numbers};
use longwave_core::{Error, Result};
use longwave_kernels::{Heads, Layout, RotationTable, rotate, split_rotate, with_gradients};
use longwave_position::Positions;
use longwave_position::frequency::{Frequencies, Rotation};

/// Numbers of q (or of packed q, k and v) that are measured unless others are asked for.
pub(crate) const ELEMENTS: [usize; 7] = [1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24];

/// Tokens of a sequence.
const LENGTH: usize = 128;
const HEADS: Heads = Heads { query: 4, key_value: 2, head_dim: 64 };
/// Numbers of one sequence's q, and of its packed q, k and v.
const SEQUENCE: usize = LENGTH * HEADS.query * HEADS.head_dim;
const PACKED: usize = 2 * SEQUENCE;
const PEER: &str = "burn's own operations";

/// What is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// q alone.
    Rotate(Layout),
    /// q and k out of packed q, k and v.
    Split(Layout),
}

impl Case {
    const ALL: [Self; 4] = [
        Self::Rotate(Layout::Half),
        Self::Rotate(Layout::Interleaved),
        Self::Split(Layout::Half),
        Self::Split(Layout::Interleaved),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Rotate(Layout::Half) => "rotate, half",
            Self::Rotate(Layout::Interleaved) => "rotate, interleaved",
            Self::Split(Layout::Half) => "split and rotate, half",
            Self::Split(Layout::Interleaved) => "split and rotate, interleaved",
        }
    }
}

/// Measures every case at every size, forward and backward.
pub(crate) fn run(
    bench: &Bench,
    elements: &[usize],
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    if let Some(wrong) = elements.iter().find(|&&elements| elements == 0 || elements % PACKED != 0) {
        let near = wrong.div_ceil(PACKED).max(1) * PACKED;
        return Err(Error::value("--elements", wrong, format!("it must be a multiple of {PACKED}"))
            .hint(format!("use {near}")));
    }
    for &elements in elements {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut subjects = vec![copy(elements, &bench.device)];
            for case in Case::ALL {
                subjects.push(ours(bench, case, elements, direction));
            }
            // Its time is the same whatever the layout, so each operation has one.
            let peers = [Case::Rotate(Layout::Half), Case::Split(Layout::Half)];
            for case in peers.into_iter().filter(|_| !bench.alone) {
                subjects.push(peer(bench, case, elements, direction));
            }
            let times = bench.clock.time(&mut subjects)?;
            for record in records(bench, elements, direction, &times) {
                show(record)?;
            }
        }
    }
    Ok(())
}

/// The records of one size: the copy, then every case.
fn records(bench: &Bench, elements: usize, direction: Direction, times: &[Timing]) -> Vec<Record> {
    let bytes = |table: usize| (8 * elements + 4 * table) as u64;
    let record = |case: &str, time: &Timing| Record::new("rope", case, direction, &bench.device_name, time);
    let Some((copy, times)) = times.split_first() else { return Vec::new() };
    let (ours, peers) = times.split_at(Case::ALL.len());
    let mut records = vec![record("copy", copy).moving(elements, bytes(0), Some(copy))];
    for (case, time) in Case::ALL.into_iter().zip(ours) {
        let peer = peers.get(usize::from(matches!(case, Case::Split(_))));
        records.push(
            record(case.name(), time)
                .moving(elements, bytes(LENGTH * HEADS.head_dim), Some(copy))
                .against(PEER, peer),
        );
    }
    records
}

fn table(layout: Layout, device: &Device) -> RotationTable {
    let frequencies = Frequencies::geometric(10_000.0, HEADS.head_dim);
    let [table, _] = Rotation::new(frequencies, layout).tables(&Positions::range(0..LENGTH), device);
    table
}

type Outputs = Vec<Tensor<4>>;

fn ours(bench: &Bench, case: Case, elements: usize, direction: Direction) -> Subject<'_> {
    let (Case::Rotate(layout) | Case::Split(layout)) = case;
    let table = table(layout, &bench.device);
    let operation = move |x: Tensor<3>| -> Outputs {
        let batch = x.dims()[0];
        match case {
            Case::Rotate(_) => {
                vec![rotate(x.reshape([batch, HEADS.query, LENGTH, HEADS.head_dim]), &table)]
            }
            Case::Split(_) => {
                let (q, k, v) = split_rotate(x, HEADS, Some(&table), Some(&table));
                vec![q, k, v]
            }
        }
    };
    measured(bench, case, elements, direction, operation)
}

/// The cosines and sines of both halves of the channels, `[1, 1, LENGTH, head_dim]`.
fn peer_tables(device: &Device) -> [Tensor<4>; 2] {
    let RotationTable { cos, sin, .. } = table(Layout::Half, device);
    [cos, sin].map(|half| Tensor::cat(vec![half.clone(), half], 2).unsqueeze_dim(1))
}

/// `x cos + turned(x) sin`, `[batch, heads, LENGTH, head_dim]`.
fn peer_rotated(x: Tensor<4>, [cos, sin]: &[Tensor<4>; 2]) -> Tensor<4> {
    let half = HEADS.head_dim / 2;
    let [first, second] = [0..half, half..2 * half].map(|part| x.clone().slice_dim(3, part));
    x * cos.clone() + Tensor::cat(vec![second.neg(), first], 3) * sin.clone()
}

fn peer(bench: &Bench, case: Case, elements: usize, direction: Direction) -> Subject<'_> {
    let plain = peer_tables(&bench.device);
    let tracked = peer_tables(&bench.device.clone().autodiff());
    let operation = move |x: Tensor<3>| -> Outputs {
        let tables = if x.is_autodiff() { &tracked } else { &plain };
        let rotated = |x: Tensor<4>| peer_rotated(x, tables);
        let batch = x.dims()[0];
        let part = |from: usize, heads: usize| {
            let columns = from * HEADS.head_dim..(from + heads) * HEADS.head_dim;
            x.clone().slice_dim(2, columns).reshape([batch, LENGTH, heads, HEADS.head_dim]).swap_dims(1, 2)
        };
        match case {
            Case::Rotate(_) => {
                vec![rotated(x.reshape([batch, HEADS.query, LENGTH, HEADS.head_dim]))]
            }
            Case::Split(_) => {
                let (q, k) = (part(0, HEADS.query), part(HEADS.query, HEADS.key_value));
                // v stays where it is: burn's products read it there.
                vec![rotated(q), rotated(k), part(HEADS.query + HEADS.key_value, HEADS.key_value)]
            }
        }
    };
    measured(bench, case, elements, direction, operation)
}

/// The operation itself, or its gradient alone.
fn measured<'a>(
    bench: &'a Bench,
    case: Case,
    elements: usize,
    direction: Direction,
    operation: impl Fn(Tensor<3>) -> Outputs + 'a,
) -> Subject<'a> {
    let width = match case {
        Case::Rotate(_) => SEQUENCE / LENGTH,
        Case::Split(_) => PACKED / LENGTH,
    };
    let rows = elements / width;
    let x = numbers::tensor("x", [rows, width], &bench.device);
    let batched = move |x: Tensor<2>| x.reshape([rows / LENGTH, LENGTH, width]);
    if direction == Direction::Forward {
        return subject(&bench.device, move || batched(x.clone()), operation);
    }
    let gradients: Outputs = operation(batched(x.clone()))
        .into_iter()
        .map(|out| numbers::tensor("g", out.dims(), &bench.device))
        .collect();
    let root = move || {
        let leaf = Tensor::<2>::from_inner(x.clone()).require_grad();
        let outputs = operation(batched(leaf));
        let mut pairs = outputs.into_iter().zip(gradients.clone());
        match (pairs.next(), pairs.next(), pairs.next()) {
            (Some(q), Some(k), Some(v)) => with_gradients([q, k, v]),
            (Some(q), ..) => with_gradients([q]),
            (None, ..) => Tensor::zeros([1], &bench.device),
        }
    };
    subject(&bench.device, root, |root| root.backward())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_computes_the_same() {
        let x = numbers::tensor::<4>("x", [1, 2, LENGTH, HEADS.head_dim], &Device::flex());
        let ours = rotate(x.clone(), &table(Layout::Half, &Device::flex()));
        let difference: f32 =
            (ours - peer_rotated(x, &peer_tables(&Device::flex()))).abs().max().into_scalar();
        assert!(difference < 1e-4, "{difference}");
    }
}
