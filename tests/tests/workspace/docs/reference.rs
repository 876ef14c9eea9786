//! The pages of `docs/src/reference`, made from what the program prints about itself.

use super::keys::{Schema, owners, sentence};
use super::{GENERATED, hold, program, repository};
use longwave_eval::Metric;
use longwave_eval::fields;
use longwave_eval::row::columns::columns;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

/// With `UPDATE_DOCS=1` the pages are written again.
#[test]
fn the_reference_is_what_the_program_says() {
    let list: Value = serde_json::from_str(&program(&["inspect", "--list", "--json"])).unwrap();
    let schema = Schema::new(serde_json::from_str(&program(&["schema"])).unwrap());
    let pages = [
        ("docs/src/reference/encodings.md", encodings(&list, &schema)),
        ("docs/src/reference/extensions.md", extensions(&list, &schema)),
        ("docs/src/reference/protocols.md", protocols(&schema)),
        ("docs/src/reference/metrics.md", metrics()),
        ("docs/src/reference/results.md", results()),
        ("docs/src/reference/commands.md", commands()),
        ("docs/src/reference/config.md", config(&schema)),
    ];
    for (name, text) in pages {
        hold(name, &text);
    }
}

/// What a reader looks for by the name of a kind is in the file of that name, whose head says what it is, from where.
#[test]
fn every_kind_has_a_file_of_its_name() {
    let list: Value = serde_json::from_str(&program(&["inspect", "--list", "--json"])).unwrap();
    for folder in ["encodings", "extensions"] {
        for entry in list[folder].as_array().unwrap() {
            let kind = entry["kind"].as_str().unwrap();
            let files = [format!("{kind}.rs"), format!("{kind}/mod.rs")];
            let mut files =
                files.iter().map(|file| repository("crates/position/src").join(folder).join(file));
            let file =
                files.find(|file| file.is_file()).unwrap_or_else(|| panic!("{folder}: no file for {kind}"));
            let text = fs::read_to_string(&file).unwrap();
            let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
            let begin = format!("//! `{kind}`: ");
            assert!(
                head.first().is_some_and(|line| line.starts_with(&begin)),
                "{file:?} does not begin with {begin}"
            );
            assert!(head.len() >= 3, "{file:?} does not say what it computes, and from where");
        }
    }
}

fn encodings(list: &Value, schema: &Schema) -> String {
    let mut page = "# Encodings\n\n".to_owned() + GENERATED;
    page += "Choose one with `[position] kind = \"..\"`. [Encodings](../concepts/encodings.md) explains how they \
             differ. L is the training length.\n\n";
    page += program(&["inspect", "--list"]).split("\n\n").next().unwrap();
    page += "\n\n";
    page += &symbols(list);
    for encoding in list["encodings"].as_array().unwrap() {
        let kind = encoding["kind"].as_str().unwrap();
        page += &heading(encoding);
        let config = format!("configs/{kind}.toml");
        if repository(&config).is_file() {
            let _ = writeln!(page, "Example: `{config}`.\n");
        }
        let applies = |extension: &&Value| {
            extension["applies_to"].as_array().unwrap().iter().any(|known| known == kind)
        };
        let extensions: Vec<&Value> = list["extensions"].as_array().unwrap().iter().filter(applies).collect();
        let links = extensions.iter().map(|extension| link("extensions.md", extension));
        let _ = writeln!(page, "Extensions: {}.\n", links.collect::<Vec<_>>().join(", "));
        page += &keys(schema, "EncodingConfig", kind, &["kind"]);
    }
    page.trim_end().to_owned() + "\n"
}

fn extensions(list: &Value, schema: &Schema) -> String {
    let mut page = "# Extensions\n\n".to_owned() + GENERATED;
    page += "An extension changes how a trained model reads longer texts. Name it in `extend = [..]` of \
             `[[evaluate]]`, or behind `--extend`. [Extensions](../concepts/extensions.md) explains how they differ. L is \
             the training length, s the scale: the length that is read over L.\n\n";
    page += program(&["inspect", "--list"]).split("\n\n").nth(1).unwrap().trim_end();
    page += "\n\nThe formulas below are those of the default keys. [Encodings](encodings.md#symbols-of-formulas) lists their symbols.";
    page += "\n\n## Keys of every extension\n\n";
    let direct = schema.variant("ExtensionConfig", "direct");
    page += &schema.keys(direct, &["kind"]);
    page += "\n";
    let common = direct["properties"].as_object().unwrap();
    for extension in list["extensions"].as_array().unwrap() {
        page += &heading(extension);
        let kinds = extension["applies_to"].as_array().unwrap();
        let all = kinds.len() == list["encodings"].as_array().unwrap().len();
        let links: Vec<String> =
            kinds.iter().map(|kind| link("encodings.md", &serde_json::json!({ "kind": kind }))).collect();
        let applies = if all { "every encoding".to_owned() } else { links.join(", ") };
        let _ = writeln!(page, "Applies to {applies}.\n");
        let kind = extension["kind"].as_str().unwrap();
        // A key that has the name of one of these and means something else is the extension's own.
        let own = schema.variant("ExtensionConfig", kind)["properties"].as_object().unwrap();
        let same = |(key, of_all): &(&String, &Value)| own.get(*key) == Some(*of_all) || *key == "kind";
        let same: Vec<&str> = common.iter().filter(same).map(|(key, _)| key.as_str()).collect();
        page += &keys(schema, "ExtensionConfig", kind, &same);
    }
    page.trim_end().to_owned() + "\n"
}

/// The symbols of formulas as a table.
fn symbols(list: &Value) -> String {
    let mut table = "## Symbols of formulas\n\nEach encoding below, and each [extension](extensions.md), has the formula of its \
                     default keys. `_` and `^` begin a subscript and a superscript. These symbols mean the same in all of \
                     them:\n\n| symbol | meaning |\n|---|---|\n"
        .to_owned();
    for symbol in list["symbols"].as_array().unwrap() {
        let text = |key: &str| symbol[key].as_str().unwrap();
        let _ = writeln!(table, "| `{}` | {} |", text("symbol"), text("meaning"));
    }
    table + "\n"
}

/// Its name, what it is, where it was published, and its formula.
fn heading(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap();
    format!(
        "## `{}`\n\n{} Source: {}.\n\n```text\n{}\n```\n\n",
        text("kind"),
        sentence(text("summary")),
        linked(text("source")),
        text("formula")
    )
}

/// A source, with a link to the first paper or post that it names.
pub fn linked(source: &str) -> String {
    match address(source) {
        Some(address) => format!("[{source}]({address})"),
        None => source.to_owned(),
    }
}

/// Where the first paper or post that a source names is read.
fn address(source: &str) -> Option<String> {
    let end = |text: &str| text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number = |text: &str| text[..end(text)].trim_end_matches('.').to_owned();
    if let Some((_, paper)) = source.split_once("arXiv:") {
        return Some(format!("https://arxiv.org/abs/{}", number(paper)));
    }
    let (_, post) = source.split_once("kexue.fm/archives/")?;
    Some(format!("https://kexue.fm/archives/{}", number(post)))
}

fn link(page: &str, entry: &Value) -> String {
    let kind = entry["kind"].as_str().unwrap();
    format!("[`{kind}`]({page}#{kind})")
}

fn keys(schema: &Schema, of: &str, kind: &str, skip: &[&str]) -> String {
    let keys = schema.keys(schema.variant(of, kind), skip);
    if keys.is_empty() { String::new() } else { format!("Keys:\n\n{keys}\n") }
}

/// The keys of `[[evaluate]]` name the protocols that they belong to before a colon.
fn protocols(schema: &Schema) -> String {
    let mut page = "# Protocols\n\n".to_owned() + GENERATED;
    page += "A protocol says which windows of the text a model reads, and which tokens it scores. Choose one with \
             `protocol = \"..\"` in `[[evaluate]]` or behind `--protocol`. [Protocols and the window \
             baseline](../concepts/protocols.md) explains which one to use.\n\n";
    let evaluate = schema.definition("EvaluateConfig");
    let protocols = schema.definition("Protocol")["oneOf"].as_array().unwrap();
    let names: Vec<&str> = protocols.iter().map(|protocol| protocol["const"].as_str().unwrap()).collect();
    let all = evaluate["properties"].as_object().unwrap();
    for (protocol, name) in protocols.iter().zip(&names) {
        let _ = writeln!(page, "## `{name}`\n\n{}\n", sentence(protocol["description"].as_str().unwrap()));
        let others: Vec<&str> =
            all.iter().filter(|(_, key)| !owners(key).contains(name)).map(|(key, _)| key.as_str()).collect();
        let own = schema.without_owners().keys(evaluate, &others);
        if !own.is_empty() {
            let _ = writeln!(page, "Keys:\n\n{own}");
        }
    }
    page += "## Keys of every protocol\n\n";
    let owned: Vec<&str> = all
        .iter()
        .filter(|(_, key)| owners(key).iter().any(|owner| names.contains(owner)))
        .map(|(key, _)| key.as_str())
        .collect();
    page + &schema.keys(evaluate, &owned)
}

fn metrics() -> String {
    let mut page = "# Metrics\n\n".to_owned() + GENERATED;
    page += "Claims of studies (`metric = \"..\"`) and `longwave compare --metric` take these names. [Protocols and the \
             window baseline](../concepts/protocols.md#metrics) says what else a row holds.\n\n\
             | metric | unit | better | which rows have it |\n|---|---|---|---|\n";
    for metric in Metric::comparable() {
        let better = metric.better().unwrap_or("neither");
        let _ =
            writeln!(page, "| `{}` | {} | {better} | {} |", metric.name(), metric.unit(), metric.held_by());
    }
    page
}

fn results() -> String {
    let mut page = "# Result files\n\n".to_owned() + GENERATED;
    page += "A run's `results.jsonl` has one JSON object a line for each measurement. `results.csv` of a run, and `results.csv` \
             and `results.parquet` of a study, have the same fields as columns, all of them whatever was measured, always in \
             this order and with these types. So files of different runs and studies can be put together. A study's begin \
             with its axes and `reading`, the extension's label in its tables, all text. A missing value is null, and so is a \
             number that is not finite; CSV leaves it empty. In CSV, a text that begins with `=`, `+`, `-` or `@` and is no number has an \
             apostrophe before it, so that a spreadsheet does not take it for a formula: `Study.results` of the Python module reads it \
             without. In `results.jsonl` a field is left out where it does not apply, and so is what follows from others, as `ppl_se` does.\n\n| column | type | meaning |\n|---|---|---|\n";
    let mut line = |name: &str, of: &str, meaning: &str| {
        // Writing into a string cannot fail.
        let _ = writeln!(page, "| `{name}` | {of} | {} |", meaning.replace('|', "\\|"));
    };
    for column in columns() {
        line(column.name, column.of.name(), &column.meaning);
    }
    page += "\n## Lists\n\nThese fields of `results.jsonl` are lists or objects, and no columns.\n\n| field | meaning |\n|---|---|\n";
    for (name, meaning) in fields::LISTS {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page += "\n## Single tokens\n\n`longwave eval RUN --tokens FILE` writes one line for each scored token: JSON lines, or CSV where \
             the name ends in `.csv`.\n\n| field | type | meaning |\n|---|---|---|\n";
    for (name, of, meaning) in fields::TOKEN_COLUMNS {
        let _ = writeln!(page, "| `{name}` | {} | {meaning} |", of.name());
    }
    page += "\n## Training steps\n\nA run's `metrics.jsonl` has one JSON object a line for each step. A field is left out where \
             it does not apply.\n\n| field | type | meaning |\n|---|---|---|\n";
    for (name, of, meaning) in longwave_train::metrics::FIELDS {
        let _ = writeln!(page, "| `{name}` | {of} | {meaning} |");
    }
    page
}

fn commands() -> String {
    let mut page = "# Commands\n\n".to_owned() + GENERATED;
    page += "In this folder, `cargo longwave` stands for the program: `cargo longwave eval runs/rope-0`. `cargo train` \
             stands for `cargo longwave train`.\n\n\
             - Results go to stdout, progress and messages to stderr. `RUST_LOG=debug` shows more. `NO_COLOR` turns colours \
             off. Where stderr is no terminal, a line of progress comes every 15 seconds, or every `LONGWAVE_PROGRESS` seconds.\n\
             - Exit codes: 0 done, 1 failed, 2 wrong usage or config, 130 interrupted with a checkpoint written. `task` also \
             has 75, for a run that another process works on.\n\
             - Ctrl-C stops any command. A run continues with `--resume`, a study with the same command.\n\n";
    let overview = program(&["--help"]);
    for name in listed(&overview) {
        page += &command(&[name], &program(&[name, "--help"]));
    }
    page.trim_end().to_owned() + "\n"
}

fn command(path: &[&str], help: &str) -> String {
    let mut text = format!("## `{}`\n\n```text\n{}\n```\n\n", path.join(" "), trimmed(help));
    for name in listed(help) {
        let inner = [path, &[name]].concat();
        let mut asked = inner.clone();
        asked.push("--help");
        text += &command(&inner, &program(&asked));
    }
    text
}

/// Help without spaces at the ends of lines.
fn trimmed(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The commands that a help lists, `help` aside.
fn listed(help: &str) -> Vec<&str> {
    let Some((_, behind)) = help.split_once("Commands:\n") else { return Vec::new() };
    let lines = behind.lines().take_while(|line| !line.is_empty());
    let name = |line: &'_ str| line.starts_with("  ") && !line.starts_with("   ");
    let names = lines.filter(|line| name(line)).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

fn config(schema: &Schema) -> String {
    let mut page = "# Config keys\n\n".to_owned() + GENERATED;
    page += "A config is a TOML file with these tables. `longwave validate FILE` checks one and prints it with every default; \
             `longwave schema` prints this page as a JSON schema. An unknown key is an error.\n\n\
             A *length* is a number of tokens or a multiple of the training length L, such as `\"2L\"`, `\"1.5L\"` or \
             `\"L/4\"`. L is the `length` of `[train]`.\n\n## Top level\n\n";
    page += &schema.keys(schema.root(), &["data", "model", "position", "train", "stage", "evaluate"]);
    for (table, of) in [("data", "DataConfig"), ("model", "ModelConfig")] {
        let _ = write!(page, "\n## `[{table}]`\n\n{}", schema.keys(schema.definition(of), &[]));
    }
    page += "\n## `[position]`\n\n\
             `kind` chooses one of the [encodings](encodings.md), whose keys stand beside it. A list of such tables composes \
             their hooks in order. `kind = \"mixed\"` gives layers different encodings:\n\n";
    let forms = schema.definition("PositionConfig")["anyOf"].as_array().unwrap();
    let mixed = forms.iter().find(|form| form["properties"]["kind"]["const"] == "mixed").unwrap();
    page += &schema.keys(mixed, &["kind", "layers"]);
    page += "- `layers` (list: table, required): What a layer may read, and how far. Each entry is an encoding with three \
             keys more:\n";
    let layer = mixed.pointer("/properties/layers/items/anyOf/0").unwrap();
    page += &indented(&schema.keys(layer, &["kind"]));
    let train = schema.definition("TrainConfig");
    let _ = write!(page, "\n## `[train]`\n\n{}", schema.keys(train, &[]));
    page += "\n## `[[stage]]`\n\nA stage takes every key of `[train]` and has the value of `[train]` where it gives none, but \
             for `learning_rate` (a tenth), `schedule_steps`, `validate_every`, `patience`, `checkpoint_every` and `keep_checkpoints`. Its own keys:\n\n";
    let of_train: Vec<&str> = train["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let shared: Vec<&str> =
        of_train.into_iter().filter(|key| !["length", "optimizer"].contains(key)).collect();
    page += &schema.keys(schema.definition("StageConfig"), &shared);
    page += "\n## `[[evaluate]]`\n\n[Protocols](protocols.md) says which keys belong to which protocol.\n\n";
    page += &schema.keys(schema.definition("EvaluateConfig"), &[]);
    page += "\n## `search`\n\nKeys of `{ kind = \"longrope\", search = { .. } }`:\n\n";
    page + &schema.keys(schema.definition("SearchConfig"), &[])
}

fn indented(list: &str) -> String {
    list.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}
