//! Colours of `inspect` on a terminal: titles, names, and how dark a cell of a matrix is.

const BOLD: &str = "\x1b[1m";
const NAME: &str = "\x1b[36m";
const END: &str = "\x1b[0m";

/// The shades of a matrix from the lowest number to the highest, in colours that can be told apart on dark and light terminals.
const SHADES: [(char, &str); 9] = [
    ('.', "\x1b[90m"),
    (':', "\x1b[90m"),
    ('-', "\x1b[34m"),
    ('=', "\x1b[34m"),
    ('+', "\x1b[36m"),
    ('*', "\x1b[36m"),
    ('#', "\x1b[32m"),
    ('%', "\x1b[33m"),
    ('@', "\x1b[1;33m"),
];

/// A text of `inspect` in colour: the titles of its parts bold, names at the left and cells of matrices in colours. Without the
/// codes it is the text.
pub(crate) fn painted(text: &str) -> String {
    let mut is_title = true;
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let painted = line_of(line, is_title);
        is_title = line.is_empty();
        painted + end
    };
    text.split_inclusive('\n').map(line).collect()
}

fn line_of(line: &str, is_title: bool) -> String {
    if let Some((position, row)) = matrix_row(line) {
        position.to_owned() + &shaded(row)
    } else if is_title && !line.is_empty() {
        format!("{BOLD}{line}{END}")
    } else if let Some((name, rest)) = named(line) {
        format!("{NAME}{name}{END}{rest}")
    } else {
        line.to_owned()
    }
}

/// The position and the cells of a row of a matrix: the position takes eight places, two spaces follow.
fn matrix_row(line: &str) -> Option<(&str, &str)> {
    let (position, row) = line.split_at_checked(10)?;
    let is_position = position.ends_with("  ") && position.trim().parse::<usize>().is_ok();
    let is_shade = |sign: char| sign == ' ' || SHADES.iter().any(|(shade, _)| *shade == sign);
    (is_position && !row.is_empty() && row.chars().all(is_shade)).then_some((position, row))
}

/// Neighbours of one shade share the codes.
fn shaded(row: &str) -> String {
    let color = |sign: char| SHADES.iter().find(|(shade, _)| *shade == sign).map(|(_, color)| *color);
    let mut painted = String::new();
    let mut now = None;
    for sign in row.chars() {
        if color(sign) != now {
            painted += if now.is_some() { END } else { "" };
            now = color(sign);
            painted += now.unwrap_or_default();
        }
        painted.push(sign);
    }
    painted + if now.is_some() { END } else { "" }
}

/// A name in the first twelve places, as `acts on     `, and what follows it.
fn named(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_at_checked(12)?;
    let is_name = name.ends_with("  ") && name.starts_with(|sign: char| sign.is_ascii_lowercase());
    (is_name && !rest.starts_with(' ')).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "alibi: a penalty\nformula     a = b\n            c = d\nacts on     a bias\n\nslopes\n    head     slope\n       0    \
                        0.2500\n\nlogits; `.` is -8.0000, `@` is 0.0000\n       0  @\n      16  ..@\n";

    /// Without the codes.
    fn plain(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn colours_change_no_character() {
        let painted = painted(TEXT);
        assert_eq!(plain(&painted), TEXT);
        for part in [
            "\x1b[1malibi: a penalty\x1b[0m\n",
            "\x1b[36mformula     \x1b[0ma = b\n",
            "\n            c = d\n",
            "\n\x1b[1mslopes\x1b[0m\n    head     slope\n       0    0.2500\n",
            "      16  \x1b[90m..\x1b[0m\x1b[1;33m@\x1b[0m\n",
        ] {
            assert!(painted.contains(part), "{part:?} is not in {painted:?}");
        }
    }
}
