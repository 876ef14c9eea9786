//! Formulas of encodings and extensions: from their plain text to HTML.
//!
//! [`Configure::FORMULA`](longwave_position::encoding::Configure::FORMULA) describes the notation. A Greek letter is a
//! variable, and so is a Latin letter that stands alone: both become italic. Several Latin letters are a word, such as
//! `max` or `learned`, which stays upright, but for two of them in a script, which are two indices, as in `a_{mn}`.

use longwave_core::text::html as escape;
use longwave_core::{Error, Result};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// The symbols that mean the same in every formula, in the notation of formulas, and what they mean.
pub const SYMBOLS: &[(&str, &str)] = &[
    ("m", "position of the query"),
    ("n", "position of the key"),
    ("(m − n)'", "distance at which a query reads a key"),
    ("d", "channels of a head; where an extension changes frequencies, two for each band"),
    ("D", "channels of the hidden state"),
    ("i", "band, a pair of channels with a frequency of its own, from 0"),
    ("h", "head, from 0"),
    ("H", "number of heads"),
    ("L", "training length in tokens"),
    ("T", "tokens of the text that is read"),
    ("s", "scale of an extension: T / L, and at least 1, unless its config says otherwise"),
    ("b", "base of the frequencies"),
    ("θ_i", "frequency of band i, in radians for each position"),
    ("q_m, k_n, v_n", "query, key and value of a head"),
    ("x_m", "hidden state at position m"),
    ("a_{mn}", "logit of a query and a key, which enters the softmax"),
    ("p_{mn}", "probability of a key, from the softmax over the logits of a query"),
    ("'", "what an encoding makes of a vector, or how an extension reads a number"),
    ("π", "half the circumference of a circle of radius 1"),
    ("·", "inner product of two vectors; between numbers the product"),
    ("⊙", "product of two vectors, channel by channel"),
    ("⌊ ⌋, ⌈ ⌉", "rounded down, rounded up"),
    ("clip(x, 0, 1)", "x, but at least 0 and at most 1"),
    ("[ = ]", "1 where both sides are equal, 0 elsewhere"),
];

/// A formula as HTML, `<br>` between its lines.
pub fn html(formula: &str) -> Result<String> {
    let lines = formula.lines().map(|line| {
        let mut reader =
            Reader { rest: line.chars().peekable(), html: String::with_capacity(2 * line.len()) };
        match reader.read(false) {
            Ok(()) => Ok(reader.html),
            Err(what) => Err(Error::usage(format!("the formula `{line}` {what}"))
                .hint("write scripts as `x_m`, `a_{mn}` or `b^{−2i/d}`, and braces nowhere else")),
        }
    });
    Ok(lines.collect::<Result<Vec<_>>>()?.join("<br>\n"))
}

/// What is left of a line, and the HTML of what was read.
struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    html: String,
}

impl Reader<'_> {
    /// Reads up to the end of the line, or of the braces of a script.
    fn read(&mut self, in_script: bool) -> Result<(), String> {
        while let Some(sign) = self.rest.next() {
            match sign {
                '}' if in_script => return Ok(()),
                '}' => return Err("has a `}` without its `{`".to_owned()),
                '{' => return Err("has a `{` that begins no script".to_owned()),
                '_' => self.script("sub", sign)?,
                '^' => self.script("sup", sign)?,
                '\'' => self.html.push('′'),
                _ => self.word(sign, in_script),
            }
        }
        if in_script { Err("has a `{` without its `}`".to_owned()) } else { Ok(()) }
    }

    /// Reads the script behind `_` or `^`.
    fn script(&mut self, tag: &str, sign: char) -> Result<(), String> {
        // Writing into a string cannot fail.
        let _ = write!(self.html, "<{tag}>");
        let begin = self.html.len();
        match self.rest.next() {
            Some('{') => self.read(true)?,
            Some(one) if !one.is_whitespace() && !"_^{}'".contains(one) => {
                if one.is_alphanumeric() && self.rest.peek().is_some_and(|next| next.is_alphanumeric()) {
                    return Err(format!("needs braces for what begins with `{sign}{one}`"));
                }
                self.word(one, true);
            }
            _ => {}
        }
        if self.html.len() == begin {
            return Err(format!("has nothing behind `{sign}`"));
        }
        let _ = write!(self.html, "</{tag}>");
        Ok(())
    }

    /// A sign, or a whole word where it is a Latin letter.
    fn word(&mut self, first: char, in_script: bool) {
        let mut word = String::from(first);
        if first.is_ascii_alphabetic() {
            while let Some(letter) = self.rest.next_if(char::is_ascii_alphabetic) {
                word.push(letter);
            }
        }
        // The signs of a sum and of a product are capital letters.
        let are_variables = match word.chars().count() {
            1 => first.is_alphabetic() && !"ΣΠ".contains(first),
            2 => in_script,
            _ => false,
        };
        if are_variables {
            self.html.extend(word.chars().map(|letter| format!("<i>{letter}</i>")));
        } else {
            self.html += &escape(&word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longwave_position::{encodings, extensions};

    #[test]
    fn scripts_nest_and_lines_are_broken() {
        let text = "a_{mn} = c_{t_0}\nc_h = 2^{⌊log_2 H⌋} w^⊤ r_j^2";
        let typeset = "<i>a</i><sub><i>m</i><i>n</i></sub> = <i>c</i><sub><i>t</i><sub>0</sub></sub><br>\n\
             <i>c</i><sub><i>h</i></sub> = 2<sup>⌊log<sub>2</sub> <i>H</i>⌋</sup> <i>w</i><sup>⊤</sup> \
             <i>r</i><sub><i>j</i></sub><sup>2</sup>";
        assert_eq!(html(text).unwrap(), typeset);
    }

    #[test]
    fn variables_are_italic_and_words_are_not() {
        let text = "θ'_i = Σ_j max(lo, 2πr) mod D, c learned";
        let typeset = "<i>θ</i>′<sub><i>i</i></sub> = Σ<sub><i>j</i></sub> max(lo, 2<i>π</i><i>r</i>) mod <i>D</i>, \
             <i>c</i> learned";
        assert_eq!(html(text).unwrap(), typeset);
    }

    #[test]
    fn what_means_something_to_a_browser_is_escaped() {
        let typeset = html("m < n & \"<script>\", q_<").unwrap();
        assert_eq!(
            typeset,
            "<i>m</i> &lt; <i>n</i> &amp; &quot;&lt;script&gt;&quot;, <i>q</i><sub>&lt;</sub>"
        );
    }

    #[test]
    fn scripts_that_do_not_end_or_hold_nothing_are_rejected() {
        for (text, what) in [
            ("a_{mn", "without its `}`"),
            ("a_{m_{n}", "without its `}`"),
            ("a_m}", "without its `{`"),
            ("{a}", "begins no script"),
            ("a_{m{n}}", "begins no script"),
            ("a_", "nothing behind `_`"),
            ("a_ m", "nothing behind `_`"),
            ("a^{}", "nothing behind `^`"),
            ("a_^2", "nothing behind `_`"),
            ("a_mn", "needs braces for what begins with `_m`"),
            ("b^2i", "needs braces for what begins with `^2`"),
        ] {
            // Every line is read.
            let error = html(&format!("a_{{mn}} = 0\n{text}")).unwrap_err();
            assert!(error.message().starts_with(&format!("the formula `{text}` ")), "{error}");
            assert!(error.message().contains(what), "{text}: {error}");
            assert!(error.hint_text().is_some());
        }
    }

    #[test]
    fn every_encoding_and_extension_has_a_formula_that_can_be_typeset() {
        // A letter that stands in the table.
        let shared: String = SYMBOLS.iter().map(|(symbol, _)| html(symbol).unwrap()).collect();
        for entry in encodings::kinds().iter().chain(extensions::kinds()) {
            let (kind, formula) = (entry.kind, entry.formula);
            let lines: Vec<&str> = formula.split('\n').collect();
            assert!(lines.len() <= 4, "{kind}: {} lines", lines.len());
            for line in lines {
                assert!(!line.trim().is_empty() && line.trim() == line, "{kind}: {line:?}");
                assert!(line.chars().count() <= 110, "{kind}: {} characters: {line}", line.chars().count());
                assert!(!line.contains('\\'), "{kind}: {line}");
                assert!(!line.contains('-'), "{kind}: a hyphen in the place of a minus sign: {line}");
            }
            let typeset = html(formula).unwrap_or_else(|error| panic!("{kind}: {error}"));
            for piece in typeset.split("<i>").skip(1) {
                let letter = &piece[..piece.find("</i>").unwrap()];
                let italic = format!("<i>{letter}</i>");
                let explained = shared.contains(&italic) || typeset.matches(&italic).count() > 1;
                assert!(explained, "{kind}: what is `{letter}`?");
            }
        }
    }

    #[test]
    fn every_symbol_is_listed_once() {
        for (index, (symbol, meaning)) in SYMBOLS.iter().enumerate() {
            assert!(!symbol.is_empty() && !meaning.is_empty());
            let alike = SYMBOLS[..index].iter().find(|other| other.0 == *symbol || other.1 == *meaning);
            assert_eq!(alike, None, "{symbol}: {meaning}");
        }
    }
}
