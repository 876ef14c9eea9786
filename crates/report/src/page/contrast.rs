//! The colours of the style sheet, held to the contrast that texts need (WCAG 2.2, 1.4.3: 4.5 to 1).

use super::figure::STEPS;
use super::html::STYLE;
use std::collections::BTreeMap;

const LEAST: f64 = 4.5;

/// The colours of a light screen, and of a dark one.
fn schemes() -> [BTreeMap<&'static str, &'static str>; 2] {
    let (light, dark) = STYLE.split_once("@media screen and (prefers-color-scheme: dark)").unwrap();
    [light, dark].map(|text| {
        let (_, block) = text.split_once(":root {").unwrap();
        let (block, _) = block.split_once('}').unwrap();
        let pairs = block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(": "));
        pairs.collect()
    })
}

/// Relative luminance, as WCAG defines it.
fn luminance(color: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_ratio_is_that_of_the_standard() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.005);
}

#[test]
fn every_text_can_be_read() {
    for colours in schemes() {
        let mut pairs = Vec::new();
        for text in ["ink", "faint", "accent"] {
            pairs.extend([(text.to_owned(), "paper".to_owned()), (text.to_owned(), "back".to_owned())]);
        }
        for step in 0..STEPS {
            let text = if step < 4 { "low" } else { "high" };
            assert!(STYLE.contains(&format!(".h{step} {{ background: var(--h{step}); }}")));
            pairs.push((text.to_owned(), format!("h{step}")));
        }
        for (text, behind) in pairs {
            let ratio = contrast(colours[text.as_str()], colours[behind.as_str()]);
            assert!(ratio >= LEAST, "{text} on {behind}: {ratio:.2}");
        }
    }
}

#[test]
fn the_drawings_have_the_colours_of_the_style_sheet() {
    let [light, dark] = schemes();
    // Ink, faint texts and paper, as `plot::draw` has them.
    for (name, of_drawing) in [("ink", "#1F2328"), ("faint", "#5F6770"), ("paper", "#FFFFFF")] {
        assert_eq!(light[name].to_uppercase(), of_drawing);
        assert!(STYLE.contains(&format!("figure svg [fill=\"{of_drawing}\"] {{ fill: var(--{name}); }}")));
        assert_ne!(light[name], dark[name]);
    }
}
