//! The keys of `[[evaluate]]` that belong to protocols.

use longwave_position::Tokens;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in configs, rows and columns.
    pub name: &'static str,
    /// What it means, and its default; the schema puts its protocols in front.
    pub description: &'static str,
    pub unit: Unit,
    /// Whether a row says `null` where the key has no value; others are left out there.
    pub always_in_rows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tokens, which may be written as a multiple of the training length L.
    Tokens,
    /// A number of things, at least 1.
    Count,
}

impl Key {
    pub const fn tokens(name: &'static str, description: &'static str) -> Self {
        Self { name, description, unit: Unit::Tokens, always_in_rows: false }
    }

    pub const fn count(name: &'static str, description: &'static str) -> Self {
        Self { name, description, unit: Unit::Count, always_in_rows: false }
    }

    /// The same key, `null` in rows without a value: rows have done so since their first version.
    #[must_use]
    pub const fn always_in_rows(self) -> Self {
        Self { always_in_rows: true, ..self }
    }
}

pub const WINDOWS_PER_DOCUMENT: Key =
    Key::count("windows_per_document", "keeps the first so many windows of each document. Default: all.")
        .always_in_rows();

/// The key of protocols that score the end of each window.
pub const TARGET: Key = Key::tokens(
    "target",
    "scored tokens at the end of each window. Default: `\"L\"`; under `repeated_text` less where the\npassage or the \
     shortest of `lengths` is shorter.",
)
.always_in_rows();

/// The key of protocols that score the same tokens at every length.
pub const MAX_LENGTH: Key = Key::tokens(
    "max_length",
    "length of the windows whose tokens are scored, the same tokens at every length. Default: the longest of\n\
     `lengths`.",
)
.always_in_rows();

/// The key of the protocol that reads passages again and again.
pub(super) const PASSAGE: Key = Key::tokens(
    "passage",
    "tokens of a passage. The copy of a scored token lies as many tokens before it. Default: one more\nthan `\"L\"`, just \
     beyond the window baseline.",
);

/// Values of protocols' keys by their names: as written (`Keys<Tokens>`), or in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys<T = usize>(BTreeMap<&'static str, T>);

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Keys<T> {
    /// The value of a key; `None` where it has none.
    pub fn get(&self, name: &str) -> Option<T> {
        self.0.get(name).copied()
    }

    pub fn set(&mut self, key: Key, value: T) {
        self.0.insert(key.name, value);
    }

    #[must_use]
    pub fn with(mut self, key: Key, value: T) -> Self {
        self.set(key, value);
        self
    }

    pub fn remove(&mut self, key: Key) {
        self.0.remove(key.name);
    }
}

impl Keys {
    /// The value of a key that the protocol has filled in.
    ///
    /// # Panics
    /// It has none.
    pub fn at(&self, key: Key) -> usize {
        self.get(key.name).unwrap_or_else(|| panic!("`{}` has no value", key.name))
    }

    /// How many windows of each document are kept; `None` keeps all.
    pub fn windows_per_document(&self) -> Option<usize> {
        self.get(WINDOWS_PER_DOCUMENT.name)
    }

    /// The length of the windows whose tokens every length scores; `None` in rows of other programs, each of whose
    /// lengths has windows of its own.
    pub fn max_length(&self) -> Option<usize> {
        self.get(MAX_LENGTH.name)
    }

    /// The tokens of a passage that is read again and again: which part of a document that is.
    pub fn passage(&self) -> Option<usize> {
        self.get(PASSAGE.name)
    }

    /// Whose tokens are scored, as a part of a sentence; nothing in rows of other programs.
    pub(super) fn over_max_length(&self) -> String {
        self.max_length()
            .map(|length| format!(", over the tokens of windows of {length}"))
            .unwrap_or_default()
    }
}

impl Keys<Tokens> {
    /// A value in numbers, where L is `train_length`.
    pub fn number(&self, name: &str, train_length: usize) -> Option<usize> {
        self.get(name).map(|tokens| tokens.rounded_down(train_length))
    }
}
