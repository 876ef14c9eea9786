//! What a model costs, before anything is trained.

use crate::attention::is_in_blocks;
use crate::gpt::Gpt;
use crate::resolved::Resolved;
use burn::module::Module;
use longwave_core::memory_check::product;
use longwave_kernels::logits_at_once;
use longwave_position::reading::AttentionKind;

/// Bytes of one f32.
const F32: usize = 4;

/// Parameters, FLOPs a token and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// All trained numbers.
    pub parameters: usize,
    /// Trained numbers without the token embedding and an untied head.
    pub block_parameters: usize,
    /// Floating-point operations a training token, forward and backward.
    pub flops_per_token: usize,
    /// Memory of a training step, in bytes: an estimate.
    pub training_bytes: u64,
}

impl Size {
    /// The size of a model that trains on micro-batches of `batch` sequences of `length` tokens.
    ///
    /// FLOPs: see [`training_flops`]. Memory: weights, gradients and two moments, what the backward pass
    /// keeps of the activations, the logits of a block of rows, and the memory that goes from segment to segment.
    pub fn of(model: &Gpt, resolved: &Resolved, batch: usize, length: usize) -> Self {
        let d = &resolved.dimensions;
        // What an encoding puts in place of token embeddings leaves their table unread, but for a tied head.
        let unread = !resolved.config.tied && model.position.capabilities().replaces_hidden();
        let (stored, table) = (model.num_params(), d.vocab_size * d.width);
        let parameters = stored - if unread { table } else { 0 };
        let tables = if resolved.config.tied || unread { table } else { 2 * table };
        let gate = if resolved.config.feed_forward.is_gated() { 3 } else { 2 };
        let flops_per_token = training_flops(resolved, length);
        // Kept for the backward pass, per layer and token: the residual stream twice, both norms'
        // outputs, packed and split q k v, the attention's output, and the inner activations.
        let qkv = (d.heads + 2 * d.kv_heads) * d.head_dim;
        // A gate adds its logits, itself and what it has multiplied, a norm after attention its input; a convolution keeps its
        // input shifted by each tap.
        let gates = resolved.gate_columns();
        let of_gate = if gates > 0 { 2 * gates + d.heads * d.head_dim } else { 0 };
        let of_norm = if resolved.config.norm_attention_output { 2 * d.width } else { 0 };
        let of_canon = 5 * d.width * resolved.config.canon.len();
        let kept = 6 * d.width + 2 * qkv + 2 * d.heads * d.head_dim + gate * resolved.feed_forward_width;
        let kept = kept + of_gate + of_norm + of_canon;
        // They become their gradient in place; of one operation after the other there are two.
        let logits = logits_at_once(batch.saturating_mul(length), d.vocab_size, true).saturating_mul(2);
        let carried = product(&[batch, model.position.memory(), d.layers, d.width]);
        // Of attention in blocks of queries the backward pass keeps what each pair of tokens has: its score, its probability, and
        // about two steps between.
        let in_blocks = (0..d.layers).filter(|layer| is_in_blocks(&model.position, *layer, d.width)).count();
        let pairs = product(&[4, in_blocks, batch, d.heads, length, length]);
        let numbers = product(&[batch, length, d.layers * kept + 2 * d.width])
            .saturating_add(pairs)
            .saturating_add(logits)
            .saturating_add(carried)
            .saturating_add(4 * stored as u64);
        Self {
            parameters,
            block_parameters: parameters - tables,
            flops_per_token,
            training_bytes: numbers.saturating_mul(F32 as u64),
        }
    }

    /// Bytes that reading one text of `length` tokens takes besides the weights: an estimate.
    ///
    /// The hidden state, the widest activations of one block, the logits of a block of `scored` targets and the
    /// scores of one block of queries; nothing grows with the square of the length.
    pub fn reading_bytes(resolved: &Resolved, length: usize, scored: usize) -> u64 {
        let d = &resolved.dimensions;
        let qkv = (d.heads + 2 * d.kv_heads) * d.head_dim;
        let inner = resolved.feed_forward_width * 2;
        let per_token =
            3 * d.width + (2 * qkv + d.heads * d.head_dim + 2 * resolved.gate_columns()).max(inner);
        let scores = product(&[d.heads, length]).max(1 << 24);
        product(&[length, per_token])
            .saturating_add(logits_at_once(scored, d.vocab_size, false).saturating_mul(2))
            .saturating_add(scores.saturating_mul(2))
            .saturating_mul(F32 as u64)
    }
}

/// Floating-point operations a training token of a sequence of `length` tokens, forward and backward; a
/// forward pass alone is a third of them.
///
/// 6 for each weight of a matrix product and token (2 forward, 4 backward; Kaplan et al. 2020,
/// arXiv:2001.08361), plus 6 layers length heads `head_dim` for causal attention, half of the whole
/// square; linear attention sums products of keys and values, whatever the length.
pub fn training_flops(resolved: &Resolved, length: usize) -> usize {
    let d = &resolved.dimensions;
    // Sizes that no memory holds are counted too, and must not overflow.
    let of = |sizes: &[usize]| product(sizes);
    let gate = if resolved.config.feed_forward.is_gated() { 3 } else { 2 };
    let weights = [
        of(&[d.layers, d.width, d.heads + 2 * d.kv_heads, d.head_dim]),
        of(&[d.layers, d.width, d.heads, d.head_dim]),
        of(&[d.layers, d.width, resolved.gate_columns()]),
        of(&[d.layers, d.width, gate, resolved.feed_forward_width]),
        of(&[d.vocab_size, d.width]),
    ];
    let weights = weights.into_iter().fold(0, u64::saturating_add);
    let attention = match resolved.config.attention {
        AttentionKind::Linear => of(&[12, d.layers, d.heads, d.head_dim, d.head_dim]),
        _ => of(&[6, d.layers, d.heads, d.head_dim, length]),
    };
    weights.saturating_mul(6).saturating_add(attention) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AttentionGate, ModelConfig};
    use burn::tensor::Device;
    use longwave_position::{Init, PositionConfig};

    #[test]
    fn counts_the_main_jobs_model() {
        let resolved = ModelConfig::default().resolve(512, 128).unwrap();
        let position = PositionConfig::from_value(&toml::Value::String("rope".into()), "position").unwrap();
        let model = Gpt::new(&resolved, &position, &Init::new(0, &Device::flex())).unwrap();
        let size = Size::of(&model, &resolved, 32, 128);
        // 4 (4 128^2 + 8 128^2) + 9 gains of 128, and two tables of 512 x 128.
        assert_eq!(size.block_parameters, 4 * 12 * 128 * 128 + 9 * 128);
        assert_eq!(size.parameters, size.block_parameters + 2 * 512 * 128);
        assert_eq!(size.flops_per_token, 6 * (4 * 12 * 128 * 128 + 512 * 128) + 6 * 4 * 128 * 128);
        let gated = ModelConfig { attention_gate: AttentionGate::Channel, ..ModelConfig::default() };
        let (gate, gated) = (4 * 128 * 128, gated.resolve(512, 128).unwrap());
        let model = Gpt::new(&gated, &position, &Init::new(0, &Device::flex())).unwrap();
        let more = Size::of(&model, &gated, 32, 128);
        assert_eq!(more.parameters, size.parameters + gate);
        assert_eq!(more.flops_per_token, size.flops_per_token + 6 * gate);
        assert!(more.training_bytes > size.training_bytes);
        assert!((50 << 20..400 << 20).contains(&size.training_bytes), "{}", size.training_bytes);
        assert!(Size::reading_bytes(&resolved, 16_384, 128) < 1 << 30);
    }

    #[test]
    fn a_table_that_nothing_reads_is_not_counted() {
        let position =
            PositionConfig::from_value(&toml::Value::String("complex_order".into()), "position").unwrap();
        let size = |tied| {
            let resolved = ModelConfig { tied, ..ModelConfig::default() }.resolve(512, 128).unwrap();
            let model = Gpt::new(&resolved, &position, &Init::new(0, &Device::flex())).unwrap();
            Size::of(&model, &resolved, 32, 128)
        };
        // Waves of 512 tokens, three numbers for each of 64 pairs of channels, and one table of 512 x 128: the head's own, or the
        // embedding that the head is tied to.
        let blocks = 4 * 12 * 128 * 128 + 9 * 128 + 3 * 512 * 64;
        for size in [size(false), size(true)] {
            assert_eq!((size.block_parameters, size.parameters), (blocks, blocks + 512 * 128));
        }
        assert!(size(false).training_bytes > size(true).training_bytes, "it is stored");
    }

    #[test]
    fn pairs_are_kept_where_attention_is_in_blocks() {
        let resolved = ModelConfig::default().resolve(512, 128).unwrap();
        let bytes = |text: &str| {
            let text: toml::Table = format!("position = {text}").parse().unwrap();
            let position = PositionConfig::from_value(&text["position"], "position").unwrap();
            let model = Gpt::new(&resolved, &position, &Init::new(0, &Device::flex())).unwrap();
            Size::of(&model, &resolved, 2, 1024).training_bytes
        };
        // 4 layers of 4 heads; a number takes 4 bytes.
        let pairs = 4 * 4 * 2 * 4 * 1024 * 1024 * 4;
        let mixed = "{ kind = 'mixed', layers = ['scale_invariant', 'rope'], pattern = [0, 1, 1, 1] }";
        for (position, layers) in
            [("'rope'", 0), ("'dape'", 0), ("'wall'", 4), ("'scale_invariant'", 4), (mixed, 1)]
        {
            let found = bytes(position);
            let (least, most) = (layers * pairs / 4, (layers + 1) * pairs / 4);
            assert!((least..most).contains(&found), "{position}: {found}");
        }
    }
}
