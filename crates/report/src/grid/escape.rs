//! Entries and texts in the forms of Markdown and LaTeX.

use super::{Entry, is_interval, signed};
use longwave_core::text::shown;

pub(super) fn markdown_entry(entry: &Entry) -> String {
    let value = markdown_text(&entry.value);
    let value = if entry.best || entry.strong { format!("**{value}**") } else { value };
    entry.with_errors(value, signed, str::to_owned)
}

/// A text on one line that ends no cell and begins no HTML element.
pub fn markdown_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let text = shown(text);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '|' => escaped += "\\|",
            '<' if signs.peek().is_some_and(|next| next.is_ascii_alphabetic() || "/!?".contains(*next)) => {
                escaped += "&lt;";
            }
            other => escaped.push(other),
        }
    }
    escaped
}

pub(super) fn latex_entry(entry: &Entry) -> String {
    let value = latex_text(&entry.value);
    let value = if entry.best || entry.strong { format!("\\textbf{{{value}}}") } else { value };
    let small = |text: &str| format!("{{\\scriptsize {text}}}");
    let form = |error: &str| {
        let text = latex_text(error);
        small(&if is_interval(error) { text } else { format!("$\\pm$ {text}") })
    };
    entry.with_errors(value, form, |error| small(&latex_text(error)))
}

/// A text in which no sign has a meaning to LaTeX; signs that its usual fonts lack are commands. Names between backticks
/// are set as code.
pub(super) fn latex_text(text: &str) -> String {
    let mut escaped = String::new();
    let (mut before, mut open) = (' ', false);
    let text = shown(text);
    let mut signs = text.chars().peekable();
    let mut ticks = text.matches('`').count();
    while let Some(sign) = signs.next() {
        match sign {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', sign]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '<' => escaped += "$<$",
            '>' => escaped += "$>$",
            '|' => escaped += "$|$",
            '±' => escaped += "$\\pm$",
            '×' => escaped += "$\\times$",
            '†' => escaped += "$\\dagger$",
            'Δ' | '\u{2206}' => escaped += "$\\Delta$",
            '≤' => escaped += "$\\leq$",
            'α' => escaped += "$\\alpha$",
            'β' => escaped += "$\\beta$",
            'θ' => escaped += "$\\theta$",
            '–' => escaped += "--",
            // A tick without a partner stays as it is.
            '`' if open || ticks > 1 => {
                escaped += if open { "}" } else { "\\texttt{" };
                (open, ticks) = (!open, ticks - 1);
            }
            // A minus sign is no hyphen.
            '-' if before == ' ' && signs.peek().is_some_and(char::is_ascii_digit) => escaped += "$-$",
            sign => escaped.push(sign),
        }
        before = sign;
    }
    escaped
}
