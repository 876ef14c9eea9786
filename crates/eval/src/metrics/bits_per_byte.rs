//! `bits_per_byte`: the loss in bits per byte of text, which compares readings across tokenizers.

use super::loss::NLL;
use super::measure::{Absent, Column, Measure};
use super::sums::{Documents, Facts};
use crate::text::Material;
use std::f64::consts::LN_2;

/// The bytes of text that the scored tokens of a document stand for; rows of text keep them.
pub(super) const BYTES: &str = "bytes";

/// The loss in bits per byte of text.
#[derive(Clone, Copy, Debug)]
pub struct BitsPerByte;

impl Measure for BitsPerByte {
    fn unit(&self) -> &'static str {
        "bits per byte"
    }

    fn column(&self) -> Option<Column> {
        let absent = Absent::Null;
        Some(Column { name: "bpb", error: None, absent, error_in_rows: false })
    }

    fn is_of(&self, material: Material) -> bool {
        matches!(material, Material::Documents | Material::Watched)
    }

    fn held_by(&self) -> &'static str {
        "rows of text as it is written have it: neither tasks nor `repeated_text`"
    }

    fn spans_tokenizers(&self) -> bool {
        true
    }

    fn measure(&self, facts: &Facts<'_>) -> Option<(f64, Option<f64>)> {
        let loss: f64 = facts.per_document?.get(NLL.name)?.iter().sum();
        (facts.bytes > 0).then(|| (loss / (LN_2 * facts.bytes as f64), None))
    }

    /// NaN where the loss is no number, for which a file has neither.
    fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        let is_lost = facts.bytes > 0 && facts.values.get("nll").is_some_and(f64::is_nan);
        facts.values.get("bpb").or_else(|| is_lost.then_some(f64::NAN))
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        let sums = facts.per_document?;
        let bits = sums.get(NLL.name)?.iter().map(|nll| nll / LN_2).collect();
        Some(Documents { sums: bits, weights: sums.counts(BYTES)? })
    }

    fn title(&self) -> &'static str {
        "Bits per byte"
    }
}
