//! `cargo xtask bench attention`: causal attention over lengths, alone, with `ALiBi` and with `ReRoPE`: time and peak memory.
//!
//! The peer is burn's own attention with causal masking; `ALiBi` reaches it as a bias tensor of
//! `[1, heads, length, length]`, the only form it takes. Two rotations it does not take: there the peer is what plain
//! tensor operations make of them, as `ReRoPE` was published: both products in full, a choice, softmax. Where its
//! scores would need more than 2 GiB there is none.

use longwave::burn::tensor::module::attention as burn_attention;
use longwave::burn::tensor::ops::AttentionModuleOptions;
use longwave::burn::tensor::{Device, Tensor, TensorData};
use longwave_bench::clock::{Subject, subject};
use longwave_bench::{Bench, Direction, Record, numbers};
use longwave_core::{Error, Result};
use longwave_kernels::{
    Attention, Bias, attention, attention_by_distance, normalise, use_reference, with_gradients,
};

/// Lengths that are measured unless others are asked for.
pub(crate) const LENGTHS: [usize; 8] = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

const HEADS: usize = 4;
const HEAD_DIM: usize = 64;
/// Tokens of a batch of short sequences.
const TOKENS: usize = 2048;
/// Bytes that the peer's scores may take, with what it keeps of them for the gradient.
const PEER_BYTES: usize = 2 << 30;

/// What attention does besides the softmax of q·k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Nothing,
    Alibi,
    /// A second q and k from a quarter of the length on.
    ReRope,
}

impl With {
    const ALL: [Self; 3] = [Self::Nothing, Self::Alibi, Self::ReRope];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Alibi => "alibi",
            Self::ReRope => "rerope",
        }
    }

    fn peer(self) -> &'static str {
        match self {
            Self::Nothing | Self::Alibi => "burn's own attention",
            Self::ReRope => "plain tensor operations",
        }
    }

    /// The tensors it is differentiated by, each `[batch, HEADS, length, HEAD_DIM]`.
    fn inputs(self) -> &'static [&'static str] {
        match self {
            Self::Nothing | Self::Alibi => &["q", "k", "v"],
            Self::ReRope => &["q", "k", "v", "far q", "far k"],
        }
    }

    /// Tensors of that size that are read and written: the inputs and the output; backward the inputs, the gradient
    /// of the output, and theirs.
    fn moved(self, direction: Direction) -> usize {
        let inputs = self.inputs().len();
        if direction == Direction::Forward { inputs + 1 } else { 2 * inputs + 1 }
    }

    /// Blocks of `[length, length]` that the peer holds at once for a head: forward the scores and their softmax,
    /// backward their gradients too; the scores of both rotations, and the choice.
    fn squares(self, direction: Direction) -> usize {
        let scores = if direction == Direction::Forward { 3 } else { 6 };
        if self == Self::ReRope { 2 * scores } else { scores }
    }

    /// The fused operation on its inputs.
    fn run(self, inputs: Vec<Tensor<4>>, bias: &Bias) -> Tensor<4> {
        let mut inputs = inputs.into_iter();
        let mut next = || inputs.next().expect("as many as there are names");
        let (q, k, v) = (next(), next(), next());
        let options = Attention { bias: bias.clone(), ..Attention::causal(HEAD_DIM) };
        if self == Self::ReRope {
            let border = border(&q);
            return attention_by_distance([q, k], [next(), next()], v, border, &options);
        }
        attention(q, k, v, &options)
    }
}

/// The first far distance: a quarter of the length.
fn border(q: &Tensor<4>) -> usize {
    q.dims()[2].div_ceil(4)
}

/// Measures every length, forward and backward.
pub(crate) fn run(
    bench: &Bench,
    lengths: &[usize],
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    if lengths.contains(&0) {
        return Err(Error::value("--lengths", 0, "it must be at least 1"));
    }
    for &length in lengths {
        for with in With::ALL {
            for direction in [Direction::Forward, Direction::Backward] {
                show(measure(bench, length, with, direction)?)?;
            }
        }
    }
    Ok(())
}

/// Sequences of a batch.
fn batch(length: usize) -> usize {
    (TOKENS / length).max(1)
}

fn measure(bench: &Bench, length: usize, with: With, direction: Direction) -> Result<Record> {
    let batch = batch(length);
    let shape = [batch, HEADS, length, HEAD_DIM];
    let bias = bias(with, &bench.device);
    let mut subjects = vec![measured(bench, shape, with, direction, move |inputs| with.run(inputs, &bias))];
    if !bench.alone && batch * HEADS * length * length * 4 * with.squares(direction) <= PEER_BYTES {
        subjects.push(peer(bench, shape, with, direction));
    }
    let times = bench.clock.time(&mut subjects)?;
    let numbers = batch * HEADS * length * HEAD_DIM;
    let mut record = Record::new(
        "attention",
        format!("{batch} x {length}, {}", with.name()),
        direction,
        &bench.device_name,
        &times[0],
    )
    .reading(batch * length)
    .against(with.peer(), times.get(1));
    record.bytes = Some((4 * with.moved(direction) * numbers) as u64);
    Ok(record)
}

/// The slopes of `ALiBi` for [`HEADS`] heads, 2^(-8 h / heads) (Press et al. 2022, section 3).
fn slopes() -> Vec<f32> {
    (1..=HEADS).map(|head| (-8.0 * head as f64 / HEADS as f64).exp2() as f32).collect()
}

fn bias(with: With, device: &Device) -> Bias {
    if with == With::Alibi {
        Bias::Slopes(Tensor::from_data(TensorData::new(slopes(), [HEADS]), device))
    } else {
        Bias::None
    }
}

fn peer(bench: &Bench, shape: [usize; 4], with: With, direction: Direction) -> Subject<'_> {
    let length = shape[2];
    let plain = bias(with, &bench.device);
    if with == With::ReRope {
        return measured(bench, shape, with, direction, move |inputs| plainly(bench, inputs));
    }
    let bias =
        Attention { bias: plain, ..Attention::causal(HEAD_DIM) }.bias_block(length, length, &bench.device);
    let options = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
    measured(bench, shape, with, direction, move |inputs| {
        let [q, k, v] = <[Tensor<4>; 3]>::try_from(inputs).expect("q, k and v");
        let bias = bias.clone().map(|bias| if q.is_autodiff() { Tensor::from_inner(bias) } else { bias });
        burn_attention(q, k, v, None, bias, options)
    })
}

/// Two rotations in plain tensor operations: the scores of both in full, and a choice.
fn plainly(bench: &Bench, inputs: Vec<Tensor<4>>) -> Tensor<4> {
    let [q, k, v, far_q, far_k] = <[Tensor<4>; 5]>::try_from(inputs).expect("q, k, v, far q and far k");
    let (length, device) = (q.dims()[2], q.device());
    let causal = Attention::causal(HEAD_DIM);
    let near = Attention { distances: 0..border(&q), ..causal.clone() };
    let is_far = near.hidden(length, length, &device).unsqueeze::<4>();
    let hidden = causal.hidden(length, length, &device).unsqueeze::<4>();
    let [near, far] = [(q, k), (far_q, far_k)].map(|(q, k)| q.matmul(k.swap_dims(2, 3)));
    let [is_far, hidden] = [is_far, hidden].map(|mask| mask.expand(near.dims()));
    let scores = near.mask_where(is_far, far).mul_scalar(causal.scale).mask_fill(hidden, f32::NEG_INFINITY);
    use_reference(true);
    let output = normalise(scores, &causal.normaliser, 0).matmul(v);
    bench.asked_kernels();
    output
}

/// The operation itself, or its gradient alone.
fn measured<'a>(
    bench: &'a Bench,
    shape: [usize; 4],
    with: With,
    direction: Direction,
    operation: impl Fn(Vec<Tensor<4>>) -> Tensor<4> + 'a,
) -> Subject<'a> {
    let inputs: Vec<Tensor<4>> =
        with.inputs().iter().map(|name| numbers::tensor(name, shape, &bench.device)).collect();
    if direction == Direction::Forward {
        return subject(&bench.device, move || inputs.clone(), operation);
    }
    let gradient = numbers::tensor::<4>("g", shape, &bench.device);
    let root = move || {
        let leaves = inputs.iter().map(|x| Tensor::<4>::from_inner(x.clone()).require_grad()).collect();
        with_gradients([(operation(leaves), gradient.clone())])
    };
    subject(&bench.device, root, |root| root.backward())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_computes_the_same() {
        let device = Device::flex();
        let bench = Bench {
            device: device.clone(),
            device_name: "CPU".to_owned(),
            clock: longwave_bench::Clock::default(),
            reference: false,
            alone: false,
        };
        let shape = [1, HEADS, 37, HEAD_DIM];
        let [q, k, v] = ["q", "k", "v"].map(|name| numbers::tensor::<4>(name, shape, &device));
        for with in [With::Nothing, With::Alibi] {
            let options = Attention { bias: bias(with, &bench.device), ..Attention::causal(HEAD_DIM) };
            let block = options.bias_block(37, 37, &device);
            let causal = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
            let burns = burn_attention(q.clone(), k.clone(), v.clone(), None, block, causal);
            let ours = attention(q.clone(), k.clone(), v.clone(), &options);
            let difference: f32 = (ours - burns).abs().max().into_scalar();
            assert!(difference < 1e-5, "{with:?}: {difference}");
        }
        let inputs =
            || With::ReRope.inputs().iter().map(|name| numbers::tensor(name, shape, &device)).collect();
        let ours = With::ReRope.run(inputs(), &Bias::None);
        let plain = plainly(&bench, inputs());
        let difference: f32 = (ours.clone() - plain).abs().max().into_scalar();
        assert!(difference < 1e-5, "two rotations: {difference}");
        let alone: f32 = (ours - With::Nothing.run(inputs(), &Bias::None)).abs().max().into_scalar();
        assert!(alone > 1e-2, "the second rotation is read");
    }
}
