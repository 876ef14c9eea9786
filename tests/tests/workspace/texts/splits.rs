//! A split is what the user named.

use super::*;

#[test]
fn files_are_the_splits_that_their_names_say() {
    let project = Project::new();
    for (split, count) in [("train", 5), ("validation", 3), ("test", 8)] {
        project.write(&format!("hub/{split}.jsonl"), &lines(count, 10 * count));
    }
    let expected = "by name: `train.jsonl` to train, `validation.jsonl` to validate, `test.jsonl` to test";
    for corpus in ["hub", "hub/*.jsonl"] {
        let outcome = run(&project, corpus, &[]);
        assert_eq!(counts(&outcome), [5, 3, 8], "{corpus}");
        assert!(told(&outcome).contains(expected), "{}", told(&outcome));
    }
    // Named alone, a file is all of the text.
    let outcome = run(&project, "hub/test.jsonl", &[]);
    assert_eq!(counts(&outcome), [6, 1, 1]);
    assert!(told(&outcome).contains("by a hash of each document's name: 5% to validate, 5% to test"));
    // Another text of three splits is read at the one that is asked for.
    let outcome = project.run(&["eval", "runs/0", "--corpus", "hub", "--lengths", "32", "--json"]);
    let row = &outcome.rows::<serde_json::Value>()[0];
    assert_eq!((&row["split"], &row["documents"]), (&"test".into(), &8.into()), "{}", outcome.stderr);
}

#[test]
fn a_given_share_is_held_out_of_files_to_train_and_the_rest_is_said() {
    let project = Project::new();
    for part in 0..3 {
        project.write(&format!("hub/train-0000{part}-of-00003.jsonl"), &lines(4, 10 * part));
    }
    let shares = ["--set", "data.split={ valid = 0.25, test = 0.25 }"];
    let outcome = run(&project, "hub", &shares);
    assert_eq!(counts(&outcome), [6, 3, 3]);
    let said =
        "3.jsonl` to train; of those to train 25% to validate and 25% to test, by a hash of their names";
    assert!(told(&outcome).contains(said), "{}", told(&outcome));
    assert_eq!(counts(&run(&project, "hub", &[])), [12, 0, 0]);
    project.write("hub/test-00000-of-00001.jsonl", &lines(4, 40));
    let outcome = run(&project, "hub", &shares);
    assert_eq!(counts(&outcome), [9, 3, 4]);
    let said = "3.jsonl` to train, `test-00000-of-00001.jsonl` to test; of those to train 25% to validate, by a hash";
    assert!(told(&outcome).contains(said), "{}", told(&outcome));
    assert!(told(&outcome).contains("`data.split.test = 0.25` has no effect"), "{}", told(&outcome));
}

#[test]
fn what_may_mean_two_things_is_asked_and_can_be_said() {
    let project = Project::new();
    for (name, count) in [("train", 5), ("eval", 2)] {
        project.write(&format!("two/{name}/a.jsonl"), &lines(count, 10 * count));
    }
    project.write("mixed/corpus.jsonl", &lines(6, 0));
    project.write("mixed/test.jsonl", &lines(2, 20));
    project.write("twice/train.jsonl", &lines(6, 0));
    project.write("twice/dev.jsonl", &lines(2, 20));
    project.write("twice/valid.jsonl", &lines(2, 30));
    project.write("none/test.jsonl", &lines(2, 20));
    let set = |split: &str| format!("data.split={{ {split} }}");
    let cases = [
        ("eval_alone", "two", ""),
        ("files_with_and_without_a_split", "mixed", ""),
        ("two_names_for_one_split", "twice", ""),
        ("no_file_to_train", "none", ""),
        ("files_that_are_not_there", "two", "test = \"tset*\""),
        ("a_pattern_that_is_malformed", "two", "test = \"[\""),
        ("a_part_that_is_neither", "two", "valid = true"),
    ];
    for (name, corpus, split) in cases {
        let change = set(split);
        insta::assert_snapshot!(name, refused(&run(&project, corpus, &["--set", &change])));
    }
    for (corpus, split, expected) in [
        ("two", "valid = \"eval\"", [5, 2, 0]),
        ("two", "test = \"eval\"", [5, 0, 2]),
        ("two", "test = \"eval\", valid = 0.2", [4, 1, 2]),
        ("mixed", "test = \"test.jsonl\", valid = 0.2", [5, 1, 2]),
        // A share is held out where no file is named for the split, or by its name.
        ("mixed", "train = \"corpus*\", valid = 0.2, test = 0.2", [5, 1, 2]),
        ("mixed", "train = \"*\", valid = 0.25, test = 0.125", [5, 2, 1]),
        // What the files to train are not is left out.
        ("mixed", "train = \"test.jsonl\"", [2, 0, 0]),
        ("twice", "train = \"train*\", valid = \"dev*\", test = \"valid*\"", [6, 2, 2]),
    ] {
        let change = set(split);
        let outcome = run(&project, corpus, &["--set", &change]);
        assert_eq!(counts(&outcome), expected, "{corpus}: {split}");
    }
}

#[test]
fn other_text_is_read_whatever_its_files_and_those_of_the_run_are_called() {
    let project = Project::new();
    for (seed, name) in ["own/a", "own/b", "own/v1", "own/t1", "plain/a", "plain/b"].into_iter().enumerate() {
        project.write(&format!("{name}.txt"), &document(seed));
    }
    for (seed, name) in ["a_test", "b_test", "c_train"].into_iter().enumerate() {
        project.write(&format!("named/{name}.txt"), &document(10 + seed));
    }
    project.write("alone/test/a.txt", &document(20));
    project.write("dev/a_dev.txt", &document(21));
    project.write("dev/README.txt", &document(22));
    let of_files = ["--set", "data.split={ valid = \"v*\", test = \"t*\" }"];
    assert_eq!(counts(&run(&project, "own", &of_files)), [2, 1, 1]);
    assert_eq!(
        counts(&run(&project, "plain/*", &["--set", "data.split={ valid = 0, test = 0 }"])),
        [2, 0, 0]
    );
    let eval = |run: &str, corpus: &str, more: &[&str]| {
        let plain = ["eval", run, "--corpus", corpus, "--lengths", "32", "--extend", "direct", "--json"];
        project.run(&[&plain[..], more].concat())
    };
    // Neither the files that `data.split` of the run names are there, nor any to train on.
    for run in ["runs/0", "runs/1"] {
        for (corpus, documents) in [
            ("named", 2),
            ("named/*test*", 2),
            ("named/*train*", 1),
            ("named/c_train.txt", 1),
            ("alone", 1),
            ("dev", 1),
            ("dev/*dev*", 1),
        ] {
            let outcome = eval(run, corpus, &[]);
            let row = &outcome.done().rows::<serde_json::Value>()[0];
            assert_eq!(
                (&row["split"], &row["documents"]),
                (&"test".into(), &documents.into()),
                "{run} {corpus}"
            );
        }
        assert_eq!(
            eval(run, "dev", &["--split", "validation"]).done().rows::<serde_json::Value>()[0]["split"],
            "valid"
        );
        eval(run, "alone", &["--split", "validation"]).refuses(2, &["`alone` has no such folder"]);
        eval(run, "named", &["--split", "validation"]).refuses(2, &["`named` has no valid split", "--split"]);
        eval(run, "nowhere", &[]).refuses(2, &["`--corpus = \"nowhere\"`", "no such file or folder"]);
    }
    let whole = eval("runs/0", "plain", &[]).done();
    assert_eq!(whole.rows::<serde_json::Value>()[0]["documents"], 2);
    assert!(whole.stderr.contains("all to test"), "{}", whole.stderr);
    let own = eval("runs/0", "./own", &[]).done();
    assert!(!own.stderr.contains("rows are of other text"), "{}", own.stderr);
}

#[test]
fn a_glob_is_one_text_however_its_folder_is_written() {
    let project = Project::new();
    for index in 0..20 {
        project.write(&format!("many/f{index}.txt"), &document(index));
    }
    // The path of the config is part of the glob that it names.
    let train = |config: &str, out: &str, corpus: &str| {
        let corpus = format!("data.corpus={corpus}");
        project.ok(&[
            "train",
            config,
            "--device",
            "cpu",
            "--out",
            out,
            "--set",
            &corpus,
            "--set",
            "train.steps=1",
        ]);
        project.json(&format!("{out}/data.json"))["content_hash"].clone()
    };
    let hash = train("small.toml", "runs/a", "many/*.txt");
    assert_eq!(train("small.toml", "runs/b", "./many//*.txt"), hash);
    project.write("globbed.toml", &common::CONFIG.replace("\"corpus\"", "\"many/*.txt\""));
    project.ok(&["train", "./globbed.toml", "--device", "cpu", "--out", "runs/c", "--set", "train.steps=1"]);
    assert_eq!(project.json("runs/c/data.json")["content_hash"], hash);
    let again = project.ok(&["eval", "runs/a", "--corpus", "./many/*.txt", "--json"]);
    assert!(!again.stderr.contains("rows are of other text"), "{}", again.stderr);
}

#[test]
fn what_is_read_and_what_is_left_out_is_said() {
    let project = Project::new();
    for (name, text) in [("a.txt", 1), ("B.TXT", 2), ("c.text", 3)] {
        project.write(&format!("mine/{name}"), &document(text));
    }
    for name in ["notes.md", "cover.png", "old.zip", "more/vocab.json", "more/x.tar.gz"] {
        project.write(&format!("mine/{name}"), "no text");
    }
    project.write("mine/blank.txt", " \n\u{a0}\n");
    project.write("mine/mark.txt", &format!("\u{feff}{}", document(4)));
    project.write("mine/stories.txt", &format!("{}\n<|endoftext|>\n{}", document(5), document(6)));
    let bad = format!("{}{{\"text\": \n[]\n{}", lines(2, 30), lines(1, 40));
    project.write("mine/lines.jsonl", &bad);
    insta::assert_snapshot!("a_broken_line", refused(&run(&project, "mine", &[])));
    let outcome = run(&project, "mine", &["--set", "data.skip_bad_lines=true"]);
    assert_eq!(counts(&outcome), [7, 1, 1]);
    insta::assert_snapshot!("what_is_said", told(&outcome));
    let again = run(&project, "mine", &["--set", "data.skip_bad_lines=true"]);
    let cached = told(&again).replace(", from the cache", "");
    assert_eq!(cached, told(&outcome), "and said again of tokens from the cache");
    project.write("bad/lines.jsonl", "{\"body\": \"x\"}\n{}\n");
    let outcome = run(&project, "bad", &["--set", "data.skip_bad_lines=true"]);
    insta::assert_snapshot!("nothing_but_broken_lines", refused(&outcome));
}
