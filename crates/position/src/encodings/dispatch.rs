//! Every hook of [`Encoding`], passed on to the encoding that it is.

use super::Encoding;
use crate::encoding::{Geometry, HeadUse, Heads, Position, PositionUse, QueryBlock, Rows};
use crate::frequency::{Frequencies, Rotation};
use crate::parameter::ParameterSpec;
use crate::positions::Positions;
use crate::summary::Summary;
use crate::table::Longer;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_kernels::Bias;

impl Position for Encoding {
    fn parameters(&self) -> Vec<ParameterSpec> {
        self.hooks().parameters()
    }
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        self.hooks().embed(hidden, rows)
    }
    fn replaces_hidden(&self) -> bool {
        self.hooks().replaces_hidden()
    }
    fn ties_complex(&self) -> bool {
        self.hooks().ties_complex()
    }
    fn rotation(&self, layer: usize) -> Option<Rotation> {
        self.hooks().rotation(layer)
    }
    fn map_query(&self, q: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.hooks().map_query(q, rows)
    }
    fn map_key(&self, k: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.hooks().map_key(k, rows)
    }
    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        self.hooks().bias(block)
    }
    fn head_use(&self) -> HeadUse {
        self.hooks().head_use()
    }
    fn adds_bias(&self) -> bool {
        self.hooks().adds_bias()
    }
    fn needs_scores(&self, positions: &Positions) -> bool {
        self.hooks().needs_scores(positions)
    }
    fn scratch_per_score(&self) -> usize {
        self.hooks().scratch_per_score()
    }
    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        self.hooks().scores(scores, heads, block)
    }
    fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        self.hooks().values(probabilities, block)
    }
    fn embed_piece(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        self.hooks().embed_piece(hidden, rows, before)
    }
    fn reads_key_matrix(&self) -> bool {
        self.hooks().reads_key_matrix()
    }
    fn reads_input(&self) -> bool {
        self.hooks().reads_input()
    }
    fn prepare(&mut self, length: usize) {
        self.hooks_mut().prepare(length);
    }
    fn is_relative_qk(&self) -> bool {
        self.hooks().is_relative_qk()
    }
    fn geometry(&self, layer: usize) -> Option<Geometry> {
        self.hooks().geometry(layer)
    }
    fn position_use(&self) -> PositionUse {
        self.hooks().position_use()
    }
    fn memory(&self) -> usize {
        self.hooks().memory()
    }
    fn check(&self, positions: &Positions) -> Result<()> {
        self.hooks().check(positions)
    }
    fn frequencies(&self) -> Option<&Frequencies> {
        self.hooks().frequencies()
    }
    fn set_frequencies(&mut self, frequencies: Frequencies) {
        self.hooks_mut().set_frequencies(frequencies);
    }
    fn table_rows(&self) -> Option<usize> {
        self.hooks().table_rows()
    }
    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        self.hooks_mut().extend_table(longer)
    }
    fn interpolate(&mut self, scale: f64) -> bool {
        self.hooks_mut().interpolate(scale)
    }
    fn summaries(&self, positions: &[f64]) -> Vec<Summary> {
        self.hooks().summaries(positions)
    }
}
