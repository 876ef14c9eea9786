//! What reaches the terminal: data on stdout, everything else on stderr.

use longwave_core::text::{json, shown_lines};
use longwave_core::{Error, Result, written};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether another process follows this one on stdout.
static FOLLOWED: AtomicBool = AtomicBool::new(false);

/// From now on stdout carries signs of life for the process that follows this one.
pub(crate) fn be_followed() {
    FOLLOWED.store(true, Ordering::Relaxed);
}

pub(crate) fn followed() -> bool {
    FOLLOWED.load(Ordering::Relaxed)
}

/// Writes text for a person to stdout: lines whose characters are all shown, whatever a file put into them.
pub(crate) fn lines(text: &str) -> Result<()> {
    data(&shown_lines(text))
}

pub(crate) fn data(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn json_lines<T: Serialize>(objects: impl IntoIterator<Item = T>) -> Result<()> {
    let objects = objects.into_iter().map(|object| written::json("a result", &object));
    json_text(&(objects.collect::<Result<Vec<_>>>()?.join("\n") + "\n"))
}

/// Writes a value to stdout as JSON for people; `what` names it in an error.
pub(crate) fn json_document(what: &str, value: &impl Serialize) -> Result<()> {
    json_text(&written::json_lines(what, value)?)
}

pub(crate) fn json_text(text: &str) -> Result<()> {
    data(&json(text))
}

/// Columns of the terminal that stdout is, or that `COLUMNS` asks for elsewhere; `None` where nothing limits a line.
pub(crate) fn width() -> Option<usize> {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok();
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    terminal.or_else(asked).filter(|width| *width > 0)
}

pub(crate) fn status(text: &str) {
    // There is nobody left to show that stderr cannot be written to.
    let _ = writeln!(std::io::stderr(), "{}", shown_lines(text));
}

pub(crate) fn report_error(error: &Error) {
    let (red, cyan, off) = if std::io::stderr().is_terminal() && colours() {
        ("\u{1b}[1;31m", "\u{1b}[1;36m", "\u{1b}[0m")
    } else {
        ("", "", "")
    };
    let mut text = format!("{red}error{off}: {}", shown_lines(error.message()));
    if let Some(hint) = error.hint_text() {
        text = format!("{text}\n\n{cyan}hint{off}: {}", shown_lines(hint));
    }
    // There is nobody left to show that stderr cannot be written to.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether colours are wanted; `NO_COLOR` turns them off.
pub(crate) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub(crate) fn stdout_has_colours() -> bool {
    std::io::stdout().is_terminal() && colours()
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        assert_eq!([grouped(7), grouped(1234), grouped(1_234_567)], ["7", "1,234", "1,234,567"]);
    }
}
