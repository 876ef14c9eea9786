//! `train.unread`: the tokens of a split whose bytes hold text that the tokenizer does not know or leaves out.
//!
//! Two 8-byte numbers each, little-endian: the token's place in the stream, and the unread bytes up to and with it.

use crate::store::Store;
use longwave_core::Result;
use std::ops::Range;
use std::path::Path;

/// Bytes of one entry.
const ENTRY: usize = 16;

/// One entry: a token's place in the stream, and the unread bytes up to and with it.
pub(crate) fn entry(token: u64, sum: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes.copy_from_slice([token.to_le_bytes(), sum.to_le_bytes()].as_flattened());
    bytes
}

/// The unread bytes of a split; none of a tokenizer that reads every text.
#[derive(Default)]
pub(crate) struct UnreadBytes(Option<Store>);

impl UnreadBytes {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Store::open(path).map(Some).map(Self)
    }

    pub(crate) fn check(&self, tokens: usize) -> Result<(), &'static str> {
        let whole = self.0.as_ref().is_none_or(|store| store.len().is_multiple_of(ENTRY));
        let mut entries = (0..self.len()).map(|index| self.entry(index));
        let mut before = (None, 0);
        let in_order = entries.all(|(token, sum)| {
            let follows = before.0.is_none_or(|last| last < token) && before.1 <= sum;
            before = (Some(token), sum);
            follows && token < tokens as u64
        });
        if whole && in_order { Ok(()) } else { Err("its unread bytes are not those of its tokens") }
    }

    /// The unread bytes of these tokens.
    pub(crate) fn of(&self, tokens: Range<usize>) -> u64 {
        self.before(tokens.end) - self.before(tokens.start)
    }

    /// The unread bytes of the tokens before this one.
    fn before(&self, token: usize) -> u64 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.entry(middle).0 < token as u64 { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map_or(0, |last| self.entry(last).1)
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |store| store.len() / ENTRY)
    }

    fn entry(&self, index: usize) -> (u64, u64) {
        let numbers = self.0.as_ref().map_or(&[][..], |store| store.as_chunks().0);
        let number = |at: usize| numbers.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (number(2 * index), number(2 * index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(entries: &[(u64, u64)]) -> UnreadBytes {
        UnreadBytes(Some(Store::Owned(entries.iter().flat_map(|(token, sum)| entry(*token, *sum)).collect())))
    }

    #[test]
    fn sums_of_any_tokens() {
        let unread = unread(&[(0, 2), (3, 3), (9, 10)]);
        unread.check(10).unwrap();
        let each: Vec<u64> = (0..10).map(|token| unread.of(token..token + 1)).collect();
        assert_eq!(each, [2, 0, 0, 1, 0, 0, 0, 0, 0, 7]);
        assert_eq!((unread.of(0..10), unread.of(1..9), unread.of(4..4)), (10, 1, 0));
        assert_eq!(UnreadBytes::default().of(0..10), 0);
    }

    #[test]
    fn what_belongs_to_other_tokens_is_rejected() {
        UnreadBytes::default().check(0).unwrap();
        for (entries, tokens) in [(&[(0, 2), (3, 3)][..], 3), (&[(3, 2), (3, 3)], 9), (&[(1, 2), (3, 1)], 9)]
        {
            assert!(unread(entries).check(tokens).is_err(), "{entries:?}");
        }
    }
}
