use super::manifest::MANIFEST;
use super::*;
use crate::testing::folder;

fn found(corpus: &str) -> Result<Corpus> {
    find_or_unpack(&DataConfig::new(corpus), "data.corpus")
}

fn names(corpus: &str) -> Vec<String> {
    found(corpus).unwrap().sources.into_iter().map(|source| source.name).collect()
}

#[test]
fn a_folder_is_read_through_in_order() {
    let folder = folder(&[("b/x.txt", "1"), ("a.txt", "2"), ("c.jsonl", ""), (".h.txt", "3"), ("p.png", "")]);
    let corpus = found(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(names(folder.path().to_str().unwrap()), ["a.txt", "b/x.txt", "c.jsonl"]);
    assert_eq!(corpus.sources[2].format, Format::JsonLines);
    assert!(!corpus.named);
    assert_eq!((corpus.bytes(), corpus.left_out), (2, vec![".h.txt".to_owned(), "p.png".to_owned()]));
}

#[cfg(unix)]
#[test]
fn a_link_in_a_circle_is_read_once() {
    let folder = folder(&[("a/x.txt", "1")]);
    std::os::unix::fs::symlink(folder.path(), folder.path().join("a/again")).unwrap();
    assert_eq!(names(folder.path().to_str().unwrap()), ["a/x.txt"]);
    let left_out = found(folder.path().to_str().unwrap()).unwrap().left_out;
    assert_eq!(left_out, ["a/again/ (a link to the corpus itself, which is read already)"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_never_read() {
    let folder = folder(&[("x.txt", "1")]);
    std::os::unix::fs::symlink("/dev/null", folder.path().join("null.txt")).unwrap();
    let pipe = folder.path().join("p.txt");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let corpus = found(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(corpus.sources.len(), 1);
    assert_eq!(corpus.left_out, ["null.txt (a pipe or a device)", "p.txt (a pipe or a device)"]);
    for path in [&pipe, &folder.path().join("null.txt")] {
        let error = found(path.to_str().unwrap()).unwrap_err();
        assert!(error.message().contains("a pipe or a device, and no regular file"), "{error}");
        assert!(error.hint_text().is_some());
    }
    // A link to nowhere is an error, and not left out.
    std::os::unix::fs::symlink("nowhere", folder.path().join("gone.txt")).unwrap();
    let error = found(folder.path().to_str().unwrap()).unwrap_err();
    assert!(error.message().contains("gone.txt"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_folder_is_read_by_its_own_name_and_not_by_that_of_a_link() {
    for (first, second) in [("link", "real"), ("real", "link"), ("a", "z")] {
        let folder = folder(&[("real/x.txt", "1"), ("real/deep/y.txt", "2")]);
        for link in [first, second].into_iter().filter(|name| *name != "real") {
            std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join(link)).unwrap();
        }
        assert_eq!(names(folder.path().to_str().unwrap()), ["real/deep/y.txt", "real/x.txt"]);
    }
    let folder = folder(&[("train/x.txt", "1")]);
    std::os::unix::fs::symlink(folder.path().join("train"), folder.path().join("valid")).unwrap();
    let corpus = found(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(corpus.left_out, ["valid/ (a link to train/, which is read already)"]);
}

#[test]
fn a_glob_leaves_out_what_a_folder_does() {
    let folder =
        folder(&[("d.txt", "1"), ("d.txt~", "2"), (".h.txt", "3"), (".git/x.txt", "4"), ("e/f.txt", "5")]);
    let of = |pattern: &str| {
        let corpus = found(&format!("{}/{pattern}", folder.path().display())).unwrap();
        let names: Vec<String> = corpus.sources.into_iter().map(|source| source.name).collect();
        (names, corpus.left_out)
    };
    let (names, mut left_out) = of("*");
    left_out.sort();
    assert_eq!((names, left_out), (vec!["d.txt".to_owned()], vec![".h.txt".to_owned(), "d.txt~".to_owned()]));
    let (names, left_out) = of("**/*.txt");
    assert_eq!(names, ["d.txt", "e/f.txt"]);
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    // Where the pattern says so, they are read.
    assert_eq!(of(".*.txt"), (vec![".h.txt".to_owned()], vec![]));
    assert_eq!(of(".git/*"), (vec!["x.txt".to_owned()], vec![]));
    assert_eq!(of("*~"), (vec!["d.txt~".to_owned()], vec![]));
}

#[test]
fn split_folders_are_the_splits() {
    let folder = folder(&[("train/x.txt", "1"), ("test/x.txt", "2"), ("README.txt", "not read")]);
    let corpus = found(folder.path().to_str().unwrap()).unwrap();
    let splits: Vec<_> = corpus.sources.iter().map(|source| source.split).collect();
    assert_eq!(splits, [Some(Split::Train), Some(Split::Test)]);
    assert_eq!(corpus.sources[0].name, "x.txt");
    assert_eq!(corpus.left_out, ["README.txt"]);
}

#[test]
fn names_of_a_glob_do_not_depend_on_where_it_lies() {
    let folder = folder(&[("b/x.rs", "1"), ("a/y.rs", "2"), ("a/z.txt", "3")]);
    assert_eq!(names(&format!("{}/*/*.rs", folder.path().display())), ["a/y.rs", "b/x.rs"]);
    assert_eq!(names(&format!("{}/**/z*", folder.path().display())), ["a/z.txt"]);
}

#[test]
fn names_of_a_glob_do_not_depend_on_how_its_folder_is_written() {
    for (glob, expected) in [
        ("./many/*.txt", "many/*.txt"),
        ("many/./*.txt", "many/*.txt"),
        (".//many//*.txt", "many/*.txt"),
        ("many/*.txt", "many/*.txt"),
        ("../many/*.txt", "../many/*.txt"),
        ("//many/./**/.git/*", "/many/**/.git/*"),
        ("./*/", "*/"),
    ] {
        assert_eq!(plain(glob), expected);
    }
    let folder = folder(&[("many/f12.txt", "1"), ("many/g/f13.txt", "2")]);
    let path = folder.path().display();
    for glob in [format!("{path}/./many/**/*.txt"), format!("{path}//many/**//*.txt")] {
        assert_eq!(names(&glob), ["f12.txt", "g/f13.txt"], "{glob}");
        let mut config = DataConfig::new(&*glob);
        config.split = serde_json::from_str(r#"{ "test": "f1*" }"#).unwrap();
        let corpus = find(&config, "data.corpus").unwrap();
        let splits: Vec<_> =
            corpus.sources.iter().map(|source| (source.name.as_str(), source.split)).collect();
        assert_eq!(splits, [("g/f13.txt", Some(Split::Train)), ("f12.txt", Some(Split::Test))]);
    }
    assert_eq!(glob_in(&folder.path().join("."), "./many/*.txt"), Some(format!("{path}/many/*.txt")));
}

#[test]
fn files_of_one_split_alone_are_known() {
    let only = |names: &[&str]| {
        let folder = folder(&names.iter().map(|name| (*name, "text")).collect::<Vec<_>>());
        let config = DataConfig::new(folder.path().to_str().unwrap());
        find(&config, "corpus").map(|corpus| (corpus.only_split(), corpus.trains()))
    };
    for (names, expected) in [
        (&["test/a.txt", "test/b.txt"][..], (Some(Split::Test), false)),
        (&["a_dev.txt", "b_dev.txt"], (Some(Split::Valid), false)),
        // Alone, these are what is there to read.
        (&["a_heldout.txt"], (Some(Split::Test), false)),
        (&["valid/a.txt", "test/b.txt"], (None, false)),
        (&["train/a.txt"], (Some(Split::Train), true)),
        (&["train/a.txt", "test/b.txt"], (None, true)),
        (&["a.txt", "b.txt"], (None, true)),
    ] {
        assert_eq!(only(names).unwrap(), expected, "{names:?}");
    }
    let error = only(&["train.txt", "eval.txt"]).unwrap_err();
    assert!(error.message().contains("`eval` in"), "{error}");
}

#[cfg(unix)]
#[test]
fn the_name_of_a_globs_folder_is_no_pattern() {
    let folder =
        folder(&[("my [1]/c*/b/x.txt", "1"), ("my [1]/c*/.git/x.txt", "2"), ("my 1/cd/b/x.txt", "3")]);
    let glob = glob_in(&folder.path().join("my [1]"), "c[*]/**/*.txt").unwrap();
    assert_eq!(glob, format!("{}/my [[]1[]]/c[*]/**/*.txt", folder.path().display()));
    let corpus = found(&glob).unwrap();
    assert_eq!(corpus.sources[0].path, folder.path().join("my [1]/c*/b/x.txt"));
    assert_eq!(names(&glob), ["b/x.txt"]);
    assert_eq!(corpus.left_out, [".git/x.txt"]);
    assert_eq!(glob_in(&folder.path().join("my [1]"), "d/*.txt"), None);
    assert_eq!(glob_in(Path::new(""), "no such folder/*.txt"), None);
}

#[test]
fn what_is_not_there_is_explained() {
    let empty = folder(&[("a.png", ""), ("v/valid/x.txt", "1")]);
    let path = empty.path().display();
    let cases = [
        (format!("{path}/none"), "no such file or folder"),
        (format!("{path}/*.txt"), "no file matches"),
        (format!("{path}/[*.txt"), "the glob is malformed"),
        (format!("{path}/v"), "no text file for training"),
    ];
    for (corpus, expected) in cases {
        let error = found(&corpus).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        assert!(error.hint_text().is_some());
    }
    fs::remove_dir_all(empty.path().join("v")).unwrap();
    let error = found(&path.to_string()).unwrap_err();
    assert!(error.message().contains("holds no .txt"), "{error}");
}

fn manifest(files: &[(&str, &str, &str)]) -> String {
    let entries: Vec<_> = files
        .iter()
        .map(|(split, name, text)| {
            let sha256 = file::sha256_of(text.as_bytes());
            serde_json::json!({ "split": split, "file": name, "bytes": text.len(), "sha256": sha256 })
        })
        .collect();
    serde_json::to_string(&entries).unwrap()
}

#[test]
fn a_manifest_finds_what_was_changed() {
    let text = manifest(&[("train", "a.txt", "one"), ("test", "b.txt", "two")]);
    let folder = folder(&[("train/a.txt", "one"), ("test/b.txt", "two"), (MANIFEST, &text)]);
    let path = folder.path().to_str().unwrap();
    let check = || {
        let corpus = found(path)?;
        let hash = |source: &Source| file::sha256(&source.path).unwrap();
        corpus.check_content(&corpus.sources.iter().map(hash).collect::<Vec<_>>())
    };
    let message = || check().unwrap_err().to_string();
    check().unwrap();

    fs::write(folder.path().join("test/b.txt"), "TWO").unwrap();
    assert!(message().contains("b.txt` has changed: its SHA-256 differs") && message().contains("hint:"));
    fs::write(folder.path().join("test/b.txt"), "twoo").unwrap();
    assert!(message().contains("`test/b.txt` has changed: 4 bytes instead of 3"), "{}", message());
    fs::remove_file(folder.path().join("test/b.txt")).unwrap();
    assert!(message().contains("`test/b.txt` is missing"), "{}", message());
    fs::write(folder.path().join("test/b.txt"), "two").unwrap();
    fs::write(folder.path().join("train/c.txt"), "more").unwrap();
    assert!(message().contains("c.txt` is not in the manifest"), "{}", message());
    fs::write(folder.path().join(MANIFEST), "{}").unwrap();
    assert!(message().contains("is no manifest"), "{}", message());
}

/// The manifest is about files: what `data.split` makes of them changes none.
#[test]
fn a_manifest_is_checked_whatever_the_config_makes_of_the_files() {
    let files = [
        ("train", "a.txt", "one"),
        ("valid", "a.txt", "two"),
        ("test", "a.txt", "three"),
        ("train", "more/b.txt", "four"),
    ];
    let folder = folder(&[
        ("train/a.txt", "one"),
        ("eval/a.txt", "two"),
        ("test/a.txt", "three"),
        ("more/b.txt", "four"),
        (MANIFEST, &manifest(&files)),
    ]);
    let check = |split: &str| {
        let mut config = DataConfig::new(folder.path().to_str().unwrap());
        config.split = longwave_core::config::read(&split.parse().unwrap(), "data.split")?;
        let corpus = find_or_unpack(&config, "data.corpus")?;
        let hash = |source: &Source| file::sha256(&source.path).unwrap();
        corpus.check_content(&corpus.sources.iter().map(hash).collect::<Vec<_>>())
    };
    let splits = [
        "",
        "train = 'train'\nvalid = 'eval'\ntest = 'test'",
        "train = '*'\nvalid = 0.1\ntest = 0.1",
        "train = '*/a.txt'",
        // `eval` is not read.
        "train = 'test'\nvalid = 'train'",
    ];
    for split in splits {
        check(split).unwrap_or_else(|error| panic!("{split}: {error}"));
    }
    fs::write(folder.path().join("eval/a.txt"), "TWO").unwrap();
    for split in &splits[..4] {
        let message = check(split).unwrap_err().to_string();
        assert!(message.contains("a.txt` has changed: its SHA-256 differs"), "{split}: {message}");
    }
    check(splits[4]).unwrap();
    fs::remove_file(folder.path().join("more/b.txt")).unwrap();
    let message = check(splits[4]).unwrap_err().to_string();
    assert!(message.contains("more/b.txt` is missing"), "{message}");
}
