//! Whether a reading fits in memory, before it starts.

use longwave_core::memory_check::shortage;
use longwave_core::{Error, Result};
use longwave_model::Size;
use longwave_model::config::Resolved;

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

/// Checks that a text that is made for a length can be read, before it is made.
///
/// # Errors
/// It needs more than `available`, in bytes.
pub(crate) fn of_text(length: usize, model: &Resolved, available: Option<u64>) -> Result<()> {
    check(length, Size::reading_bytes(model, length, 1), available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_needed_and_free() {
        let error = check(1_000_000, 3 << 30, Some(1 << 30)).unwrap_err();
        assert_eq!(error.message(), "reading 1000000 tokens needs about 3.0 GiB, and 1.0 GiB are free");
        assert!(check(10, 1, Some(2)).is_ok() && check(10, 1, None).is_ok());
    }
}
