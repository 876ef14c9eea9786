//! Text from a trained run, through the program.

use crate::common::{CONFIG, Outcome, Project};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_model::Pass;
use longwave_position::{ExtensionConfig, Lengths};
use longwave_train::Trained;
use longwave_train::run::CheckpointId;
use serde_json::Value;

fn generate(project: &Project, arguments: &[&str]) -> Outcome {
    project.ok(&[&["generate", "runs/small-0", "--device", "cpu", "--max-tokens", "40"], arguments].concat())
}

fn as_json(project: &Project, arguments: &[&str]) -> Value {
    let outcome = generate(project, &[arguments, &["--json"]].concat());
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
    outcome.json()
}

#[test]
fn the_seed_decides_and_the_corpus_is_not_needed() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    std::fs::remove_dir_all(project.path("corpus")).unwrap();
    let text = |more: &[&str]| generate(&project, &[&["--prompt", "the wave é"], more].concat()).stdout;
    let first = text(&["--seed", "1"]);
    assert!(first.starts_with("the wave é") && first.ends_with('\n'), "{first}");
    assert_eq!(first, text(&["--seed", "1"]));
    assert_ne!(first, text(&["--seed", "2"]));
    assert_eq!(text(&["--temperature", "0", "--seed", "1"]), text(&["--temperature", "0", "--seed", "2"]));
    assert_eq!(text(&["--temperature", "0"]), text(&["--top-k", "1"]));

    let json = as_json(&project, &["--prompt", "the wave é", "--seed", "1"]);
    assert_eq!(json["prompt"], "the wave é");
    assert_eq!(format!("the wave é{}\n", json["text"].as_str().unwrap()), first);
    assert_eq!(json["tokens"].as_array().unwrap().len(), 40);
    assert_eq!((json["length"].as_u64(), json["prompt_tokens"].as_u64()), (Some(51), Some(11)));
}

#[test]
fn an_empty_prompt_begins_a_document() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let outcome = generate(&project, &["--prompt", ""]);
    assert!(outcome.stderr.contains("the text begins as after \"\\n\""), "{}", outcome.stderr);
    assert_eq!(as_json(&project, &[])["read_instead"], "\n");
    // With a line end in the prompt the model reads the same.
    let begun = as_json(&project, &["--prompt", "\n"]);
    assert_eq!(begun["tokens"], as_json(&project, &[])["tokens"]);

    project.write(
        "small.toml",
        &CONFIG.replace("corpus = \"corpus\"", "corpus = \"corpus\"\nseparator = \"|\""),
    );
    project.train(&["--set", "train.steps=2", "--out", "runs/separated"]);
    let outcome =
        project.run(&["generate", "runs/separated", "--max-tokens", "5", "--json", "--device", "cpu"]);
    assert_eq!(outcome.json()["read_instead"], "|");
}

/// Whether the greedy tokens after a prompt are those that one pass over the whole text finds. Each piece of `alone` tokens begins with
/// `begins`.
fn check_greedy(project: &Project, extend: &str, (begins, alone): (Option<u8>, usize)) {
    let prompt = "its phase turns the wave";
    let json = as_json(project, &["--prompt", prompt, "--temperature", "0", "--extend", extend]);
    let found: Vec<i32> =
        json["tokens"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect();
    let trained = Trained::open(&project.path("runs/small-0"), CheckpointId::Last, &Device::flex()).unwrap();
    let mut ids: Vec<i32> = begins.into_iter().chain(prompt.bytes()).map(i32::from).collect();
    let read = ids.len();
    let value = format!(
        "extend = {}",
        if extend.starts_with('{') { extend.to_owned() } else { format!("'{extend}'") }
    );
    let value = value.parse::<toml::Table>().unwrap().remove("extend").unwrap();
    let lengths = Lengths { train: 32, length: read + 40 };
    let reading = ExtensionConfig::from_value(&value, "extend")
        .unwrap()
        .apply(&trained.model.position, lengths)
        .unwrap();
    // One pass over the whole text says what follows each token.
    ids.extend(&found);
    if let Some(begins) = begins {
        ids.iter_mut().step_by(alone).for_each(|first| *first = i32::from(begins));
    }
    let (count, positions) = (ids.len(), reading.layout().positions(ids.len()));
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, count]), &Device::flex());
    let pass = Pass { tokens, positions: &positions, reading: &reading, dropout: None };
    let logits = trained.model.logits(trained.model.hidden(&pass)); // [1, count, 256]
    let best = logits.slice_dim(1, read - 1..count - 1).argmax(2);
    let best = best.into_data_as::<i64>().try_to_vec::<i64>().unwrap();
    let found: Vec<i64> = found.into_iter().map(i64::from).collect();
    assert_eq!(found, best, "{extend}");
}

#[test]
fn greedy_tokens_are_those_of_whole_readings() {
    let project = Project::new();
    project.train(&[]);
    for extend in
        ["direct", "dynamic_ntk", "{ kind = 'self_extend', group = 4 }", "window", "segments", "randpos"]
    {
        check_greedy(&project, extend, (None, 1));
    }
    let project = Project::new();
    project.train(&["--set", "data.bos=^"]);
    check_greedy(&project, "direct", (Some(b'^'), usize::MAX));
    // Segments of L tokens.
    check_greedy(&project, "segments", (Some(b'^'), 32));
}

#[test]
fn a_byte_pair_tokenizer_gives_whole_characters() {
    let project = Project::new();
    let tokenizer = "corpus = \"corpus\"\ntokenizer = { kind = \"bpe\", vocab_size = 270 }";
    project.write("small.toml", &CONFIG.replace("corpus = \"corpus\"", tokenizer));
    project.train(&["--set", "train.steps=2"]);
    // Two steps teach little: many tokens are bytes that make no character.
    let json = as_json(&project, &["--prompt", "the wave", "--temperature", "3"]);
    let text = generate(&project, &["--prompt", "the wave", "--temperature", "3"]).stdout;
    assert_eq!(text, format!("the wave{}\n", json["text"].as_str().unwrap()));
    let tokenizer = longwave_data::Tokenizer::load(&project.path("runs/small-0/tokenizer.json")).unwrap();
    let ids: Vec<u32> =
        json["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    assert_eq!(json["text"].as_str().unwrap(), tokenizer.decode(&ids).unwrap());
}

#[test]
fn a_text_that_cannot_be_generated() {
    let project = Project::new();
    let config = CONFIG.replace("\"rope\"", "\"learned\"").replace(", \"linear\", \"ntk\"", "");
    project.write("small.toml", &config.replace("[32, 64]", "[32]"));
    project.train(&["--set", "train.steps=2"]);
    for (name, more) in [
        ("generate_past_the_table", &["--prompt", "the wave", "--max-tokens", "26"][..]),
        ("generate_without_an_applying_extension", &["--extend", "yarn"]),
        ("generate_with_two_extensions", &["--extend", "linear,ntk"]),
        ("generate_below_zero", &["--temperature", "-1"]),
        ("generate_from_no_token", &["--top-k", "0"]),
        ("generate_from_too_much", &["--top-p", "1.5"]),
        ("generate_nothing", &["--max-tokens", "0"]),
    ] {
        let arguments = [&["generate", "runs/small-0", "--device", "cpu"], more].concat();
        insta::assert_snapshot!(name, project.refused(2, &arguments));
    }
}
