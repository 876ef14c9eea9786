//! What a newcomer can rely on, in single sentences, and what failed and why: `docs/src/results.md` and `docs/src/not-reproduced.md`. The words
//! stand in `docs/results.toml` and `docs/not-reproduced.toml`; numbers and verdicts come from the committed results.

use super::committed::committed;
use super::results::{Claim, Mean, Measured, Study};
use super::{GENERATED, hold, repository};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::fs;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    /// In this order they are asked for a claim.
    studies: Vec<String>,
    section: Vec<Sentences>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentences {
    title: String,
    sentence: Vec<Sentence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    text: String,
    /// The claims that it rests on.
    claims: Vec<String>,
    /// The pages of the atlas about it.
    pages: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotReproduced {
    section: Vec<Failures>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failures {
    title: String,
    failure: Vec<Failure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    title: String,
    claims: Vec<String>,
    published: String,
    theirs: Option<String>,
    ours: Option<String>,
    so: String,
}

fn parsed<T: DeserializeOwned>(path: &str) -> T {
    let text = fs::read_to_string(repository(path)).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_sentences_are_what_the_studies_say() {
    let results: Results = parsed("docs/results.toml");
    let studies: Vec<Study> = results.studies.iter().map(|name| Study::read(name)).collect();
    hold("docs/src/results.md", &page(&results.section, &studies));
}

/// Each claim that failed stands in one place, with what its source did otherwise.
#[test]
fn each_failed_claim_has_its_reason() {
    let studies: Vec<Study> = committed().iter().map(|name| Study::read(name)).collect();
    let page: NotReproduced = parsed("docs/not-reproduced.toml");
    hold("docs/src/not-reproduced.md", &failures(&page.section, &studies));
    let named = page.section.iter().flat_map(|section| &section.failure).flat_map(|failure| &failure.claims);
    let mut named: Vec<&str> = named.map(String::as_str).collect();
    named.sort_unstable();
    let mut failed: Vec<String> = Vec::new();
    for study in &studies {
        let of_study = study.claims().iter().filter(|claim| claim.verdict.starts_with("fails"));
        failed.extend(of_study.map(|claim| format!("{}: {}", study.name, sentence(claim))));
    }
    failed.sort_unstable();
    assert_eq!(named, failed);
}

/// A claim's sentence, without the metric that stands behind it.
fn sentence(claim: &Claim) -> &str {
    claim.says.split(" (`").next().unwrap()
}

fn page(sections: &[Sentences], studies: &[Study]) -> String {
    let mut page = format!(
        "# What holds at this scale\n\n{GENERATED}Sentences to rely on, each with the verdict that it rests on. They are about small models: 2 layers, \
         width 64, trained on 3.1 million tokens of the State of the Union addresses in texts of L = {} tokens, {} seeds, unless the \
         sentence says otherwise. Larger models may differ. Numbers are test perplexities, with one standard deviation over seeds. What failed stands \
         on [a page of its own](not-reproduced.md).\n",
        studies[0].train_length,
        studies[0].seeds()
    );
    let mut number = 0;
    for section in sections {
        let _ = writeln!(page, "\n## {}\n", section.title);
        for sentence in &section.sentence {
            number += 1;
            let links: Vec<String> = sentence.pages.iter().map(|page| link(page)).collect();
            let links = if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) };
            let _ = writeln!(page, "{number}. {}{links}", filled(&sentence.text, studies));
            for says in &sentence.claims {
                let (study, claim) = claimed(says, studies);
                let _ =
                    writeln!(page, "    - {}: **{}** (`{}.toml`)", whole(claim), claim.verdict, study.name);
            }
        }
    }
    page
}

fn failures(sections: &[Failures], studies: &[Study]) -> String {
    let mut page = format!(
        "# What we could not reproduce\n\n{GENERATED}Claims of the studies that failed, each with its source, the setting there, what is different here, and what \
         follows from it. A failure at this scale refutes no result at another. The studies are small: 2 layers, width 64, texts of 64 tokens \
         and more; `experiments/` has their files, numbers and pages.\n"
    );
    for section in sections {
        let _ = writeln!(page, "\n## {}", section.title);
        for failure in &section.failure {
            let _ = writeln!(page, "\n### {}\n", failure.title);
            for says in &failure.claims {
                let (study, claim) = claimed(says, studies);
                let (says, name) = (whole(claim), &study.name);
                let _ = writeln!(page, "- {says}: **{}**, {} (`{name}.toml`)", claim.verdict, claim.interval);
            }
            let parts = [
                ("Published", Some(&failure.published)),
                ("There", failure.theirs.as_ref()),
                ("Here", failure.ours.as_ref()),
            ];
            let parts = parts.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", text?)));
            let parts: Vec<String> = parts.chain([failure.so.clone()]).collect();
            let _ = writeln!(page, "\n{}", parts.join("\n\n"));
        }
    }
    page
}

/// A claim with its metric where that is not the loss, and with its protocol.
fn whole(claim: &Claim) -> String {
    let sentence = sentence(claim);
    let metric = claim.says[sentence.len()..].trim_matches([' ', '(', ')']);
    let more = [
        Some(metric.to_owned()).filter(|it| !it.is_empty()),
        claim.protocol.as_ref().map(|it| format!("`{it}`")),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    format!("`{sentence}`{more}")
}

/// What a claim says, without its study.
fn sentence_of(says: &str) -> &str {
    says.split_once(": ").map_or(says, |(_, says)| says)
}

/// A claim, with its study where that is named, and the first study that has it.
fn claimed<'a>(says: &str, studies: &'a [Study]) -> (&'a Study, &'a Claim) {
    let name = says.split_once(": ").map(|(name, _)| name);
    studies
        .iter()
        .filter(|study| name.is_none_or(|name| study.name == name))
        .find_map(|study| {
            Some((study, study.claims().iter().find(|claim| sentence(claim) == sentence_of(says))?))
        })
        .unwrap_or_else(|| panic!("no study has the claim `{says}`"))
}

fn link(page: &str) -> String {
    format!("[`{}`](atlas/{page}.md)", page.split('/').next_back().unwrap())
}

fn filled(text: &str, studies: &[Study]) -> String {
    // Lines are wrapped in the file.
    let text = text.trim().replace('\n', " ");
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
