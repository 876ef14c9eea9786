//! The formats that corpora come in, and the corpora of articles as they are downloaded.

use super::*;

type Pack = fn(&str) -> Vec<u8>;

#[test]
fn one_text_is_the_same_in_every_format() {
    let project = Project::new();
    let (train, test) = (documents(6, 0), documents(2, 50));
    let [train_lines, test_lines] = [&train, &test].map(|texts| {
        texts
            .iter()
            .map(|text| format!("{}\n", json!({ "id": 1, "text": text })))
            .collect::<Vec<_>>()
            .concat()
    });
    let plain: Pack = |text| text.as_bytes().to_vec();
    let packed: [(&str, Pack); 6] = [
        ("jsonl", plain),
        ("jsonl.gz", gzip),
        ("json.gz", gzip),
        ("jsonl.zst", zstd),
        ("ndjson", plain),
        ("JSONL", plain),
    ];
    for (end, pack) in packed {
        // Several files of each.
        let (first, second) = train_lines.split_at(train_lines.find('\n').unwrap() + 1);
        write(&project, &format!("{end}/train-0.{end}"), &pack(first));
        write(&project, &format!("{end}/train-1.{end}"), &pack(second));
        write(&project, &format!("{end}/test.{end}"), &pack(&test_lines));
    }
    write(&project, "parquet/train-00000-of-00002.parquet", &parquet("text", &train[..4]));
    write(&project, "parquet/train-00001-of-00002.parquet", &parquet("text", &train[4..]));
    write(&project, "parquet/test-00000-of-00001.parquet", &parquet("text", &test));
    for (name, pack) in [("txt", plain), ("txt.gz", gzip), ("txt.zst", zstd)] {
        for (index, text) in train.iter().enumerate() {
            write(&project, &format!("{name}/train/{index}.{name}"), &pack(text));
        }
        for (index, text) in test.iter().enumerate() {
            write(&project, &format!("{name}/test/{index}.{name}"), &pack(text));
        }
    }
    let bytes: usize = train.iter().map(String::len).sum();
    for name in [
        "jsonl",
        "jsonl.gz",
        "json.gz",
        "jsonl.zst",
        "ndjson",
        "JSONL",
        "parquet",
        "txt",
        "txt.gz",
        "txt.zst",
    ] {
        let outcome = run(&project, name, &[]);
        assert_eq!((counts(&outcome), training_tokens(&outcome)), ([6, 0, 2], bytes), "{name}");
    }
    write(&project, "body/train.parquet", &parquet("body", &train));
    insta::assert_snapshot!("a_column_that_there_is_not", refused(&run(&project, "body", &[])));
    for key in ["data.text_field=body", "data.field=body"] {
        assert_eq!(training_tokens(&run(&project, "body", &["--set", key])), bytes, "{key}");
    }
}

/// The table of the guide: a small file of each form.
#[test]
fn corpora_are_read_as_they_are_downloaded() {
    let project = Project::new();
    let article = |name: &str, seed| format!(" = {name} = \n \n {} \n", document(seed).trim_end());
    // WikiText, unpacked from its zip archive, and from the Hub, where every row is a line.
    for (split, articles) in [("train", 3), ("valid", 1), ("test", 1)] {
        let text: String = (0..articles).map(|index| article("A", 10 * articles + index)).collect();
        for end in ["tokens", "raw"] {
            project.write(&format!("wikitext-2-{end}/wiki.{split}.{end}"), &text);
        }
        let rows: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let name = if split == "valid" { "validation" } else { split };
        write(&project, &format!("wikitext-hub/{name}-00000-of-00001.parquet"), &parquet("text", &rows));
    }
    // C4, with its other fields.
    let c4 = |count, seed| {
        let line = |text| format!("{}\n", json!({ "text": text, "timestamp": "2019", "url": "https://a" }));
        gzip(&documents(count, seed).into_iter().map(line).collect::<String>())
    };
    write(&project, "c4/en/c4-train.00000-of-01024.json.gz", &c4(4, 0));
    write(&project, "c4/en/c4-train.00001-of-01024.json.gz", &c4(3, 10));
    write(&project, "c4/en/c4-validation.00000-of-00008.json.gz", &c4(2, 20));
    // FineWeb has no splits.
    write(&project, "fineweb/data/CC-MAIN-2024-10/000_00000.parquet", &parquet("text", &documents(9, 0)));
    write(&project, "fineweb/data/CC-MAIN-2024-10/000_00001.parquet", &parquet("text", &documents(11, 20)));
    // PG-19: one file for each book.
    for (split, books) in [("train", 4), ("validation", 2), ("test", 3)] {
        (0..books).for_each(|book| {
            project.write(&format!("pg19/{split}/{book}.txt"), &document(10 * books + book));
        });
    }
    // TinyStories: two texts of many stories.
    let stories = |count, seed| documents(count, seed).join("\n<|endoftext|>\n");
    project.write("stories/TinyStoriesV2-GPT4-train.txt", &stories(5, 0));
    project.write("stories/TinyStoriesV2-GPT4-valid.txt", &stories(3, 10));
    // enwik8 has no ending, and its zip archive lies beside it.
    project.write("enwik/enwik8", &"0123456789".repeat(100));
    project.write("enwik/enwik8.zip", "PK\u{3}\u{4}");

    let none: &[&str] = &[];
    let joined: &[&str] = &["--set", "data.join_rows=true"];
    for (corpus, more, expected) in [
        ("wikitext-2-tokens", none, [1, 1, 1]),
        ("wikitext-2-raw", none, [1, 1, 1]),
        // A title and four lines of text.
        ("wikitext-hub", none, [15, 5, 5]),
        ("wikitext-hub", joined, [1, 1, 1]),
        ("c4", none, [7, 2, 0]),
        ("fineweb", none, [18, 1, 1]),
        ("pg19", none, [4, 2, 3]),
        ("stories", none, [5, 3, 0]),
        ("enwik/enwik8", none, [1, 1, 1]),
    ] {
        let outcome = run(&project, corpus, more);
        assert_eq!(counts(&outcome), expected, "{corpus} {more:?}");
        if corpus == "enwik/enwik8" {
            assert_eq!(training_tokens(&outcome), 900);
            insta::assert_snapshot!("one_text_is_cut", told(&outcome));
        }
    }
    insta::assert_snapshot!("a_folder_without_texts", refused(&run(&project, "enwik", &[])));
    insta::assert_snapshot!("a_zip_archive", refused(&run(&project, "enwik/enwik8.zip", &[])));
}

#[test]
fn what_cannot_be_unpacked_is_an_error() {
    let project = Project::new();
    let whole = gzip(&lines(400, 0));
    write(&project, "cut/train.jsonl.gz", &whole[..whole.len() / 2]);
    write(&project, "page/train.parquet", b"<!doctype html><title>404</title>");
    write(
        &project,
        "pointer/train.parquet",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
    );
    let mut broken = parquet("text", &documents(3, 0));
    let end = broken.len();
    broken[end - 40..end - 12].fill(0xff);
    write(&project, "broken/train.parquet", &broken);
    for (name, corpus) in [
        ("a_file_that_is_cut_off", "cut"),
        ("a_page_of_a_website", "page"),
        ("a_pointer_of_git_lfs", "pointer"),
        ("a_parquet_file_that_is_damaged", "broken"),
    ] {
        insta::assert_snapshot!(name, refused(&run(&project, corpus, &[])));
    }
}

/// A file is read piece by piece, however it is packed: what it takes does not grow with it.
#[cfg(target_os = "linux")]
#[test]
fn a_large_file_is_read_in_bounded_memory() {
    let project = Project::new();
    let text = common::text(4_000, 3);
    let count = 48_000_000 / text.len();
    let rows: Vec<String> = (0..count).map(|row| format!("{row} {text}")).collect();
    write(&project, "parquet/train.parquet", &parquet("text", &rows));
    let lines = rows.iter().map(|text| format!("{}\n", json!({ "text": text }))).collect::<Vec<_>>().concat();
    drop(rows);
    write(&project, "gzip/train.jsonl.gz", &gzip(&lines));
    write(&project, "zstd/train.jsonl.zst", &zstd(&lines));
    // One document of one line.
    write(&project, "line/train.txt.gz", &gzip(&lines.replace(['\n', '.'], " ")));
    assert!(lines.len() > 48_000_000);
    drop(lines);
    let peak = |corpus: &str| {
        let corpus = format!("data.corpus={corpus}");
        let arguments = ["train", "small.toml", "--device", "cpu", "--out", "x", "--set", &corpus];
        let short = ["--set", "train.steps=1", "--set", "evaluate=[]"];
        let (_, peak) = common::peak_of(project.start(&[&arguments[..], &short].concat()));
        std::fs::remove_dir_all(project.path("x")).unwrap();
        peak
    };
    let small = peak("corpus");
    for form in ["parquet", "gzip", "zstd", "line"] {
        let large = peak(form);
        assert!(large < small + (32 << 10), "{small} KiB and {large} KiB, for 48 MB of text as {form}");
    }
}
