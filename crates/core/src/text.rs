//! Text from files, made safe to show.

use std::borrow::Cow;

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
    fn what_changes_how_others_are_shown_is_replaced() {
        assert_eq!(shown("a\n\u{1b}[31mb\u{202e}c"), "a \u{fffd}[31mb\u{fffd}c");
        assert!(matches!(shown("RoPE, Δ ±"), Cow::Borrowed(_)));
    }
}
