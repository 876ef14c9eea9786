//! What a newcomer can rely on, in single sentences: `docs/src/results.md`. Numbers and verdicts come from the committed results.

mod list;

use super::results::{Mean, Measured, Study};
use super::{GENERATED, hold};
use list::SENTENCES;
use std::fmt::Write as _;

/// The studies that the sentences are about.
const STUDIES: [&str; 15] = [
    "every-encoding",
    "every-extension",
    "rope-base",
    "why-rope-breaks",
    "bias-family",
    "along-training",
    "who-gains",
    "interpolation",
    "bytes",
    "softmax",
    "softmax-passkey",
    "train-length",
    "qk-norm",
    "no-encoding",
    "no-encoding-tasks",
];

/// A sentence. `{STUDY|LABEL|READING|8}` is the perplexity of a reading at 8L; `|step=300` or `|PROTOCOL` behind it choose
/// another checkpoint or protocol. Under `task` it is the exact match in per cent.
struct Sentence {
    text: &'static str,
    /// The claims that it rests on, word for word as a study has them: that of the first of the studies, or `STUDY: CLAIM`.
    claims: &'static [&'static str],
    /// The pages of the atlas about it.
    pages: &'static [&'static str],
}

#[test]
fn the_sentences_are_what_the_studies_say() {
    hold("docs/src/results.md", &page(&STUDIES.map(Study::read)));
}

fn page(studies: &[Study]) -> String {
    let mut page = format!(
        "# What holds at this scale\n\n{GENERATED}Sentences to rely on, each with the verdict that it rests on. They are about small models: 2 layers, \
         width 64, trained on 3.1 million tokens of the State of the Union addresses in texts of L = {} tokens, {} seeds, unless the \
         sentence says otherwise. Larger models may differ. Numbers are test perplexities, with one standard deviation over seeds.\n\n",
        studies[0].train_length,
        studies[0].seeds()
    );
    for (index, sentence) in SENTENCES.iter().enumerate() {
        let links: Vec<String> = sentence.pages.iter().map(|page| link(page)).collect();
        let links = if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) };
        let _ = writeln!(page, "{}. {}{links}", index + 1, filled(sentence.text, studies));
        for says in sentence.claims {
            let (name, says) = says.split_once(": ").map_or((None, *says), |(name, says)| (Some(name), says));
            let (study, claim) = studies
                .iter()
                .filter(|study| name.is_none_or(|name| study.name == name))
                .find_map(|study| {
                    Some((study, study.claims().iter().find(|claim| is_claim(&claim.says, says))?))
                })
                .unwrap_or_else(|| panic!("no study has the claim `{says}`"));
            let _ = writeln!(page, "    - `{says}`: **{}** (`{}.toml`)", claim.verdict, study.name);
        }
    }
    page
}

/// A claim on another metric than the loss names it behind its sentence.
fn is_claim(written: &str, says: &str) -> bool {
    written.split(" (`").next() == Some(says)
}

fn link(page: &str) -> String {
    format!("[`{}`](atlas/{page}.md)", page.split('/').next_back().unwrap())
}

fn filled(text: &str, studies: &[Study]) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap().to_owned();
    for part in parts {
        let (place, rest) = part.split_once('}').unwrap();
        filled += &number(place, studies);
        filled += rest;
    }
    filled
}

fn number(place: &str, studies: &[Study]) -> String {
    let parts: Vec<&str> = place.split('|').collect();
    let [name, label, reading, multiple] = parts[..4] else { panic!("{place}") };
    let (mut protocol, mut step) = ("fixed_target", None);
    for part in &parts[4..] {
        match part.strip_prefix("step=") {
            Some(number) => step = Some(number.parse::<u64>().unwrap()),
            None => protocol = part,
        }
    }
    let study = studies.iter().find(|study| study.name == name).unwrap_or_else(|| panic!("{place}"));
    let is_meant = |row: &&Measured| {
        (row.label.as_str(), row.reading.as_str()) == (label, reading)
            && row.length == (multiple.parse::<f64>().unwrap() * row.train_length as f64) as usize
            && (row.protocol.as_str(), row.split.as_str()) == (protocol, "test")
            && step.map_or(!row.is_of_kept_step, |step| row.step == step)
    };
    let rows: Vec<&Measured> = study.rows().filter(is_meant).collect();
    assert!(!rows.is_empty(), "no study has {place}");
    if protocol == "task" {
        return Mean::share(&rows.iter().map(|row| row.exact_match.unwrap()).collect::<Vec<_>>());
    }
    Mean::of(&rows.iter().map(|row| row.loss).collect::<Vec<_>>()).text()
}
