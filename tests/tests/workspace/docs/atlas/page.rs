//! The page of one encoding, and that of one extension.

use super::super::keys::sentence;
use super::super::reference::linked;
use super::super::results::{Claim, Study};
use super::Studies;
use super::curves::{Line, chart};
use super::pictures::{Pictures, default_of, direct, is_defined, of_encoding, of_extension, shown_with};
use longwave_eval::WINDOW_BASELINE;
use longwave_inspect::catalog::{EncodingInfo, ExtensionInfo, HookPoint};
use longwave_inspect::typeset;
use longwave_position::{EncodingConfig, ExtensionConfig};
use std::fmt::Write as _;

/// Encodings that no study of plain text can show, and why.
const WITHOUT_CURVE: &[(&str, &str)] = &[(
    "abacus",
    "Abacus marks the digits of numbers, so a text without numbers cannot show what it does. `abacus.toml` trains it on sums.",
)];

/// The page of an encoding; its pictures are added.
pub(super) fn encoding(
    info: &EncodingInfo,
    extensions: &[ExtensionInfo],
    studies: &Studies,
    pictures: &mut Pictures,
) -> String {
    let kind = info.kind;
    let mut page = opening(kind, info.summary, info.formula, info.source);
    let acts: Vec<&str> = info.acts.iter().copied().map(HookPoint::name).collect();
    let acts = if acts.is_empty() { "nothing".to_owned() } else { acts.join(", ") };
    let past = if info.past.starts_with("defined") { "it is" } else { "it has" };
    let _ = writeln!(page, "It acts on {acts}. Past the training length {past} {}.\n", info.past);
    page += &parameters(&info.parameters);
    page += "## Config\n\n";
    page += &fence(&format!("{}{}", position_section(kind), lengths_of_encoding(kind)));
    page += &command(kind);
    page += &curve_of_encoding(kind, &studies.encodings, pictures);
    page += "## Pictures\n\nWith the sizes of the main job (L = 128, four heads of 32 channels), read at 4L, as the parameters begin.\n\n";
    for (title, caption, file) in of_encoding(kind, pictures) {
        page += &figure(&title, &file, &caption);
    }
    page += &attention(kind, studies, pictures);
    page += &verdicts(&claims_on_encoding(kind, &studies.encodings), &studies.encodings);
    let applies: Vec<String> = extensions
        .iter()
        .filter(|extension| extension.applies_to.contains(&kind))
        .map(|extension| format!("[`{0}`](../extensions/{0}.md)", extension.kind))
        .collect();
    let _ = writeln!(
        page,
        "## Extensions\n\n{}. Keys: [reference](../../reference/encodings.md#{kind}).",
        applies.join(", ")
    );
    page
}

/// The page of an extension; its pictures are added.
pub(super) fn extension(
    info: &ExtensionInfo,
    example: &ExtensionConfig,
    encodings: usize,
    studies: &Studies,
    pictures: &mut Pictures,
) -> String {
    let kind = info.kind;
    let mut page = opening(kind, info.summary, info.formula, info.source);
    let applies = if info.applies_to.len() == encodings {
        "every encoding".to_owned()
    } else {
        let links = info.applies_to.iter().map(|kind| format!("[`{kind}`](../encodings/{kind}.md)"));
        links.collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(page, "It applies to {applies}.\n\n## Config\n");
    let all_keys = toml::Value::try_from(example).unwrap().to_string();
    let has_defaults = ExtensionConfig::from_value(&kind.into(), "extend").is_ok();
    let [in_config, on_line] = if has_defaults {
        [format!("\"{kind}\""), kind.to_owned()]
    } else {
        [all_keys.clone(), format!("'{all_keys}'")]
    };
    page += &fence(&block_of_extension(example, &info.applies_to, &in_config));
    let _ =
        writeln!(page, "Of a run that is trained already: `cargo longwave eval RUN --extend {on_line}`.\n");
    if has_defaults {
        let _ = writeln!(page, "With all keys: `{all_keys}`.\n");
    }
    page += &curve_of_extension(kind, &studies.extensions, pictures);
    let drawn = of_extension(example, &info.applies_to, pictures);
    if !drawn.figures.is_empty() {
        let _ = writeln!(
            page,
            "## Pictures\n\n`{}` with the sizes of the main job (L = 128), read at 4L.\n",
            drawn.encoding
        );
        for (title, caption, file) in drawn.figures {
            page += &figure(&title, &file, &caption);
        }
    }
    let is_meant = |word: &str| word == kind || word.starts_with(&format!("{kind} "));
    // Every other claim compares with `direct`.
    if kind != "direct" {
        for study in [&studies.extensions, &studies.encodings] {
            page += &verdicts(&study.claims_on(is_meant), study);
        }
    }
    let _ = writeln!(page, "Keys: [reference](../../reference/extensions.md#{kind}).");
    page
}

fn opening(kind: &str, summary: &str, formula: &str, source: &str) -> String {
    format!(
        "# `{kind}`\n\n{}{}\n\n<p class=\"formula\">{}</p>\n\nSource: {}.\n\n",
        super::GENERATED,
        sentence(summary),
        typeset::html(formula).unwrap(),
        linked(source)
    )
}

fn parameters(parameters: &[String]) -> String {
    match parameters {
        [] => "It has no parameters.\n\n".to_owned(),
        some => format!("Parameters: `{}`.\n\n", some.join("`, `")),
    }
}

/// Every key with its default.
fn position_section(kind: &str) -> String {
    let config = EncodingConfig::from_value(&default_of(kind), "position").unwrap();
    let position = toml::Value::try_from(&config).unwrap();
    toml::to_string(&toml::Table::from_iter([("position".to_owned(), position)])).unwrap()
}

/// What to evaluate, where the usual lengths have positions that the encoding has no vector for.
fn lengths_of_encoding(kind: &str) -> &'static str {
    if is_defined(kind, &direct(), 8.0) {
        ""
    } else if is_defined(kind, &direct(), 4.0) {
        "\n[[evaluate]]\nlengths = [\"L\", \"4L\"]\n"
    } else {
        "\n[[evaluate]]\nlengths = [\"L\", \"4L\"]\nextend = [\"linear\"]\n"
    }
}

/// An evaluation with an extension, and the encoding where that is not `rope`.
fn block_of_extension(example: &ExtensionConfig, applies_to: &[&'static str], in_config: &str) -> String {
    let encoding = shown_with(applies_to);
    let longer = if is_defined(encoding, example, 4.0) { "4L" } else { "1.25L" };
    let position =
        if encoding == "rope" { String::new() } else { format!("[position]\nkind = \"{encoding}\"\n\n") };
    let before =
        if example.kind() != "direct" && is_defined(encoding, &direct(), 4.0) { "\"direct\", " } else { "" };
    format!("{position}[[evaluate]]\nlengths = [\"L\", \"{longer}\"]\nextend = [{before}{in_config}]\n")
}

fn command(kind: &str) -> String {
    let config = format!("configs/{kind}.toml");
    if super::super::repository(&config).is_file() {
        format!("`{config}` is a whole config: `cargo train --config {kind}.toml`.\n\n")
    } else {
        format!(
            "`cargo train --config rope.toml --set position.kind={kind}` trains it in the place of RoPE.\n\n"
        )
    }
}

fn fence(text: &str) -> String {
    format!("```toml\n{}\n```\n\n", text.trim_end())
}

/// A figure; without a file it is its caption alone.
fn figure(title: &str, file: &str, caption: &str) -> String {
    if file.is_empty() {
        return format!("### {title}\n\n{caption}\n\n");
    }
    format!("### {title}\n\n![{title}](../pictures/{file})\n\n{caption}\n\n")
}

fn curve_of_encoding(kind: &str, study: &Study, pictures: &mut Pictures) -> String {
    let labels = study.labels_of(kind);
    let heading = "## Perplexity by length\n\n";
    if labels.is_empty() {
        let known = WITHOUT_CURVE.iter().find(|(of, _)| *of == kind).map(|(_, why)| *why);
        let why = known.unwrap_or("The studies do not have this encoding yet.");
        return format!("{heading}{why}\n\n");
    }
    let lines: Vec<Line> = labels.iter().map(|label| Line::new(label, label, "direct")).collect();
    let others = Line::of_labels(study);
    let file = format!("{kind}-curve.svg");
    pictures.chart(
        &file,
        &chart(study, &format!("{kind}: perplexity by length, read as trained"), &lines, &others),
    );
    let mut text = format!("{heading}![Perplexity by length](../pictures/{file})\n\n{}", study_note(study));
    text += &table(study, &labels);
    text
}

fn curve_of_extension(kind: &str, study: &Study, pictures: &mut Pictures) -> String {
    let readings = study.readings("rope");
    let own: Vec<&str> = readings
        .iter()
        .copied()
        .filter(|reading| *reading == kind || reading.starts_with(&format!("{kind} ")))
        .collect();
    let heading = "## Perplexity by length\n\n";
    if own.is_empty() {
        return format!("{heading}The study of extensions reads RoPE, and has no curve of this one.\n\n");
    }
    let lines: Vec<Line> = own.iter().map(|reading| Line::new(reading, "rope", reading)).collect();
    let others: Vec<Line> = readings
        .iter()
        .filter(|reading| **reading != WINDOW_BASELINE)
        .map(|reading| Line::new(reading, "rope", reading))
        .collect();
    let file = format!("extension-{kind}-curve.svg");
    pictures.chart(&file, &chart(study, &format!("{kind}: perplexity of RoPE by length"), &lines, &others));
    let mut text = format!("{heading}![Perplexity by length](../pictures/{file})\n\n{}", study_note(study));
    let mut shown = own;
    shown.extend(
        ["direct", "direct no log_n", WINDOW_BASELINE]
            .into_iter()
            .filter(|reading| readings.contains(reading)),
    );
    shown.dedup();
    text += &rows(study, shown.into_iter().map(|reading| ("rope", reading)), None);
    text
}

fn study_note(study: &Study) -> String {
    format!(
        "Test perplexity (fixed targets): `exp` of the mean loss over {} seeds, ± one standard deviation over seeds in per cent. \
         The model has 2 layers and width 64 and was trained on L = {} tokens. `cargo longwave study {name}.toml` makes these \
         numbers.\n\n",
        study.seeds(),
        study.train_length,
        name = study.name
    )
}

/// Every reading of some labels; bold is the one that the validation split chooses at 8L.
fn table(study: &Study, labels: &[&str]) -> String {
    let pairs = labels
        .iter()
        .flat_map(|label| study.readings(label).into_iter().map(move |reading| (*label, reading)));
    let text = rows(study, pairs, Some(8 * study.train_length));
    format!(
        "{text}In bold the reading of each model that is best at 8L on the validation split. `{WINDOW_BASELINE}` reads the last L tokens alone.\n\n"
    )
}

fn rows<'a>(
    study: &Study,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    best_at: Option<usize>,
) -> String {
    let lengths = study.lengths();
    let heads: Vec<String> = lengths.iter().map(usize::to_string).collect();
    let mut text =
        format!("| model | read as | {} |\n|---|---|{}\n", heads.join(" | "), "---:|".repeat(lengths.len()));
    for (label, reading) in pairs {
        let cells: Vec<String> = lengths.iter().map(|length| study.cell(label, reading, *length)).collect();
        let is_best = best_at.is_some_and(|length| study.best(label, length) == Some(reading));
        let reading = if is_best { format!("**{reading}**") } else { reading.to_owned() };
        let _ = writeln!(text, "| {label} | {reading} | {} |", cells.join(" | "));
    }
    text + "\n"
}

fn attention(kind: &str, studies: &Studies, pictures: &mut Pictures) -> String {
    let labels = studies.encodings.labels();
    let Some((label, _)) = labels.iter().find(|(_, of)| *of == kind) else { return String::new() };
    let Some(chart) = studies.attention.chart(label) else {
        return studies
            .attention
            .why_not(label)
            .map_or(String::new(), |why| format!("### Attention by distance\n\n{}\n\n", sentence(why)));
    };
    let file = format!("{kind}-attention.svg");
    pictures.chart(&file, &chart);
    figure(
        "Attention by distance",
        &file,
        "Where the trained model of the study attends (seed 0): the mean probability of a key so many tokens back, over heads and \
         over the queries in the second half of windows of 4L of the validation split.",
    )
}

fn claims_on_encoding<'a>(kind: &str, study: &'a Study) -> Vec<&'a Claim> {
    let labels = study.labels_of(kind);
    study.claims_on(|word| labels.contains(&word))
}

/// A table of verdicts; nothing where there are none.
pub(super) fn verdicts(claims: &[&Claim], study: &Study) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "## Verdicts of `{}.toml`\n\n| claim | difference in nats per token, interval | verdict |\n|---|---|---|\n",
        study.name
    );
    for claim in claims {
        let _ = writeln!(text, "| {} | {} | {} |", claim.says, claim.interval, claim.verdict);
    }
    text + "\n"
}
