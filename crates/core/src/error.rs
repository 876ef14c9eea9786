//! The one error type of the workspace.
//!
//! An [`Error`] is written for the person at the terminal: what is wrong, with the key or path and
//! the value in backticks, and one `hint:` line that says what to do. It also carries the exit code
//! the command line ends with.

use std::cmp::Reverse;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The result type of every fallible function in the workspace.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose turn it is to act; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command line or a config is wrong: exit code 2.
    Usage,
    /// The work could not be done: exit code 1.
    Failed,
    /// The user stopped it, and a checkpoint is written: exit code 130.
    Interrupted,
}

/// What to do about a full disk.
const ROOM: &str = "make room on it; the same command then goes on where this one stopped (`train` with `--resume`, `study` with `--retry`)";

/// What went wrong, for the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// A wrong command line, config key or config value (exit code 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into(), hint: None }
    }

    /// Work that could not be done (exit code 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), hint: None }
    }

    /// Work that the user stopped after a checkpoint was written (exit code 130).
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, message: message.into(), hint: None }
    }

    /// A config value that is not allowed: names the key, the value and what would be allowed.
    pub fn value(key: &str, value: impl fmt::Display, allowed: impl fmt::Display) -> Self {
        Self::usage(format!("`{key} = {value}` is not allowed: {allowed}"))
    }

    /// A file that could not be read or written. A path that leads nowhere, or to another thing than a file, is the
    /// user's to change; all else is work that could not be done.
    pub fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        let place = match error.kind() {
            ErrorKind::NotFound => Some("no such file or folder"),
            ErrorKind::IsADirectory => Some("it is a folder, and no file"),
            ErrorKind::NotADirectory => Some("a part of the path is a file, and no folder"),
            ErrorKind::AlreadyExists => Some("a file stands where the folder should be"),
            _ => None,
        };
        let shown = path.display();
        // A folder in the place of a file that the program makes is no path that the user named.
        let is_own = doing == "write" && error.kind() == ErrorKind::IsADirectory;
        let reads = ["read", "list", "find"].contains(&doing);
        let failed = |why: &str| Self::failed(format!("cannot {doing} `{shown}`: {why}"));
        match place {
            Some(place) if is_own => failed(place),
            Some(place) => Self::usage(format!("cannot {doing} `{shown}`: {place}")).hint(
                "see whether the path is right: it begins at the current folder unless it begins with `/`",
            ),
            None => match error.kind() {
                ErrorKind::PermissionDenied if reads => failed("permission denied"),
                ErrorKind::PermissionDenied => failed("permission denied")
                    .hint("make the folder writable, or write to another one with `--out`; nothing in it was changed"),
                ErrorKind::ReadOnlyFilesystem => failed("its file system is read-only")
                    .hint("make it writable, or write to another folder with `--out`; nothing in it was changed"),
                ErrorKind::InvalidData => {
                    failed("it is no text in UTF-8").hint("save it as UTF-8, or name another file")
                }
                ErrorKind::StorageFull => failed("the disk is full").hint(ROOM),
                ErrorKind::QuotaExceeded => failed("your share of the disk is full").hint(ROOM),
                _ => failed(&error.to_string()),
            },
        }
    }

    /// The folder of a run that was there when the work on it began.
    pub fn gone(folder: &Path) -> Self {
        let shown = folder.display();
        Self::failed(format!("`{shown}` is gone: it was removed or renamed while the program worked on it")).hint(
            "bring it back and the same command goes on (`train` with `--resume`); without it, training begins again",
        )
    }

    /// Adds the line that says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts what was being done in front of the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message without its hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Failed => 1,
            Kind::Interrupted => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// The candidate nearest to `word`, if one is near enough to be a likely slip of the keyboard. Capitals are no slip, nor is `-` for
/// `_`: papers write `RoPE` and `Self-Extend`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    candidates
        .into_iter()
        .map(|candidate| (slips(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(word.len()) / 4)
        .min_by_key(|(distance, candidate)| {
            let beginning = common_beginning(&folded, &fold(candidate));
            (*distance, Reverse(beginning), *candidate != word)
        })
        .map(|(_, candidate)| candidate)
}

/// How many slips of the keyboard lie between two words.
pub(crate) fn slips(a: &str, b: &str) -> usize {
    edit_distance(&fold(a), &fold(b))
}

/// A word as configs write it.
fn fold(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// How many characters two words begin with alike. Slips are rare at the beginning of a word.
fn common_beginning(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// Levenshtein distance between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_words_as_near_the_one_that_begins_alike_is_the_nearest() {
        assert_eq!(nearest("rop", ["drop", "rope"]), Some("rope"));
        assert_eq!(nearest("stps", ["tips", "steps"]), Some("steps"));
    }

    #[test]
    fn shows_message_blank_line_and_hint() {
        let error =
            Error::value("model.heads", 3, "it must divide `model.width = 128`").hint("use 2, 4 or 8");
        assert_eq!(
            error.to_string(),
            "`model.heads = 3` is not allowed: it must divide `model.width = 128`\n\nhint: use 2, 4 or 8"
        );
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn finds_the_slip_of_the_keyboard_but_not_a_stranger() {
        assert_eq!(nearest("lenght", ["steps", "length", "seed"]), Some("length"));
        assert_eq!(nearest("temperature", ["steps", "length", "seed"]), None);
    }

    #[test]
    fn capitals_and_hyphens_are_no_slips() {
        // By single letters `Rope` is as near to `cope`, and `RoPE` to neither.
        for word in ["Rope", "RoPE", "ROPE"] {
            assert_eq!(nearest(word, ["cope", "rope"]), Some("rope"), "{word}");
        }
        for (word, meant) in [
            ("ALiBi", "alibi"),
            ("KERPLE", "kerple"),
            ("YaRN", "yarn"),
            ("Self-Extend", "self_extend"),
            ("ALiBy", "alibi"),
        ] {
            assert_eq!(nearest(word, ["alibi", "kerple", "self_extend", "yarn"]), Some(meant), "{word}");
        }
        assert_eq!(nearest("d", ["D", "d"]), Some("d"), "the same word before its capitals");
    }

    #[test]
    fn edit_distance_counts_edits() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
