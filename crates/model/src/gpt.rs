//! The model, from tokens to losses.

use crate::attention::Rotations;
use crate::block::{Block, BlockPass};
use crate::complex_weights::WeightKind;
use crate::dropout::Dropout;
use crate::norm::Norm;
use crate::resolved::Resolved;
use crate::segment_memory::SegmentMemory;
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::{Error, Result};
use longwave_kernels::{self as kernels, Precision, head_loss, head_losses, head_scores};
use longwave_position::encoding::Rows;
use longwave_position::layout::TextLayout;
use longwave_position::{Init, PositionConfig, Positions, Reading};
use std::convert::Infallible;
use std::ops::Range;

/// A decoder-only transformer with pre-norm blocks.
#[derive(Module, Debug)]
pub struct Gpt {
    /// `[vocab_size, width]`.
    pub embedding: Param<Tensor<2>>,
    pub blocks: Vec<Block>,
    /// Before the head.
    pub norm: Norm,
    /// `[width, vocab_size]`; absent where the embedding serves as head.
    pub head: Option<Param<Tensor<2>>>,
    /// The encoding, as trained.
    pub position: Reading,
    #[module(skip)]
    precision: Precision,
}

/// One forward pass.
#[derive(Clone, Debug)]
pub struct Pass<'a> {
    /// Token ids `[batch, length]`.
    pub tokens: Tensor<2, Int>,
    /// Absolute positions of the tokens.
    pub positions: &'a Positions,
    /// How positions are read.
    pub reading: &'a Reading,
    /// Dropout; training only.
    pub dropout: Option<&'a Dropout>,
}

/// Asks between the blocks of a pass whether to go on; an error ends the pass.
pub type Stop<'a, E> = dyn FnMut() -> Result<(), E> + 'a;

/// A place in a pass, in the order in which a pass comes to them. Blocks count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// What a block is given: the stream, with what the encoding adds to it there.
    Input(usize),
    /// The stream after the attention of a block.
    Attention(usize),
    /// The stream after the feed-forward layer of a block.
    FeedForward(usize),
    /// After the last norm.
    Norm,
}

/// Looks at the state `[batch, length, width]` at each place of a pass; an error ends the pass.
pub type Watch<'a, E> = dyn FnMut(Place, &Tensor<3>) -> Result<(), E> + 'a;

/// Token ids `[batch, length]` on a device.
pub fn upload(tokens: &[u32], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
    kernels::device::upload(TensorData::new(tokens, shape), device)
}

impl Gpt {
    /// A fresh model: matrices N(0, 0.02), gains 1, biases 0.
    pub fn new(resolved: &Resolved, position: &PositionConfig, init: &Init) -> Result<Self> {
        let d = &resolved.dimensions;
        let untied = !resolved.config.tied;
        let position = position
            .build("position", d, init, resolved.log_n())?
            .with_attention(resolved.config.attention)?;
        let weight_kind = WeightKind::of(position.capabilities().makes_complex());
        resolved.check_weight_kind(weight_kind)?;
        if position.memory() > 0 && !resolved.config.canon.is_empty() {
            return Err(Error::usage(format!(
                "`model.canon` reads the rows before each row, and the memory of `{}` ends with a row in the middle of a text",
                position.name()
            ))
            .hint("leave `model.canon` or `memory` out"));
        }
        Ok(Self {
            embedding: init.normal("embedding", [d.vocab_size, d.width], 0.02),
            blocks: (0..d.layers).map(|layer| Block::new(resolved, weight_kind, layer, init)).collect(),
            norm: resolved.norm(weight_kind, init),
            head: untied.then(|| init.normal("head", [d.width, d.vocab_size], 0.02)),
            position,
            precision: Precision::F32,
        })
    }

    /// The same model, whose linear maps compute in a precision from here on; a fresh one computes in f32. Parameters
    /// are f32 in any, and so is what an encoding computes.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        for block in &mut self.blocks {
            block.attention.precision = precision;
            block.feed_forward.precision = precision;
        }
        self
    }

    /// The hidden state after the last norm, `[batch, length, width]`.
    ///
    /// A reading in segments is read so: see [`crate::segments`].
    pub fn hidden(&self, pass: &Pass<'_>) -> Tensor<3> {
        let Ok(hidden) = self.hidden_watched::<Infallible>(pass, &mut |_, _| Ok(()));
        hidden
    }

    /// The same; `watch` sees the state at each place on the way, and its error ends the pass.
    pub fn hidden_watched<E>(&self, pass: &Pass<'_>, watch: &mut Watch<'_, E>) -> Result<Tensor<3>, E> {
        match pass.reading.layout() {
            TextLayout::Segments { length } => self.independent(pass, length, watch),
            TextLayout::Recurrent { length, memory } => self.recurrent(pass, length, memory, watch),
            TextLayout::Contiguous | TextLayout::Drawn { .. } | TextLayout::Cells { .. } => {
                Ok(self.whole(pass, None, watch)?.0)
            }
        }
    }

    /// The hidden state `[batch, length, width]` of rows that are read as one segment after those of
    /// `memory`, and the memory after them.
    pub fn hidden_after(&self, pass: &Pass<'_>, memory: &SegmentMemory) -> (Tensor<3>, SegmentMemory) {
        let Ok(both) = self.hidden_after_watched::<Infallible>(pass, memory, &mut |_, _| Ok(()));
        both
    }

    /// The same; `watch` sees the state at each place on the way, and its error ends the pass.
    pub fn hidden_after_watched<E>(
        &self,
        pass: &Pass<'_>,
        memory: &SegmentMemory,
        watch: &mut Watch<'_, E>,
    ) -> Result<(Tensor<3>, SegmentMemory), E> {
        let (hidden, inputs) = self.whole(pass, Some(memory), watch)?;
        Ok((hidden, memory.after(inputs)))
    }

    /// The hidden state of rows that are read as one, `[batch, length, width]`, and with a memory the
    /// input of every block.
    pub(crate) fn whole<E>(
        &self,
        pass: &Pass<'_>,
        memory: Option<&SegmentMemory>,
        watch: &mut Watch<'_, E>,
    ) -> Result<(Tensor<3>, Vec<Tensor<3>>), E> {
        let [batch, length] = pass.tokens.dims();
        let flat = pass.tokens.clone().reshape([batch * length]);
        let width = self.embedding.dims()[1];
        let mut x = self.embedding.val().select(0, flat).reshape([batch, length, width]);
        let mut rotations = Rotations::default();
        let before = memory.map_or(0, SegmentMemory::tokens);
        let seen = if before > 0 { &pass.positions.preceded(before) } else { pass.positions };
        let mut inputs = Vec::new();
        for (layer, block) in self.blocks.iter().enumerate() {
            let draw = pass.dropout.map(Dropout::draw);
            let rows = Rows { draw, ..Rows::new(layer, &pass.tokens, pass.positions) };
            x = pass.reading.embed(x, rows);
            if let (0, Some(dropout)) = (layer, pass.dropout) {
                x = dropout.apply(x, "embedding");
            }
            watch(Place::Input(layer), &x)?;
            if memory.is_some() {
                inputs.push(x.clone());
            }
            let mut part = BlockPass {
                rows: Rows { positions: seen, ..rows },
                before: memory.and_then(|memory| memory.layer(layer)),
                reading: pass.reading,
                rotations: &mut rotations,
                dropout: pass.dropout,
            };
            x = block.attend(x, &mut part);
            watch(Place::Attention(layer), &x)?;
            x = block.feed(x, &part);
            watch(Place::FeedForward(layer), &x)?;
        }
        let hidden = self.norm.forward(x);
        watch(Place::Norm, &hidden)?;
        Ok((hidden, inputs))
    }

    /// Logits `[batch, length, vocab_size]` of hidden states `[batch, length, width]`, in the precision of the model.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.precision.linear(hidden, self.head_weight())
    }

    /// `[width, vocab_size]`.
    fn head_weight(&self) -> Tensor<2> {
        self.head.as_ref().map_or_else(|| self.embedding.val().transpose(), Param::val)
    }

    /// The loss of hidden states `[batch, length, width]`, `[1]`: the mean over all targets `[batch, length]` in nats, or
    /// with weights of that shape the sum of all losses, each times its weight.
    ///
    /// Where the single losses are not wanted, this is the loss to differentiate: it never holds all logits.
    pub fn loss_of(
        &self,
        hidden: Tensor<3>,
        targets: Tensor<2, Int>,
        weights: Option<Tensor<2>>,
    ) -> Tensor<1> {
        let count = targets.shape().num_elements();
        let weights = weights.map(|weights| weights.reshape([count]));
        head_loss(hidden, self.head_weight(), targets.reshape([count]), weights, self.precision)
    }

    /// The loss of each target in nats, `[batch, targets]`, for the rows `scored` of the pass.
    ///
    /// `targets` `[batch, targets]` are the tokens that follow those rows.
    pub fn nll(&self, pass: &Pass<'_>, targets: Tensor<2, Int>, scored: Range<usize>) -> Tensor<2> {
        self.nll_of(self.hidden(pass), targets, scored)
    }

    /// The loss of each target in nats, `[batch, targets]`, for the rows `scored` of hidden states
    /// `[batch, length, width]`.
    pub fn nll_of(&self, hidden: Tensor<3>, targets: Tensor<2, Int>, scored: Range<usize>) -> Tensor<2> {
        let [batch, count] = targets.dims();
        let (hidden, targets) = (rows_of(hidden, scored), targets.reshape([batch * count]));
        head_losses(hidden, self.head_weight(), targets, self.precision).reshape([batch, count])
    }

    /// The loss of each target in nats, and the token that the model held most likely in its place (the
    /// first of those alike), both `[batch, targets]`; see [`nll`](Self::nll).
    pub fn score(
        &self,
        pass: &Pass<'_>,
        targets: Tensor<2, Int>,
        scored: Range<usize>,
        stop: &mut Stop<'_, Error>,
    ) -> Result<(Tensor<2>, Tensor<2, Int>)> {
        let [batch, count] = targets.dims();
        let mut before_blocks = |place: Place, _: &Tensor<3>| match place {
            Place::Input(_) => stop(),
            _ => Ok(()),
        };
        let hidden = rows_of(self.hidden_watched(pass, &mut before_blocks)?, scored);
        let targets = targets.reshape([batch * count]);
        let (losses, guesses) = head_scores(hidden, self.head_weight(), targets, self.precision);
        Ok((losses.reshape([batch, count]), guesses.reshape([batch, count])))
    }
}

/// The rows `scored` of hidden states; the others need no logits.
fn rows_of(hidden: Tensor<3>, scored: Range<usize>) -> Tensor<3> {
    if scored.len() == hidden.dims()[1] { hidden } else { hidden.slice_dim(1, scored) }
}
