//! Whether a reading fits in memory, before it starts.

use crate::scorer::texts_at_once;
use longwave_core::memory_check::shortage;
use longwave_core::{Error, Result};
use longwave_model::Size;
use longwave_model::resolved::Resolved;

/// The memory that an evaluation takes: an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes of the weights.
    pub weights: u64,
    /// Bytes of the largest reading besides.
    pub reading: u64,
    /// The tokens that it reads at once, in one text or several.
    pub tokens: usize,
}

impl Need {
    /// What a model of so many parameters takes to read so many tokens at once and to score so many of them.
    pub fn of(parameters: u64, resolved: &Resolved, tokens: usize, scored: usize) -> Self {
        let weights = parameters.saturating_mul(4);
        Self { weights, reading: Size::reading_bytes(resolved, tokens, scored), tokens }
    }

    /// What it takes to score the last `target` tokens of texts of some lengths, short ones several at once.
    pub fn at(parameters: u64, resolved: &Resolved, lengths: &[usize], target: usize) -> Self {
        let at = |&length: &usize| {
            let rows = texts_at_once(length);
            Self::of(parameters, resolved, rows * length, rows * target.min(length))
        };
        lengths.iter().map(at).fold(Self::default(), Self::or_more)
    }

    /// What opening a checkpoint takes besides the weights: the bytes of its file, and the numbers in it.
    pub fn opening(&self) -> u64 {
        self.weights.saturating_mul(2)
    }

    /// The most that is held at a time, in bytes.
    pub fn bytes(&self) -> u64 {
        self.weights.saturating_add(self.reading.max(self.opening()))
    }

    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        if other.reading > self.reading { other } else { self }
    }
}

/// Refuses a reading that needs more than is there.
pub fn check(length: usize, needed: u64, available: Option<u64>) -> Result<()> {
    match shortage(needed, available) {
        None => Ok(()),
        Some(shortage) => Err(Error::failed(format!("reading {length} tokens needs {shortage}"))
            .hint("evaluate shorter lengths, or use a smaller model or vocabulary")),
    }
}

/// Checks that a text that is made for a length can be read, before it is made.
pub(crate) fn of_text(length: usize, model: &Resolved, available: Option<u64>) -> Result<()> {
    check(length, Size::reading_bytes(model, length, 1), available)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longwave_model::config::ModelConfig;

    #[test]
    fn says_what_is_needed_and_free() {
        let error = check(1_000_000, 3 << 30, Some(1 << 30)).unwrap_err();
        assert_eq!(error.message(), "reading 1000000 tokens needs about 3.0 GiB, and 1.0 GiB are free");
        assert!(check(10, 1, Some(2)).is_ok() && check(10, 1, None).is_ok());
    }

    #[test]
    fn an_evaluation_needs_its_weights_and_the_largest_batch_of_texts() {
        let resolved = ModelConfig::default().resolve(50_000, 128).unwrap();
        let need = |lengths: &[usize], target| Need::at(1_000_000, &resolved, lengths, target);
        // 64 texts of 128 tokens are read at once, and 8 of 1,024.
        assert_eq!((need(&[128], 128).tokens, need(&[1024], 128).tokens), (8192, 8192));
        assert_eq!(need(&[16_384], 128).tokens, 16_384);
        assert_eq!(need(&[128, 1024], 128), need(&[128], 128), "both are 8,192 tokens");
        let logits = |rows: u64| rows * 50_000 * 4;
        let by_scored = need(&[16_384], 16_384).reading - need(&[16_384], 128).reading;
        assert!(
            (logits(128)..logits(1024)).contains(&by_scored),
            "logits of a block exist at a time: {by_scored}"
        );
        let weights = 4_000_000;
        assert_eq!(need(&[128], 128).bytes(), weights + need(&[128], 128).reading);
        let opened = Need { weights, reading: 1, tokens: 1 };
        assert_eq!(opened.bytes(), 3 * weights, "opening the checkpoint is more than a short text");
    }
}
