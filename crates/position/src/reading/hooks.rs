//! The hooks of all encodings of a layer together, as the model's forward pass calls them.

use super::log_n::visible_keys;
use super::{LayerReading, LogN, Reading, Temperature};
use crate::encoding::{Geometry, Heads, QueryBlock, Rows, ScoreForm};
use crate::encodings::Encoding;
use crate::frequency::Rotation;
use crate::positions::Positions;
use crate::upload::upload_shaped;
use burn::tensor::{Device, Tensor};
use longwave_kernels::{Attention, Bias};

/// An encoding of a layer, with the layer's number and the positions as it knows them.
struct Reader<'a> {
    encoding: &'a Encoding,
    layer: usize,
    positions: Positions,
}

impl Reader<'_> {
    fn rows<'a>(&'a self, rows: Rows<'a>) -> Rows<'a> {
        Rows { layer: self.layer, positions: &self.positions, ..rows }
    }

    fn block<'a>(&'a self, block: QueryBlock<'a>) -> QueryBlock<'a> {
        QueryBlock { rows: self.rows(block.rows), ..block }
    }
}

impl Reading {
    /// The encodings of a layer as readers of these positions.
    fn readers(&self, layer: usize, positions: &Positions) -> impl Iterator<Item = Reader<'_>> {
        self.of(layer).map(|(encoding, layer)| Reader {
            encoding,
            layer,
            positions: encoding.reads(positions),
        })
    }

    /// Hook (a) of every encoding of the layer, in order.
    pub fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        self.embed_piece(hidden, rows, &mut Vec::new())
    }

    /// Hook (b), described: the rotation of the one encoding of the layer that rotates.
    pub fn rotation(&self, layer: usize) -> Option<Rotation> {
        self.of(layer).find_map(|(encoding, layer)| encoding.rotation(layer))
    }

    /// Hook (b): every map of q and k.
    pub fn map_heads(&self, qk: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        let of_queries = self.readers(queries.layer, queries.positions);
        let of_keys = self.readers(keys.layer, keys.positions);
        of_queries
            .zip(of_keys)
            .fold(qk, |qk, (of_q, of_k)| of_q.encoding.map_heads(qk, [of_q.rows(queries), of_k.rows(keys)]))
    }

    /// Hook (c): what the encodings of the layer add to the logits of the queries at hand, before the layer's
    /// temperature divides them. One description stays a description; several are summed into a block.
    pub fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let mut biases: Vec<Bias> = self
            .readers(block.rows.layer, block.rows.positions)
            .map(|reader| reader.encoding.bias(reader.block(block)))
            .filter(|bias| !matches!(bias, Bias::None))
            .collect();
        if biases.len() <= 1 {
            return biases.pop().unwrap_or(Bias::None);
        }
        let (queries, keys) = (block.queries.len(), block.rows.positions.length());
        let device = block.input.device();
        let dense = |bias| {
            let attention = Attention { bias, query_offset: block.queries.start, ..Attention::causal(1) };
            attention.bias_block(queries, keys, &device)
        };
        biases.into_iter().filter_map(dense).reduce(|a, b| a + b).map_or(Bias::None, Bias::Block)
    }

    /// Whether the layer must be read one block of queries at a time: an encoding says so, or several
    /// add a bias, whose sum is a block, or vectors.
    pub fn needs_scores(&self, layer: usize, positions: &Positions) -> bool {
        self.readers(layer, positions).any(|reader| reader.encoding.needs_scores(&reader.positions))
            || self.of(layer).filter(|(encoding, _)| encoding.capabilities().adds_bias()).count() > 1
            || self.of(layer).filter(|(encoding, _)| encoding.capabilities().adds_vectors()).count() > 1
    }

    /// Hooks (b) and (d), described: what the one encoding of the layer that describes something does to scores. What is added to
    /// scores takes all that acts on them, biases too; reflected keys leave biases to others.
    pub fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let Rows { layer, positions, .. } = block.rows;
        let readers = || self.readers(layer, positions);
        let form = readers()
            .map(|reader| reader.encoding.score_form(reader.block(block)))
            .find(|form| !matches!(form, ScoreForm::Plain))
            .unwrap_or_default();
        let (on_scores, also_biases) = match form {
            ScoreForm::Added(_) => (true, true),
            ScoreForm::Reflections(_) => (true, false),
            _ => (false, false),
        };
        let acting = readers().filter(|reader| {
            let capabilities = reader.encoding.capabilities();
            also_biases && capabilities.adds_bias()
                || capabilities.adds_vectors()
                || reader.encoding.needs_scores(&reader.positions)
        });
        if on_scores && acting.count() > 1 { ScoreForm::Plain } else { form }
    }

    /// Hook (a) for a piece of a text; `before` has what the rows before it left behind for each encoding of
    /// the layer, and is empty at the start of a text.
    pub fn embed_piece(
        &self,
        hidden: Tensor<3>,
        rows: Rows<'_>,
        before: &mut Vec<Option<Tensor<3>>>,
    ) -> Tensor<3> {
        before.resize(self.layers[rows.layer].encodings.len(), None);
        let readers = self.readers(rows.layer, rows.positions).zip(before);
        readers
            .fold(hidden, |hidden, (reader, before)| reader.encoding.embed(hidden, reader.rows(rows), before))
    }

    /// Gets every encoding ready for a text of at most `length` tokens that is read piece by piece.
    pub fn prepare(&mut self, length: usize) {
        let text = Positions::range(0..length);
        for encoding in &mut self.encodings {
            let text = encoding.reads(&text);
            encoding.prepare(&text);
        }
    }

    /// Hook (d) on scores.
    pub fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        self.readers(block.rows.layer, block.rows.positions)
            .fold(scores, |scores, reader| reader.encoding.scores(scores, heads, reader.block(block)))
    }

    /// Hook (d) on the softmax: the sink's logit of each head, `[heads]`, of the one encoding of the layer that has one.
    pub fn sink(&self, layer: usize) -> Option<Tensor<1>> {
        self.of(layer).find_map(|(encoding, layer)| encoding.sink(layer))
    }

    /// Hook (d) on values: the sum of all additions to the output.
    pub fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        self.readers(block.rows.layer, block.rows.positions)
            .filter_map(|reader| reader.encoding.values(probabilities, reader.block(block)))
            .reduce(|sum, addition| sum + addition)
    }

    /// The extension's geometry, else plain.
    pub fn geometry(&self, layer: usize) -> Geometry {
        self.layers[layer].geometry.clone().unwrap_or_else(Geometry::plain)
    }

    /// The factors of the queries of a block by the keys that they see, `[rows, queries]`, where it scales those of all heads
    /// alike: those of log-n, or of an attention whose scores have `ln N` as a factor.
    pub fn query_scale(&self, block: QueryBlock<'_>, device: &Device) -> Option<Tensor<2>> {
        let LayerReading { log_n, mask, .. } = self.layers[block.rows.layer];
        let positions = block.rows.positions;
        let factors: Vec<f64> = if self.attention.reads_cosines() {
            visible_keys(positions, block.queries, mask).into_iter().map(f64::ln).collect()
        } else if matches!(log_n, LogN::Off | LogN::ByEntropy) || log_n.is_learned() {
            return None;
        } else {
            let seen = positions.columns(block.queries.clone());
            seen.keys_seen().map(|keys| log_n.factor(keys)).collect()
        };
        Some(upload_shaped(factors.into_iter(), [positions.rows(), block.queries.len()], device))
    }

    /// The learned factors on the queries of a block, `[rows, heads, queries]`, where its layer has some.
    pub fn learned_query_scale(&self, block: QueryBlock<'_>) -> Option<Tensor<3>> {
        let layer = block.rows.layer;
        let LayerReading { log_n, mask, .. } = self.layers[layer];
        match log_n {
            LogN::Learned { row, .. } => {
                let (positions, device) = (block.rows.positions, block.input.device());
                let learned = self.log_n.as_ref()?;
                Some(learned.factors(row, positions, block.queries, mask, &device))
            }
            LogN::Adaptive { row, .. } => {
                let encoded = self.layer_capabilities(layer).first_heads().unwrap_or(0);
                Some(self.adaptive_log_n.as_ref()?.factors(row, encoded, block))
            }
            _ => None,
        }
    }

    /// Whether the learned factors of a layer multiply its whole logits, and not the queries: they scale what encodings add,
    /// and there is something that a scaled query does not scale.
    pub fn scales_logits(&self, layer: usize, positions: &Positions) -> bool {
        matches!(self.layers[layer].log_n, LogN::Learned { scale_bias: true, .. })
            && (self.layer_capabilities(layer).adds_bias() || self.needs_scores(layer, positions))
    }

    /// What multiplies the logits of each head of a layer, beside what all heads share: trained factors, over the
    /// temperatures of the heads. `[heads]`; none where all heads are alike.
    pub fn head_factors(&self, layer: usize, device: &Device) -> Option<Tensor<1>> {
        let LayerReading { temperature, head_scale, .. } = &self.layers[layer];
        let trained = head_scale.and_then(|row| Some(self.head_scale.as_ref()?.factors(row)));
        let Temperature::Heads(temperatures) = temperature else { return trained };
        let inverse = temperatures.iter().map(|temperature| temperature.recip());
        let inverse: Tensor<1> = upload_shaped(inverse, [temperatures.len()], device);
        Some(match trained {
            Some(trained) => trained * inverse,
            None => inverse,
        })
    }
}
