//! Whether a reading fits in memory, before it starts.

use longwave_core::memory_check::{product, shortage};
use longwave_core::{Error, Result};

/// Refuses a reading that needs more than is there.
///
/// # Errors
/// `needed` exceeds `available`, both in bytes.
pub fn check(length: usize, needed: u64, available: Option<u64>) -> Result<()> {
    match shortage(needed, available) {
        None => Ok(()),
        Some(shortage) => Err(Error::failed(format!("reading {length} tokens needs {shortage}"))
            .hint("evaluate shorter lengths, or use a smaller model or vocabulary")),
    }
}

/// Bytes of a question besides its tokens, at least.
const QUESTION: usize = 48;

/// Refuses more questions of a task than the memory holds; `sequences` is what the block asks.
///
/// # Errors
/// They need more than `available`, in bytes.
pub(crate) fn check_questions(sequences: Option<usize>, length: usize, available: Option<u64>) -> Result<()> {
    let Some(sequences) = sequences else { return Ok(()) };
    let bytes = product(&[length, size_of::<u32>()]).saturating_add(QUESTION as u64);
    match shortage(bytes.saturating_mul(sequences as u64), available) {
        None => Ok(()),
        Some(shortage) => Err(Error::value("evaluate.sequences", sequences, format!("they take {shortage}"))
            .hint("ask fewer sequences: 256 at every length unless given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_needed_and_free() {
        let error = check(1_000_000, 3 << 30, Some(1 << 30)).unwrap_err();
        assert_eq!(error.message(), "reading 1000000 tokens needs about 3.0 GiB, and 1.0 GiB are free");
        assert!(check(10, 1, Some(2)).is_ok() && check(10, 1, None).is_ok());
        let error = check_questions(Some(1 << 50), 16, Some(1 << 30)).unwrap_err();
        assert!(error.message().starts_with("`evaluate.sequences = 1125899906842624`"), "{error}");
        assert!(check_questions(Some(256), 1 << 14, Some(1 << 30)).is_ok());
        assert!(check_questions(None, 16, Some(1)).is_ok());
    }
}
