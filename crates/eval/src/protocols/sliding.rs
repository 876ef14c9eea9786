//! `sliding`: windows that advance by a stride.

use super::keys::{Key, Keys, MAX_LENGTH, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::plan::{Plan, Window};
use longwave_core::Result;

pub(super) const STRIDE: Key = Key::tokens(
    "stride",
    "tokens that a window advances by, at every length. Default: half of `train.length`\nor of the shortest \
     of `lengths`, whichever is less.",
)
.always_in_rows();

/// See [`sliding`].
#[derive(Clone, Copy, Debug)]
pub struct Sliding;

impl Rules for Sliding {
    fn description(&self) -> &'static str {
        "Windows that advance by `stride` tokens, each scoring what no earlier one has. Every length scores the tokens\n\
         of the windows of `max_length`."
    }

    fn keys(&self) -> &'static [Key] {
        &[MAX_LENGTH, WINDOWS_PER_DOCUMENT, STRIDE]
    }

    /// One stride for all lengths, so that they score the same tokens with as much overlap.
    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let shortest = block.shortest;
        let stride = block.get(STRIDE).unwrap_or_else(|| (block.train_length.min(shortest) / 2).max(1));
        if stride > shortest {
            let allowed = format!("it must be at most the shortest of `lengths`, {shortest}");
            return Err(block
                .error("stride", stride, allowed)
                .hint("a window that advances by more than its length leaves tokens out"));
        }
        Ok(block.keys.clone().with(STRIDE, stride))
    }

    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        if keys.at(STRIDE) > length {
            return Err("it must be at least `stride`");
        }
        Ok(keys.clone().with(MAX_LENGTH, length))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        let (stride, max_length) = (keys.at(STRIDE), keys.at(MAX_LENGTH));
        let advances = keys.windows_per_document().map_or(usize::MAX, |limit| limit - 1);
        let kept = |_| stride.saturating_mul(advances).saturating_add(max_length + 1);
        sliding(&documents.scored_at_every_length(max_length, kept), length, stride)
    }

    fn keys_of_rows(&self) -> &'static [Key] {
        &[STRIDE]
    }

    fn same_tokens_at_every_length(&self, keys: &Keys, _lengths: &[usize]) -> bool {
        keys.max_length().is_some()
    }

    fn in_words(&self, keys: &Keys) -> String {
        format!("windows that advance by {} tokens{}", keys.at(STRIDE), keys.over_max_length())
    }
}

/// Every target of every document, by windows of `length` tokens that advance by `stride`.
///
/// Window `m` begins at `m * stride` and scores what no earlier window has scored, so every target
/// but those of the first window has at least `length - stride + 1` tokens of context. The last
/// window may be shorter: no tail is dropped.
///
/// # Panics
/// Unless `1 <= stride <= length`.
pub fn sliding(documents: &[usize], length: usize, stride: usize) -> Plan {
    assert!(1 <= stride && stride <= length, "sliding needs 1 <= stride <= length");
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let mut first = 1;
        let windows = (0..).step_by(stride).map_while(|start: usize| {
            if tokens <= length || first >= tokens {
                return None;
            }
            let end = (start + length + 1).min(tokens);
            let window = Window { document, start, first, end };
            first = end;
            Some(window)
        });
        plan.add_document(windows, None);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search reads windows of one length alone.
    #[test]
    fn one_length_holds_the_stride() {
        let keys = Keys::of(&[("stride", 64), ("max_length", 256)]);
        assert_eq!(Sliding.at_one_length(&keys, 64), Ok(keys.clone().with(MAX_LENGTH, 64)));
        assert_eq!(Sliding.at_one_length(&keys, 63), Err("it must be at least `stride`"));
    }

    #[test]
    fn sliding_scores_every_token_once_and_keeps_its_context() {
        for tokens in [65, 66, 97, 128, 129, 200] {
            for stride in [1, 7, 32, 64] {
                let plan = sliding(&[tokens], 64, stride);
                let mut next = 1;
                for window in &plan.windows {
                    assert_eq!(window.first, next);
                    assert!(window.reading() <= 64);
                    assert!(window.start == 0 || window.first - window.start > 64 - stride);
                    next = window.end;
                }
                assert_eq!(next, tokens, "stride {stride}");
            }
        }
    }
}
