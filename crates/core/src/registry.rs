//! Lists to which a program adds entries of its own, once, before anything reads them.
//!
//! Encodings, extensions, protocols and metrics of this workspace stand in lists that the compiler knows. A crate outside
//! of it registers its own when its program starts. A registry that was read cannot grow any more, so no two readers see
//! different lists.

use crate::error::{Error, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// The entries that a program adds to one list.
#[derive(Debug)]
pub struct Registry<T> {
    /// What an entry is, such as `encoding`.
    what: &'static str,
    entries: OnceLock<Vec<T>>,
}

impl<T> Registry<T> {
    /// A list without entries; `what` names one entry in messages.
    pub const fn new(what: &'static str) -> Self {
        Self { what, entries: OnceLock::new() }
    }

    /// The entries that were added. From the first call on the list stays as it is.
    pub fn entries(&self) -> &[T] {
        self.entries.get_or_init(Vec::new)
    }

    /// Adds the entries.
    ///
    /// # Errors
    /// Entries were added before, or the list was read.
    pub fn fill(&self, entries: Vec<T>) -> Result<()> {
        let what = self.what;
        self.entries.set(entries).map_err(|_| {
            Error::usage(format!("{what}s can be registered once, before anything reads their list"))
                .hint(format!("register every {what} of the program at the beginning of its `main`"))
        })
    }
}

/// An entry that is a value of some type, `dyn Trait` for its trait, with the name that it was registered under. Names are
/// unique, so they tell two entries apart.
pub struct Registered<T: ?Sized + 'static> {
    name: &'static str,
    entry: &'static T,
}

impl<T: ?Sized> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<T: ?Sized> Registered<T> {
    pub const fn new(name: &'static str, entry: &'static T) -> Self {
        Self { name, entry }
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    pub fn get(&self) -> &'static T {
        self.entry
    }
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Registered<T> {}

impl<T: ?Sized> PartialEq for Registered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<T: ?Sized> Eq for Registered<T> {}

impl<T: ?Sized> Hash for Registered<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Checks the name of an entry that a program adds: `what` is the entry in messages, `known` are the names that are
/// taken.
///
/// # Errors
/// The name is taken, or is not made of small letters, digits and `_`: names stand in configs, files and charts.
pub fn check_name<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) || !name.chars().all(is_name) {
        return Err(Error::usage(format!("the {what} `{name}` cannot be registered under this name"))
            .hint("use small letters, digits and `_`, a letter first, such as `log_distance`"));
    }
    if known.into_iter().any(|known| known == name) {
        return Err(Error::usage(format!(
            "the {what} `{name}` cannot be registered: there is one of this name"
        ))
        .hint("choose another name, and register each once"));
    }
    Ok(())
}

/// Checks that a table has no other keys than `allowed`; `section` is its place in the file.
pub fn check_keys(section: &str, table: &toml::Table, allowed: &[&str]) -> Result<()> {
    match table.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(crate::config::unknown_key(&format!("{section}.{key}"), key, allowed)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_once_and_not_after_it_was_read() {
        let filled = Registry::new("encoding");
        filled.fill(vec![1, 2]).unwrap();
        assert_eq!(filled.entries(), [1, 2]);
        let message = filled.fill(vec![3]).unwrap_err().to_string();
        assert!(message.starts_with("encodings can be registered once"), "{message}");
        let read = Registry::<usize>::new("metric");
        assert!(read.entries().is_empty());
        assert!(read.fill(vec![1]).is_err());
    }

    #[test]
    fn names_are_checked() {
        assert!(check_name("encoding", "log_2", ["rope"]).is_ok());
        for wrong in ["", "Log", "2log", "log distance", "a/b", "_log"] {
            let message = check_name("encoding", wrong, ["rope"]).unwrap_err().to_string();
            assert!(message.contains("small letters"), "{wrong}: {message}");
        }
        let message = check_name("extension", "ntk", ["direct", "ntk"]).unwrap_err().to_string();
        assert!(message.contains("the extension `ntk`") && message.contains("there is one"), "{message}");
    }

    #[test]
    fn a_key_that_is_not_allowed_is_named() {
        let table: toml::Table = "slop = 1".parse().unwrap();
        let message = check_keys("position", &table, &["slope"]).unwrap_err().to_string();
        assert!(
            message.starts_with("unknown key `position.slop`") && message.contains("`slope`?"),
            "{message}"
        );
    }
}
