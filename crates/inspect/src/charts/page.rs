//! The page of `longwave inspect --out`: one file without scripts.

use super::Drawing;
use crate::picture::Picture;
use crate::typeset;
use longwave_core::Result;
use longwave_core::text::{GENERATOR, html as escape};
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// The page. `of` says what was looked at.
pub(super) fn page(of: &str, shown: &[(&Picture, Vec<Drawing>)]) -> Result<String> {
    let title = escape(of);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n{GENERATOR}\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n"
    );
    for (picture, drawings) in shown {
        let _ = writeln!(
            text,
            "<section>\n<h2>{}</h2>\n<p>{}. <span class=\"source\">{}</span></p>\n<p class=\"formula\">{}</p>",
            escape(picture.encoding),
            escape(&capitalised(picture.summary)),
            escape(picture.source),
            typeset::html(picture.formula)?
        );
        if picture.extend.kind() != "direct" {
            let _ = writeln!(
                text,
                "<p>Read as {}:</p>\n<p class=\"formula\">{}</p>",
                escape(picture.extend.kind()),
                typeset::html(picture.extend_formula)?
            );
        }
        text.push_str("<p class=\"source\">Numbers in a formula are those of the default keys.</p>\n");
        for drawing in drawings {
            let svg = drawing.svg()?;
            // An SVG in a page begins with its element.
            let svg = svg.find("<svg").map_or(svg.as_str(), |begin| &svg[begin..]);
            let label = format!("<svg role=\"img\" aria-label=\"{}\"", escape(&drawing.title));
            let svg = svg.replacen("<svg", &label, 1);
            let _ = writeln!(
                text,
                "<figure>\n<h3>{}</h3>\n<div class=\"wide\">{}</div>\n<figcaption>{} <a href=\"{file}.svg\">SVG</a> <a \
                 href=\"{file}.png\">PNG</a></figcaption>\n</figure>",
                escape(&drawing.title),
                svg,
                escape(&drawing.caption),
                file = escape(&drawing.file)
            );
        }
        let _ = writeln!(
            text,
            "<details>\n<summary>All numbers</summary>\n<pre>{}</pre>\n</details>\n</section>",
            escape(&picture.text())
        );
    }
    text.push_str("</main>\n</body>\n</html>\n");
    Ok(text)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
