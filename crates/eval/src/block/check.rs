//! What a block may say: every rule, with the message for who breaks it.

use super::{EvaluateConfig, Protocol, ResolvedEvaluate};
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_position::Tokens;

/// A block while it is checked; its lengths are numbers of tokens already.
pub(super) struct Block<'a> {
    pub(super) config: &'a EvaluateConfig,
    pub(super) section: &'a str,
    pub(super) train_length: usize,
}

impl Block<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.section)
    }

    /// A length in tokens, where it is given.
    fn count(&self, tokens: Option<Tokens>) -> Option<usize> {
        tokens.map(|tokens| tokens.rounded_down(self.train_length))
    }

    /// The lengths in tokens, as listed.
    pub(super) fn lengths(&self) -> Vec<usize> {
        self.config.lengths.iter().filter_map(|tokens| self.count(Some(*tokens))).collect()
    }

    /// The shortest and the longest of them.
    pub(super) fn ends(&self, lengths: &[usize]) -> Result<(usize, usize)> {
        let key = self.key("lengths");
        let (Some(&shortest), Some(&longest)) = (lengths.iter().min(), lengths.iter().max()) else {
            return Err(Error::value(&key, "[]", "there must be a length to read at").hint(
                "list lengths in tokens or as multiples of the training length, such as `[\"L\", \"2L\"]`",
            ));
        };
        let twice = lengths.iter().enumerate().find(|(index, length)| lengths[..*index].contains(length));
        if let Some((_, length)) = twice {
            let allowed = format!("{length} is listed twice");
            return Err(Error::value(&key, format!("{lengths:?}"), allowed).hint("list each length once"));
        }
        Ok((shortest, longest))
    }

    pub(super) fn extend(&self) -> Result<()> {
        let key = self.key("extend");
        if self.config.extend.is_empty() {
            return Err(Error::value(&key, "[]", "there must be a way to read")
                .hint("`extend = [\"direct\"]` reads as trained, as does leaving the key out"));
        }
        Ok(())
    }

    /// Refuses keys that the protocol would ignore.
    pub(super) fn keys_of_other_protocols(&self) -> Result<()> {
        use Protocol::{ByPosition, FixedTarget, RepeatedText, Sliding, Task};
        let config = self.config;
        let keys = [
            ("target", config.target, FixedTarget),
            ("max_length", config.max_length, FixedTarget),
            ("window_stride", config.window_stride, FixedTarget),
            ("stride", config.stride, Sliding),
            ("bucket", config.bucket, ByPosition),
            ("passage", config.passage, RepeatedText),
            ("sequences", config.sequences.map(Tokens::Count), Task),
        ];
        for (key, value, protocol) in keys {
            if let Some(value) = value
                && protocol != config.protocol
            {
                let allowed = format!("it has no meaning for `protocol = \"{}\"`", config.protocol);
                let hint = format!("remove it, or use `protocol = \"{protocol}\"`");
                return Err(Error::value(&self.key(key), value.text(), allowed).hint(hint));
            }
        }
        if config.protocol == Task {
            self.keys_of_text()?;
        }
        Ok(())
    }

    /// A task makes its own sequences, each with one window.
    fn keys_of_text(&self) -> Result<()> {
        let config = self.config;
        let keys = [
            ("corpus", config.corpus.as_ref().map(|corpus| format!("\"{corpus}\""))),
            ("split", (config.split != Split::default()).then(|| format!("\"{}\"", config.split))),
            ("windows_per_document", config.windows_per_document.map(|count| count.to_string())),
        ];
        match keys.into_iter().find_map(|(key, value)| Some((key, value?))) {
            None => Ok(()),
            Some((key, value)) => {
                let allowed = "it has no meaning for `protocol = \"task\"`";
                Err(Error::value(&self.key(key), value, allowed)
                    .hint("remove it: a task makes its own sequences"))
            }
        }
    }

    pub(super) fn sequences(&self) -> Result<usize> {
        let sequences = self.config.sequences.unwrap_or(256);
        self.not_zero("sequences", Some(sequences))?;
        Ok(sequences)
    }

    pub(super) fn not_zero(&self, key: &str, value: Option<usize>) -> Result<()> {
        if value == Some(0) {
            return Err(
                Error::value(&self.key(key), 0, "it must be 1 at least").hint("leave it out for the default")
            );
        }
        Ok(())
    }

    pub(super) fn fixed_target(
        &self,
        shortest: usize,
        longest: usize,
        resolved: &mut ResolvedEvaluate,
    ) -> Result<()> {
        let config = self.config;
        let target = self.count(config.target).unwrap_or(self.train_length);
        let max_length = self.count(config.max_length).unwrap_or(longest);
        if longest > max_length {
            let allowed = format!("it must be at least the longest of `lengths`, {longest}");
            return Err(Error::value(&self.key("max_length"), max_length, allowed)
                .hint("leave it out to lay the windows out for the longest length"));
        }
        if target > max_length {
            let allowed = format!("it must be at most `max_length = {max_length}`");
            return Err(Error::value(&self.key("target"), target, allowed)
                .hint("score fewer tokens, or set a larger `max_length`"));
        }
        if shortest < target {
            let allowed =
                format!("a length must be at least `target = {target}`, the tokens that are scored");
            return Err(Error::value(&self.key("lengths"), shortest, allowed).hint(format!(
                "remove it, or score fewer tokens at every length with `target = {shortest}`"
            )));
        }
        let window_stride = self.count(config.window_stride).unwrap_or(max_length);
        if window_stride < target {
            let allowed = format!("it must be at least `target = {target}`, or tokens are scored twice");
            return Err(Error::value(&self.key("window_stride"), window_stride, allowed)
                .hint(format!("use {target} or more, or leave it out for `max_length`")));
        }
        resolved.target = Some(target);
        resolved.max_length = Some(max_length);
        resolved.window_stride = Some(window_stride);
        Ok(())
    }

    /// One stride for all lengths, so that they score the same tokens with as much overlap.
    pub(super) fn stride(&self, shortest: usize) -> Result<usize> {
        let given = self.count(self.config.stride);
        let stride = given.unwrap_or_else(|| (self.train_length.min(shortest) / 2).max(1));
        if stride > shortest {
            let allowed = format!("it must be at most the shortest of `lengths`, {shortest}");
            return Err(Error::value(&self.key("stride"), stride, allowed)
                .hint("a window that advances by more than its length leaves tokens out"));
        }
        Ok(stride)
    }

    pub(super) fn bucket(&self) -> usize {
        self.count(self.config.bucket).unwrap_or_else(|| (self.train_length / 8).max(1))
    }

    /// One passage for all lengths, so that they score the same tokens, each after a whole copy.
    pub(super) fn passage(&self, shortest: usize) -> Result<usize> {
        let given = self.count(self.config.passage);
        let passage = given.unwrap_or_else(|| (shortest / 2).min(self.train_length).max(1));
        if 2 * passage > shortest {
            let allowed = format!("it must be at most half of the shortest of `lengths`, {shortest}");
            return Err(Error::value(&self.key("passage"), passage, allowed)
                .hint("every scored token needs a whole copy of its passage before it"));
        }
        Ok(passage)
    }
}
