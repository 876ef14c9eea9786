//! Equal documents, and held-out text that is training text too. The counts are made here once more, word by word.

use super::*;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

fn words(range: Range<usize>) -> String {
    range.map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ")
}

fn json_lines(documents: &[String]) -> String {
    documents.iter().map(|text| format!("{}\n", json!({ "text": text }))).collect::<Vec<_>>().concat()
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The 13-grams of each held-out document, and those of them that are in training documents.
fn counted(train: &[String], held_out: &[String]) -> Vec<[usize; 2]> {
    let train: Vec<Vec<String>> = train.iter().map(|text| words_of(text)).collect();
    let known: HashSet<&[String]> = train.iter().flat_map(|words| words.windows(13)).collect();
    let of = |text: &String| {
        let words = words_of(text);
        let grams = words.windows(13);
        [grams.len(), grams.filter(|gram| known.contains(gram)).count()]
    };
    held_out.iter().map(of).collect()
}

/// What a command says on stderr under some labels, and its warnings.
fn said(outcome: &Outcome) -> Vec<&str> {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let is_about =
        |line: &&str| ["repeats ", "overlap ", " WARN"].iter().any(|start| line.starts_with(start));
    outcome.stderr.lines().filter(is_about).collect()
}

#[test]
fn equal_documents_and_training_text_in_other_splits_are_counted_and_said() {
    let project = Project::new();
    let [first, second, new] = [0, 100, 500].map(|from| words(from..from + 100));
    let chosen_by = words(300..340);
    // 78 of 88 n-grams are those of the first document: the others reach into new words.
    let most = words(0..90) + ", " + &words(400..410).to_uppercase();
    let train = [first.clone(), second.clone(), second.clone(), words(200..300)];
    let valid = [first, chosen_by.clone()];
    let test = [chosen_by, most, new, second.clone(), second];
    let sums =
        |counts: Vec<[usize; 2]>| counts.iter().fold([0, 0], |sum, it| [sum[0] + it[0], sum[1] + it[1]]);
    assert_eq!(sums(counted(&train, &test)), [28 + 4 * 88, 78 + 2 * 88], "67% of 380");
    assert_eq!(sums(counted(&train, &valid)), [88 + 28, 88], "76% of 116");
    for (split, documents) in [("train", &train[..]), ("validation", &valid), ("test", &test)] {
        project.write(&format!("twice/{split}.jsonl"), &json_lines(documents));
    }

    let outcome = run(&project, "twice", &[]);
    insta::assert_snapshot!("documents_that_are_there_twice", told(&outcome));
    let lines = said(&outcome);
    let again = run(&project, "twice", &[]);
    assert!(told(&again).contains(", from the cache"));
    assert_eq!(said(&again), lines, "and said again of tokens from the cache");
    // Tokens are no matter.
    let bpe = ["--set", "data.tokenizer={ kind = \"bpe\", vocab_size = 270 }"];
    assert_eq!(said(&run(&project, "twice", &bpe)), lines);
    let set = ["--set", "data.corpus=twice", "--set", "evaluate=[]"];
    let validated = project.run(&[&["validate", "small.toml"], &set[..]].concat());
    assert_eq!(said(&validated), lines, "and before anything is trained");

    let record = project.json("runs/0/data.json");
    assert_eq!(record["notes"].as_array().unwrap().len(), 1 + lines.len(), "the splits, and these");
    let eval = ["eval", "runs/0", "--lengths", "32", "--extend", "direct"];
    project.ok(&eval);
    project.ok(&["report", "runs/0"]);
    let page = project.text("runs/0/report.html");
    assert!(page.contains("<code>twice</code>: repeats: 1 of 4 documents to train equals an earlier one"));
    assert!(page.contains("<code>twice</code>: warning: 2 of 5 documents to test are equal to one to train"));

    // Nothing is trained on the other splits of another text.
    let other = project.run(&[&eval[..], &["--corpus", "twice"]].concat());
    assert_eq!(said(&other), [] as [&str; 0], "it is the text of the run: {}", other.stderr);
    project.write("other/test.jsonl", &json_lines(&[test.clone().as_slice(), &test[3..]].concat()));
    project.write("other/train.jsonl", &json_lines(&test));
    let other = project.run(&[&eval[..], &["--corpus", "other"]].concat());
    assert_eq!(said(&other), ["repeats   other: 3 of 7 documents equal an earlier one"]);
}

#[test]
fn texts_without_equal_documents_say_so() {
    let project = Project::new();
    // By shares: one of twenty documents is held out for each.
    let documents: Vec<String> = (0..20).map(|index| words(100 * index..100 * index + 60)).collect();
    project.write("shares/all.jsonl", &json_lines(&documents));
    let none = "overlap   13-grams of words that are in documents to train: none of 48 to test; none of 48 to validate";
    assert_eq!(said(&run(&project, "shares", &[])), ["repeats   no two documents are equal", none]);
    // Nothing is held out.
    let whole = run(&project, "shares", &["--set", "data.split={ valid = 0, test = 0 }"]);
    assert!(said(&whole).contains(&"repeats   no two documents are equal"), "{}", whole.stderr);
    assert!(!whole.stderr.contains("overlap "), "{}", whole.stderr);
    // A text that is cut: its end was there before.
    project.write("one.txt", &(words(0..90) + "\n").repeat(20));
    let cut = run(&project, "one.txt", &[]);
    assert!(cut.stderr.contains("1 of 1 document to test has 70% or more of its 13-grams"), "{}", cut.stderr);
}

/// The corpus that the program carries.
#[test]
fn the_own_corpus_has_little_in_common() {
    let project = Project::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sotu");
    let of_split = |split: &str| -> (Vec<String>, Vec<String>) {
        let files = std::fs::read_dir(folder.join(split)).unwrap().map(|file| file.unwrap());
        let mut files: Vec<(String, String)> = files
            .map(|file| {
                let name = file.file_name().to_string_lossy().into_owned();
                (name, std::fs::read_to_string(file.path()).unwrap())
            })
            .collect();
        files.sort();
        files.into_iter().unzip()
    };
    let [(_, train), (valid_names, valid), (test_names, test)] = ["train", "valid", "test"].map(of_split);
    let all: HashSet<&String> = [&train, &valid, &test].into_iter().flatten().collect();
    assert_eq!(all.len(), 69 + 6 + 12, "no two are equal");
    let (of_test, of_valid) = (counted(&train, &test), counted(&train, &valid));
    let sum = |counts: &[[usize; 2]], place: usize| counts.iter().map(|count| count[place]).sum::<usize>();
    assert_eq!([sum(&of_test, 1), sum(&of_test, 0)], [323, 189_974], "0.17%");
    assert_eq!([sum(&of_valid, 1), sum(&of_valid, 0)], [156, 127_892], "0.12%");
    let share = |count: &[usize; 2]| count[1] as f64 / count[0] as f64;
    let most = |names: &[String], counts: &[[usize; 2]]| {
        let most = counts.iter().enumerate().max_by(|a, b| share(a.1).total_cmp(&share(b.1))).unwrap();
        (names[most.0].clone(), *most.1)
    };
    assert_eq!(most(&test_names, &of_test), ("1974-Nixon-2.txt".to_owned(), [22_534, 262]), "1.2%");
    assert_eq!(most(&valid_names, &of_valid), ("1846-Polk-1.txt".to_owned(), [18_333, 144]), "0.79%");
    let validated = project.run(&["validate", "small.toml", "--set", "data.corpus=data/sotu"]);
    let overlap = "overlap   13-grams of words that are in documents to train: 0.17% of 189974 to test, 1.2% of \
                   `1974-Nixon-2.txt` at most; 0.12% of 127892 to validate, 0.79% of `1846-Polk-1.txt` at most";
    assert_eq!(said(&validated), ["repeats   no two documents are equal", overlap]);
}
