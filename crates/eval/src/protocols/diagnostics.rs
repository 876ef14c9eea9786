//! `diagnostics`: the tokens of `fixed_target`, and what attention does while they are read.

use super::fixed_target::FixedTarget;
use super::keys::{Key, Keys};
use super::rules::{Documents, Given, Rules};
use crate::metrics::Metric;
use crate::plan::Plan;
use crate::text::Material;
use longwave_core::Result;

/// As [`FixedTarget`]; rows also hold what the queries of the scored tokens do, see [`crate::diagnostics`].
#[derive(Clone, Copy, Debug)]
pub struct Diagnostics;

impl Rules for Diagnostics {
    fn description(&self) -> &'static str {
        "The windows and tokens of `fixed_target`, and what attention does there: unseen angles, the first token's share, entropy."
    }

    fn keys(&self) -> &'static [Key] {
        FixedTarget.keys()
    }

    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        FixedTarget.resolve(block)
    }

    fn material(&self) -> Material {
        Material::Watched
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        FixedTarget.plan(keys, length, documents)
    }

    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        FixedTarget.at_one_length(keys, length)
    }

    fn keys_of_rows(&self) -> &'static [Key] {
        FixedTarget.keys_of_rows()
    }

    fn shown(&self) -> &'static [Metric] {
        &[
            Metric::Perplexity,
            Metric::UnseenAngles,
            Metric::FirstToken,
            Metric::EffectiveKeys,
            Metric::Entropy,
            Metric::BeyondLength,
        ]
    }

    fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
        true
    }

    fn in_words(&self, keys: &Keys) -> String {
        FixedTarget.in_words(keys)
    }
}
