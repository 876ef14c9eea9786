//! `bench attention`: causal attention over lengths, with and without `ALiBi`, time and peak memory.
//!
//! The peer is burn's own attention with causal masking; `ALiBi` reaches it as a bias tensor of
//! `[1, heads, length, length]`, the only form it takes. Where its scores would need more than 2 GiB there is none.

use crate::clock::{Subject, subject};
use crate::record::{Direction, Record};
use crate::{Bench, numbers};
use burn::tensor::module::attention as burn_attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_core::{Error, Result};
use longwave_kernels::{Attention, Bias, attention, with_gradients};

/// Lengths that are measured unless others are asked for.
pub const LENGTHS: [usize; 8] = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

const HEADS: usize = 4;
const HEAD_DIM: usize = 64;
/// Tokens of a batch of short sequences.
const TOKENS: usize = 2048;
/// Bytes that the peer's scores may take, with what it keeps of them for the gradient.
const PEER_BYTES: usize = 2 << 30;
const PEER: &str = "burn's own attention";

/// Measures every length, forward and backward.
///
/// # Errors
/// A length is 0, or the device fails.
pub fn run(bench: &Bench, lengths: &[usize], show: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
    if lengths.contains(&0) {
        return Err(Error::value("--lengths", 0, "it must be at least 1"));
    }
    for &length in lengths {
        for alibi in [false, true] {
            for direction in [Direction::Forward, Direction::Backward] {
                show(measure(bench, length, alibi, direction)?)?;
            }
        }
    }
    Ok(())
}

/// Sequences of a batch.
fn batch(length: usize) -> usize {
    (TOKENS / length).max(1)
}

fn measure(bench: &Bench, length: usize, alibi: bool, direction: Direction) -> Result<Record> {
    let batch = batch(length);
    let shape = [batch, HEADS, length, HEAD_DIM];
    let options = Attention { bias: bias(alibi, &bench.device), ..Attention::causal(HEAD_DIM) };
    let mut subjects = vec![measured(bench, shape, direction, move |[q, k, v]| attention(q, k, v, &options))];
    // Forward the scores and their softmax live at once, backward their gradients too.
    let squares = if direction == Direction::Forward { 3 } else { 6 };
    if !bench.alone && batch * HEADS * length * length * 4 * squares <= PEER_BYTES {
        subjects.push(peer(bench, shape, alibi, direction));
    }
    let times = bench.clock.time(&mut subjects)?;
    let with = if alibi { "alibi" } else { "none" };
    let numbers = batch * HEADS * length * HEAD_DIM;
    // q, k, v and the output; backward the gradient of the output besides q, k, v and their gradients.
    let moved = if direction == Direction::Forward { 4 } else { 7 };
    let mut record = Record::new(
        "attention",
        format!("{batch} x {length}, {with}"),
        direction,
        &bench.device_name,
        &times[0],
    )
    .reading(batch * length)
    .against(PEER, times.get(1));
    record.bytes = Some((4 * moved * numbers) as u64);
    Ok(record)
}

/// The slopes of `ALiBi` for [`HEADS`] heads, 2^(-8 h / heads) (Press et al. 2022, section 3).
fn slopes() -> Vec<f32> {
    (1..=HEADS).map(|head| (-8.0 * head as f64 / HEADS as f64).exp2() as f32).collect()
}

fn bias(alibi: bool, device: &Device) -> Bias {
    if alibi {
        Bias::Slopes(Tensor::from_data(TensorData::new(slopes(), [HEADS]), device))
    } else {
        Bias::None
    }
}

fn peer(bench: &Bench, shape: [usize; 4], alibi: bool, direction: Direction) -> Subject<'_> {
    let length = shape[2];
    let plain = bias(alibi, &bench.device);
    let bias =
        Attention { bias: plain, ..Attention::causal(HEAD_DIM) }.bias_block(length, length, &bench.device);
    let options = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
    measured(bench, shape, direction, move |[q, k, v]| {
        let bias = bias.clone().map(|bias| if q.is_autodiff() { Tensor::from_inner(bias) } else { bias });
        burn_attention(q, k, v, None, bias, options)
    })
}

/// The operation itself, or its gradient alone.
fn measured<'a>(
    bench: &'a Bench,
    shape: [usize; 4],
    direction: Direction,
    operation: impl Fn([Tensor<4>; 3]) -> Tensor<4> + 'a,
) -> Subject<'a> {
    let inputs = ["q", "k", "v"].map(|name| numbers::tensor::<4>(name, shape, &bench.device));
    if direction == Direction::Forward {
        return subject(&bench.device, move || inputs.clone(), operation);
    }
    let gradient = numbers::tensor::<4>("g", shape, &bench.device);
    let root = move || {
        let leaves = inputs.clone().map(|x| Tensor::<4>::from_inner(x).require_grad());
        with_gradients([(operation(leaves), gradient.clone())])
    };
    subject(&bench.device, root, |root| root.backward())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{alone, bench};

    #[test]
    fn every_length_bias_and_direction_is_measured() {
        let _alone = alone();
        let mut records = Vec::new();
        run(&bench(), &[64, 100], &mut |record| {
            records.push(record);
            Ok(())
        })
        .unwrap();
        let cases: Vec<&str> = records.iter().map(|record| record.case.as_str()).collect();
        assert_eq!(cases.len(), 8);
        assert!(cases.contains(&"32 x 64, none") && cases.contains(&"20 x 100, alibi"), "{cases:?}");
        for record in &records {
            assert!(record.speedup.is_some() && record.peak_bytes.is_some(), "{record:?}");
            assert_eq!(record.copy_fraction, None);
        }
        assert_eq!(records[0].tokens, Some(2048));
        assert!(run(&bench(), &[0], &mut |_| Ok(())).is_err());
    }

    /// Twice the length takes twice the memory, not four times.
    #[test]
    fn memory_is_linear_in_the_length() {
        let _alone = alone();
        let peak = |length| measure(&bench(), length, true, Direction::Forward).unwrap().peak_bytes.unwrap();
        let (short, long) = (peak(2048), peak(4096));
        assert!(long < 5 * short / 2, "{short} {long}");
    }

    #[test]
    fn the_peer_computes_the_same() {
        let _alone = alone();
        let device = Device::flex();
        let bench = bench();
        let shape = [1, HEADS, 37, HEAD_DIM];
        let [q, k, v] = ["q", "k", "v"].map(|name| numbers::tensor::<4>(name, shape, &device));
        for alibi in [false, true] {
            let options = Attention { bias: bias(alibi, &bench.device), ..Attention::causal(HEAD_DIM) };
            let block = options.bias_block(37, 37, &device);
            let causal = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
            let burns = burn_attention(q.clone(), k.clone(), v.clone(), None, block, causal);
            let ours = attention(q.clone(), k.clone(), v.clone(), &options);
            let difference: f32 = (ours - burns).abs().max().into_scalar();
            assert!(difference < 1e-5, "{alibi}: {difference}");
        }
    }
}
