//! `deberta`: disentangled attention, content to position and position to content.
//!
//! `logit_ij = (q_i.k_j + q_i . K^r[delta(i, j)] + k_j . Q^r[delta(j, i)]) / sqrt(3d)`,
//! `delta(a, b) = clip(a - b + span, 0, 2 span - 1)`, `K^r = rel w_pos_k`, `Q^r = rel w_pos_q` split into heads
//! (He et al. 2021, arXiv:2006.03654, equations 3 and 4; the published code reads delta(i, j) in both terms,
//! a relabelling of the table). rel `[2 span, width]` is shared by all layers, `w_pos_k` and `w_pos_q`
//! `[layers, width, heads head_dim]` belong to each; all from N(0, 0.02). Clipping defines every length.
//! Fractional distances are rounded down; interpolated by s, distances are divided by s first.
//!
//! `absolute_layers = N` lets absolute embeddings enter the last N blocks and no earlier one (section 3.2, the
//! enhanced mask decoder EMD; the published models have N = 2): they are added to the hidden state before the
//! first of these. There they enter the queries alone, and both blocks share weights and read the keys of the
//! block before, which makes sense for masked tokens; a causal model has none, and every block is its own.
//! `absolute` takes the keys of [`learned`], which the embeddings are.

use super::learned;
use super::learned::Learned;
use crate::distance::{ChosenRows, chosen_by_distance};
use crate::prelude::*;
use longwave_kernels::{RelativeVectors, VectorTable};

keys! {
    /// Keys of `kind = "deberta"`.
    pub struct Config {
        /// Distances with a vector of their own, on either side.
        pub span: usize = 512,
        /// Number of last blocks that also get absolute positions (EMD).
        pub absolute_layers: usize = 0,
        /// The absolute embeddings: the keys of `learned`.
        pub absolute: Option<learned::Config> = None,
    }
}

/// The relative embeddings and their projections.
#[derive(Module, Debug)]
pub struct Deberta {
    /// `[2 span, width]`, shared by all layers.
    pub rel: Param<Tensor<2>>,
    /// `[layers, width, heads head_dim]`.
    pub w_pos_k: Param<Tensor<3>>,
    /// `[layers, width, heads head_dim]`.
    pub w_pos_q: Param<Tensor<3>>,
    /// The absolute embeddings of the last blocks, where there are any.
    pub absolute: Option<Learned>,
    /// The block they enter before.
    #[module(skip)]
    absolute_from: usize,
    #[module(skip)]
    head_dim: usize,
}

impl Configure for Config {
    type Encoding = Deberta;
    const KIND: &'static str = "deberta";
    const DESCRIPTION: &'static str = "content to position and position to content terms (DeBERTa)";
    const SOURCE: &'static str = "arXiv:2006.03654";
    const FORMULA: &'static str = "a_{mn} = (q_m · k_n + q_m · f_{c(m−n)} + k_n · g_{c(n−m)}) / √(3d)\n\
        c(r) = clip(r + 512, 0, 1023), f_j = e_j U, g_j = e_j V, e, U and V learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("deberta.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: distances past `span` share a vector");
    const LENGTHS: &'static [&'static str] = &["span", "table_size"];
    const VARIANTS: &'static [&'static str] = &["span = 5", "absolute_layers = 1"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "span", self.span, 1)?;
        let key = format!("{section}.absolute_layers");
        if self.absolute_layers > dimensions.layers {
            let allowed =
                format!("it must be at most the {} layers that read the encoding", dimensions.layers);
            return Err(Error::value(&key, self.absolute_layers, allowed).hint("the published models have 2"));
        }
        match &self.absolute {
            Some(_) if self.absolute_layers == 0 => {
                Err(Error::usage(format!("`{section}.absolute` has no layer to enter"))
                    .hint(format!("set `{key}` to the number of last blocks, or leave both out")))
            }
            Some(absolute) => absolute.validate(&format!("{section}.absolute"), dimensions),
            None => Ok(()),
        }
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Some(("span", self.span.saturating_sub(1)))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Deberta {
        let width = dimensions.width;
        let projection = [dimensions.layers, width, dimensions.heads * dimensions.head_dim];
        Deberta {
            rel: init.normal("position.deberta.rel", [2 * self.span, width], 0.02),
            w_pos_k: init.normal("position.deberta.w_pos_k", projection, 0.02),
            w_pos_q: init.normal("position.deberta.w_pos_q", projection, 0.02),
            absolute: (self.absolute_layers > 0).then(|| {
                self.absolute.clone().unwrap_or_default().build(dimensions, &init.scoped("deberta"))
            }),
            absolute_from: dimensions.layers.saturating_sub(self.absolute_layers),
            head_dim: dimensions.head_dim,
        }
    }
}

impl Deberta {
    /// `x . (rel w)[r]` for every row of x `[batch, heads, rows, head_dim]` and every r: `[batch, heads, rows,
    /// 2 span]`.
    fn with_every(&self, x: &Tensor<4>, weight: &Param<Tensor<3>>, layer: usize) -> Tensor<4> {
        let [_, heads, _, dim] = x.dims();
        let places = self.rel.dims()[0];
        let vectors = self.rel.val().matmul(at_layer(weight, layer)).reshape([1, places, heads, dim]);
        x.clone().matmul(vectors.permute([0, 2, 3, 1]))
    }

    /// delta(i, j), where i - j is the distance.
    fn row(&self, distance: f64) -> usize {
        let span = self.rel.dims()[0] as f64 / 2.0;
        (distance.floor() + span).clamp(0.0, 2.0 * span - 1.0) as usize
    }

    /// The rows of `rel w` that `of` chooses at the distances of a block, split into heads.
    fn by_distance(
        &self,
        block: QueryBlock<'_>,
        weight: &Param<Tensor<3>>,
        of: impl Fn(f64) -> usize,
    ) -> VectorTable {
        let chosen = ChosenRows::new(block, of);
        let vectors = chosen.of(self.rel.val()).matmul(at_layer(weight, block.rows.layer)); // [rows, heads head_dim]
        let [rows, columns] = vectors.dims();
        let heads = columns / self.head_dim;
        chosen.vectors(vectors.reshape([rows, heads, self.head_dim]).swap_dims(0, 1))
    }
}

impl Position for Deberta {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let relative = [
            ParameterSpec::decayed("rel", &["2 span", "width"]),
            ParameterSpec::decayed("w_pos_k", &["layers", "width", "heads head_dim"]),
            ParameterSpec::decayed("w_pos_q", &["layers", "width", "heads head_dim"]),
        ];
        let absolute = self.absolute.iter().flat_map(Position::parameters);
        relative.into_iter().chain(absolute.map(|spec| spec.below("absolute"))).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: if self.absolute.is_some() {
                PositionUse::Positions
            } else {
                PositionUse::Distances
            },
            hidden_use: if self.absolute.is_some() && self.absolute_from == 0 {
                HiddenUse::Enters
            } else {
                HiddenUse::Adds
            },
            head_use: HeadUse::Reads,
            score_use: ScoreUse::AddsVectors,
            domain: Domain::Whole,
            ..Capabilities::default()
        }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        match &self.absolute {
            // The table enters before what it takes for the first block.
            Some(absolute) if rows.layer == self.absolute_from => {
                absolute.embed(hidden, Rows { layer: 0, ..rows }, before)
            }
            _ => hidden,
        }
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        let Some(absolute) = &self.absolute else { return Ok(()) };
        absolute.check(positions).map_err(|error| {
            error.context("the absolute positions of `deberta`").hint(
                "evaluate lengths up to the table's size, or train with a larger `position.absolute.table_size`",
            )
        })
    }

    fn prepare(&mut self, text: &Positions) {
        if let Some(absolute) = &mut self.absolute {
            absolute.prepare(text);
        }
    }

    fn needs_scores(&self, positions: &Positions) -> bool {
        !positions.consecutive()
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        if !block.rows.positions.consecutive() {
            return ScoreForm::Plain;
        }
        let vectors = RelativeVectors {
            keys: Some(self.by_distance(block, &self.w_pos_k, |n| self.row(n))),
            queries: Some(self.by_distance(block, &self.w_pos_q, |n| self.row(-n))),
            ..RelativeVectors::default()
        };
        ScoreForm::Vectors { terms: vectors.into(), factor: 1.0 / 3f64.sqrt() }
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let [batch, head_count, _, _] = scores.dims();
        let (layer, device) = (block.rows.layer, scores.device());
        let forwards = chosen_by_distance(block, [batch, head_count], |n| self.row(n), &device);
        let backwards = chosen_by_distance(block, [batch, head_count], |n| self.row(-n), &device);
        let to_position = self.with_every(heads.q, &self.w_pos_k, layer).gather(3, forwards);
        // A row for each key: [batch, heads, keys, queries].
        let to_content = self.with_every(heads.k, &self.w_pos_q, layer).gather(3, backwards.swap_dims(2, 3));
        let terms = (to_position + to_content.swap_dims(2, 3)).mul_scalar(heads.scale);
        (scores + terms).div_scalar(3f64.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, dimensions, message_of, random};

    #[test]
    fn absolute_positions_enter_the_last_blocks_alone() {
        let device = Device::flex();
        let hidden = random::<3>("h", [1, 5, dimensions().width], &device);
        let tokens = Tensor::zeros([1, 5], &device);
        let positions = Positions::range(0..5);
        let enters = |text: &str| -> Vec<bool> {
            let encoding = build(text, &device);
            let changed = |layer| {
                let rows = Rows::new(layer, &tokens, &positions);
                (encoding.embed(hidden.clone(), rows, &mut None) - hidden.clone())
                    .abs()
                    .max()
                    .into_scalar::<f32>()
                    > 0.0
            };
            (0..dimensions().layers).map(changed).collect()
        };
        assert_eq!(enters("kind = \"deberta\""), [false, false]);
        assert_eq!(enters("kind = \"deberta\"\nabsolute_layers = 1"), [false, true]);
        // The residual stream carries them on.
        assert_eq!(enters("kind = \"deberta\"\nabsolute_layers = 2"), [true, false]);
    }

    #[test]
    fn its_absolute_positions_end_with_the_table() {
        let text = "kind = \"deberta\"\nabsolute_layers = 1";
        let encoding = build(text, &Device::flex());
        assert!(encoding.check(&Positions::range(0..16)).is_ok());
        assert!(encoding.check(&Positions::range(0..17)).is_err());
        assert!(encoding.check(&Positions::range(0..32).over(2.0)).is_ok());
        let segment = build(&format!("{text}\nabsolute.past_table = \"segment\""), &Device::flex());
        assert!(segment.check(&Positions::range(0..17)).is_ok());
        let message = message_of("kind = \"deberta\"\nabsolute_layers = 3");
        assert!(message.starts_with("`position.absolute_layers = 3`"), "{message}");
        assert!(message_of("kind = \"deberta\"\nabsolute = {}").contains("has no layer to enter"));
        let message = message_of(&format!("{text}\nabsolute = {{ alpha = 0.5 }}"));
        assert!(message.starts_with("`position.absolute.alpha = 0.5`"), "{message}");
    }
}
