//! Perplexities that cannot be: texts that the tokenizer does not know, tokens that there are not, sizes that nothing has.

use super::*;

/// A tokenizer of words with gaps in its ids.
fn words(project: &Project) -> [&'static str; 2] {
    let vocab = json!({ "[UNK]": 0, "the": 1, "wave": 2, "is": 3, "long": 4, "and": 90, "its": 91, "phase": 92, "turns": 299 });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" },
    });
    project.write("words.json", &tokenizer.to_string());
    ["--set", "data.tokenizer={ kind = \"file\", path = \"words.json\" }"]
}

#[test]
fn a_text_of_unknown_tokens_is_a_warning_in_table_and_rows() {
    let project = Project::new();
    let words = words(&project);
    project.train(&[&words[..], &["--set", "train.steps=2"]].concat());
    // The full stops alone are unknown: two of 22 words and stops.
    let known = project.ok(&["eval", "runs/small-0", "--lengths", "32", "--extend", "direct", "--json"]);
    let row = |outcome: &Outcome| outcome.rows::<serde_json::Value>().swap_remove(0);
    let (unknown, tokens) =
        (row(&known)["unknown_tokens"].as_u64().unwrap(), row(&known)["tokens"].as_u64().unwrap());
    assert!(tokens == 192 && (13..=19).contains(&unknown), "{unknown} of {tokens}");

    // 31 of 38 bytes are words, and the tokens that are scored have 286 of 350 in each document: blanks between words are not unknown.
    let foreign = "ein anderer Text mit Worten ohne Sinn ".repeat(40);
    project.write("foreign/0.txt", &foreign);
    project.write("foreign/1.txt", &foreign);
    let eval = ["eval", "runs/small-0", "--lengths", "32", "--extend", "direct", "--corpus", "foreign"];
    let told = project.ok(&eval);
    let warnings = told.stderr.lines().filter(|line| line.contains("WARN"));
    let notes = told.stdout.lines().filter(|line| line.starts_with("warning"));
    let said: Vec<&str> = warnings.chain(notes).collect();
    insta::assert_snapshot!("a_text_of_unknown_tokens", said.join("\n"));
    let row = row(&project.run(&[&eval[..], &["--json"]].concat()));
    assert_eq!(row["unknown_tokens"], row["tokens"]);
    assert_eq!((&row["bytes"], &row["unread_bytes"]), (&700.into(), &572.into()));
}

#[test]
fn a_token_that_there_is_not_is_never_sampled() {
    let project = Project::new();
    let words = words(&project);
    project.train(&[&words[..], &["--set", "train.steps=1", "--set", "evaluate=[]"]].concat());
    let generate = ["generate", "runs/small-0", "--prompt", "the wave", "--max-tokens", "400", "--json"];
    for heat in ["0", "1", "100"] {
        let generated = project.ok(&[&generate[..], &["--temperature", heat]].concat()).json();
        let tokens = generated["tokens"].as_array().unwrap();
        assert_eq!(tokens.len(), 400);
        let there = [0, 1, 2, 3, 4, 90, 91, 92, 299];
        assert!(tokens.iter().all(|token| there.contains(&token.as_u64().unwrap())), "{tokens:?}");
    }
}

#[test]
fn a_vocabulary_that_nothing_has_is_refused_before_anything_is_allocated() {
    let project = Project::new();
    let vocabulary = |size: &str| format!("data.tokenizer={{ kind = \"bpe\", vocab_size = {size} }}");
    for command in ["validate", "train"] {
        let outcome = project.run(&[command, "small.toml", "--set", &vocabulary("4000000000")]);
        insta::assert_snapshot!("a_vocabulary_that_nothing_has", refused(&outcome));
    }
    project.refused(2, &["train", "small.toml", "--set", &vocabulary("4e9")]);
    project.refused(2, &["train", "small.toml", "--set", &vocabulary("99999999999999999999")]);
    let path = project.path("words.json");
    words(&project);
    let text = std::fs::read_to_string(&path).unwrap();
    project.write("words.json", &text.replace("299", "4000000000"));
    insta::assert_snapshot!("an_id_that_nothing_has", refused(&run(&project, "corpus", &words_of_file())));
}

fn words_of_file() -> [&'static str; 2] {
    ["--set", "data.tokenizer={ kind = \"file\", path = \"words.json\" }"]
}
