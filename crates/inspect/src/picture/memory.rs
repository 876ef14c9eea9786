//! What a picture of a long text takes.

use longwave_core::memory_check::{product, shortage};
use longwave_core::{Error, Result};

/// Checks that a text of a length can be shown to an encoding, before it is made. A hook is given a whole hidden state: with the copy that one makes of it,
/// 16 bytes for each channel of a token (measured: 2.0 KiB a token at width 128).
pub(super) fn check(length: usize, width: usize, available: Option<u64>) -> Result<()> {
    match shortage(product(&[length, width, 16]), available) {
        None => Ok(()),
        Some(shortage) => {
            Err(Error::failed(format!("a picture of a text of {length} tokens needs {shortage}"))
                .hint("show a shorter text, with a smaller `--length`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_no_memory_holds_is_refused_by_its_length() {
        let error = check(1_000_000_000_000, 128, Some(8 << 30)).unwrap_err();
        assert_eq!(
            error.message(),
            "a picture of a text of 1000000000000 tokens needs about 1.8 PiB, and 8.0 GiB are free"
        );
        assert!(error.hint_text().is_some_and(|hint| hint.contains("--length")));
        assert!(check(1 << 20, 128, Some(8 << 30)).is_ok());
        assert!(check(usize::MAX, 128, None).is_err(), "where the system says nothing");
    }
}
