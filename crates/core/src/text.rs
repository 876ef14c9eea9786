//! Text from files, made safe to show or to type.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is not shown but changes how others are: control characters, such as that of a terminal's escape
/// codes, and those that turn the direction of writing.
pub fn is_invisible(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

/// A text on one line, in which a character that is not shown is a replacement character and a line break a space.
pub fn shown(text: &str) -> Cow<'_, str> {
    let visible = |character: char| match character {
        '\n' | '\r' | '\t' => ' ',
        other if is_invisible(other) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    if text.chars().any(is_invisible) { text.chars().map(visible).collect() } else { text.into() }
}

/// The same of every line: for text that is printed as it is.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    if text.chars().any(|character| character != '\n' && is_invisible(character)) {
        text.split('\n').map(shown).collect::<Vec<_>>().join("\n").into()
    } else {
        text.into()
    }
}

/// A word quoted for a POSIX shell, where it needs it.
pub fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:,@%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// JSON in which characters that are not shown are escaped; line breaks between objects stay.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character != '\n' && is_invisible(character);
    if !text.chars().any(is_escaped) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            // Writing into a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped.into()
}

/// What stands in the head of every page that this program writes, and tells it from those of others.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"Longwave\">";

/// Text as it may stand in an element or an attribute of an HTML page.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(character),
            other if is_invisible(other) => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("/a/b-c.toml"), "/a/b-c.toml");
        assert_eq!(quoted("it's here"), "'it'\\''s here'");
    }

    #[test]
    fn what_changes_how_others_are_shown_is_replaced() {
        assert_eq!(shown("a\n\u{1b}[31mb\u{202e}c"), "a \u{fffd}[31mb\u{fffd}c");
        assert!(matches!(shown("RoPE, Δ ±"), Cow::Borrowed(_)));
        assert_eq!(shown_lines("a\u{9b}1m\r\n\tb\n"), "a\u{fffd}1m \n b\n");
        assert!(matches!(shown_lines("a\nb\n"), Cow::Borrowed(_)));
        assert_eq!(json("{\"a\":\"\u{9b}1m\u{202e}Δ\"}\n{}"), "{\"a\":\"\\u009b1m\\u202eΔ\"}\n{}");
    }
}
