//! The program alone in an empty folder: configs and corpus come from it, and tokens go to the user's cache.

use crate::common::{self, Outcome, PROGRAM, Project};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// An empty folder, and a home beside it.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("empty")).unwrap();
        fs::create_dir_all(place.path("home")).unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs the program in the empty folder with no variable of the cache but those given.
    fn run_with(&self, variables: &[(&str, &Path)], arguments: &[&str]) -> Outcome {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.path("empty")).env("NO_COLOR", "1").stdin(Stdio::null());
        for name in ["LONGWAVE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "RUST_LOG"] {
            command.env_remove(name);
        }
        Outcome::of(command.envs(variables.iter().copied()))
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(&[("HOME", &self.path("home")), ("LOCALAPPDATA", &self.path("home/.cache"))], arguments)
    }

    fn ok(&self, arguments: &[&str]) -> Outcome {
        self.run(arguments).done()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// A few steps of a small model, and one short evaluation.
const SHORT: [&str; 12] = [
    "--set",
    "train.steps=3",
    "--set",
    "model={ layers = 1, width = 16, heads = 2 }",
    "--set",
    "train.length=32",
    "--set",
    "train.batch_tokens=128",
    "--set",
    "train.validation_tokens=128",
    "--set",
    "evaluate=[{ lengths = [32, 64], windows_per_document = 1 }]",
];

#[test]
fn an_empty_folder_is_enough_to_train_evaluate_compare_and_report() {
    let place = Installed::new();
    let trained = place.ok(&[&["train", "--config", "rope.toml", "--device", "cpu"], &SHORT[..]].concat());
    assert!(trained.stderr.contains("data/sotu: 69 / 6 / 12 documents"), "{}", trained.stderr);
    place.ok(&[&["train", "--config", "alibi.toml", "--device", "cpu"], &SHORT[..]].concat());
    assert_eq!(place.names("empty"), ["runs"], "nothing else is written there");
    let cache = place.path("home/.cache/longwave");
    assert!(cache.join("sotu/train").is_dir(), "the corpus is unpacked into the cache");
    let again = place.ok(&["eval", "runs/rope-0", "--extend", "direct,ntk", "--device", "cpu"]);
    assert!(again.stdout.contains("ntk"), "{}", again.stdout);
    place.ok(&["compare", "runs/rope-0", "runs/alibi-0"]);
    place.ok(&["report", "runs/rope-0"]);
    assert!(place.path("empty/runs/rope-0/report.html").exists());
    // A study begins with a config of the program.
    let study = "name = 'two'\nbase = 'rope.toml'\nseeds = 1\n[set]\ntrain = { length = 32, steps = 2, batch_tokens = 128, \
                 validation_tokens = 128 }\nmodel = { size = 'tiny', layers = 1, width = 16, heads = 2 }\n[[axis]]\nname \
                 = 'encoding'\npoints = [{ label = 'RoPE', position = { kind = 'rope' } }, { label = 'ALiBi', position = { \
                 kind = 'alibi' } }]\n[[evaluate]]\nlengths = [32, 64]\nextend = ['direct']\nwindows_per_document = 1\n";
    place.write("empty/two.toml", study);
    let done = place.ok(&["study", "two.toml"]);
    assert!(done.stdout.contains("ALiBi"), "{}", done.stdout);
    assert!(place.path("empty/runs/studies/two/study.md").exists());
    // The program also has studies of its own.
    place.run(&["study", "nothing.toml"]).refuses(2, &["`experiments/nothing.toml`"]);
    // A damaged file in the cache is written again.
    let document = cache.join("sotu/test/1974-Nixon-2.txt");
    fs::write(&document, "changed").unwrap();
    place.ok(&["eval", "runs/rope-0", "--extend", "direct", "--lengths", "32", "--device", "cpu"]);
    assert!(fs::metadata(&document).unwrap().len() > 10_000);
}

#[test]
fn every_config_and_study_is_in_the_program() {
    let place = Installed::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = place.ok(&["init"]).stdout;
    assert_eq!(place.ok(&["new"]).stdout, listed, "another name of the command");
    for folder in ["configs", "experiments"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "toml") {
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            let line = listed.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
            assert!(line.is_some_and(|line| line.len() > name.len() + 20), "{name} in {listed}");
            place.ok(&["init", name]);
            assert!(common::same(&path, &place.path("empty").join(name)), "{name}");
        }
    }
    // `configs` checks each of them; the program reads its own where there is no file.
    fs::remove_file(place.path("empty/rope.toml")).unwrap();
    place.ok(&["validate", "rope.toml", "--set", "train.length=256"]);
}

#[test]
fn init_writes_a_config_and_overwrites_nothing_by_itself() {
    let place = Installed::new();
    let wrote = place.ok(&["init", "alibi"]);
    assert!(wrote.stderr.contains("wrote alibi.toml"), "{}", wrote.stderr);
    place.write("empty/alibi.toml", "mine");
    place.run(&["init", "alibi.toml"]).refuses(2, &["is there already", "--force"]);
    assert_eq!(fs::read_to_string(place.path("empty/alibi.toml")).unwrap(), "mine");
    place.ok(&["new", "alibi.toml", "--out", "sub/mine.toml"]);
    let below = fs::read_to_string(place.path("empty/sub/mine.toml")).unwrap();
    assert!(below.contains("name = \"mine\"\n"), "{below}");
    place.ok(&["init", "alibi.toml", "--force"]);
    // A config of another file name has that name, so that its run has a folder of its own.
    place.ok(&["init", "alibi.toml", "--out", "mine.toml"]);
    let text = |name: &str| fs::read_to_string(place.path(&format!("empty/{name}"))).unwrap();
    let named = |name: &str| {
        text(name).lines().filter(|line| line.starts_with("name = ")).collect::<Vec<_>>().join("")
    };
    assert_eq!(
        (named("alibi.toml").as_str(), named("mine.toml").as_str()),
        ("name = \"alibi\"", "name = \"mine\"")
    );
    assert_eq!(text("mine.toml").replace("name = \"mine\"", "name = \"alibi\""), text("alibi.toml"));
    // A name of a folder has neither a dot at its beginning nor a space.
    for (file, name) in [(".hid.toml", "_hid"), ("my run.toml", "my_run")] {
        let wrote = place.ok(&["init", "alibi", "--out", file]).stderr;
        assert!(wrote.contains(&format!("wrote {file}, named `{name}`; ")), "{wrote}");
        assert_eq!(named(file), format!("name = \"{name}\""));
        place.ok(&["validate", file]);
    }
    assert!(fs::read_to_string(place.path("empty/alibi.toml")).unwrap().contains("ALiBi"));
    place.run(&["init", "alibe"]).refuses(2, &["did you mean `alibi.toml`?"]);
    fs::create_dir(place.path("empty/my dir")).unwrap();
    place.run(&["init", "alibi", "--out", "my dir"]).refuses(2, &["`--out 'my dir/alibi.toml'`"]);
}

#[cfg(unix)]
#[test]
fn init_keeps_links() {
    let place = Installed::new();
    place.write("empty/mine.toml", "mine");
    for (link, target) in [("link.toml", "mine.toml"), ("null.toml", "/dev/null"), ("gone.toml", "nowhere")] {
        std::os::unix::fs::symlink(target, place.path("empty").join(link)).unwrap();
        place.run(&["init", "alibi", "--force", "--out", link]).refuses(2, &["no regular file", "--out"]);
        assert_eq!(fs::read_link(place.path("empty").join(link)).unwrap(), Path::new(target));
    }
    assert_eq!(fs::read_to_string(place.path("empty/mine.toml")).unwrap(), "mine");
}

/// A config in a folder of its own, with a corpus beside it.
fn elsewhere(place: &Installed) {
    for (split, documents) in [("train", 4), ("valid", 2), ("test", 2)] {
        for index in 0..documents {
            place.write(
                &format!("empty/exp/texts/{split}/{index}.txt"),
                &common::text(500 + 40 * index, index),
            );
        }
    }
    let config = common::CONFIG.replace("\"corpus\"", "\"texts\"").replace(", \"linear\", \"ntk\"", "");
    place.write("empty/exp/small.toml", &config);
}

#[test]
fn paths_of_a_config_and_a_study_start_at_their_file() {
    let place = Installed::new();
    elsewhere(&place);
    let trained = place.ok(&["train", "--config", "exp/small.toml", "--device", "cpu"]);
    assert!(trained.stderr.contains("exp/texts: 4 / 2 / 2 documents"), "{}", trained.stderr);
    // From the run's folder, its config trains the same.
    place.ok(&["train", "--config", "runs/small-0/config.toml", "--out", "again", "--device", "cpu"]);
    let study = "name = 'near'\nbase = 'small.toml'\n[set]\ndata.corpus = 'texts'\n";
    place.write("empty/exp/near.toml", study);
    place.ok(&["study", "exp/near.toml"]);
    // `--set` is of the command line, and starts at the current folder; so does a path that is not beside the config.
    let missing = place
        .run(&["train", "--config", "exp/small.toml", "--set", "data.corpus=texts", "--out", "x"])
        .refused(2);
    assert!(!missing.contains("beside the config"), "{missing}");
    fs::rename(place.path("empty/exp/texts"), place.path("empty/texts")).unwrap();
    place.ok(&["train", "--config", "exp/small.toml", "--out", "y", "--device", "cpu"]);
    fs::rename(place.path("empty/texts"), place.path("gone")).unwrap();
    let missing = place.run(&["train", "--config", "exp/small.toml", "--out", "x"]).refused(2);
    for part in ["there is no `exp/texts` beside the config", "`data.corpus = \"texts\"`", "hint: "] {
        assert!(missing.contains(part), "{missing}");
    }
    assert!(!place.path("empty/x").exists());
}

#[test]
fn the_cache_is_where_it_is_asked_for_and_a_missing_home_is_no_failure() {
    let place = Installed::new();
    elsewhere(&place);
    let train = |variables: &[(&str, &Path)], out: &str, more: &[&str]| {
        let arguments = ["train", "--config", "exp/small.toml", "--device", "cpu", "--out", out];
        place.run_with(variables, &[&arguments[..], more].concat()).done().stderr
    };
    let (asked, xdg, temporary) = (place.path("asked"), place.path("xdg"), place.path("tmp"));
    fs::create_dir_all(&temporary).unwrap();
    let home = place.path("home");
    train(&[("LONGWAVE_CACHE", &asked), ("XDG_CACHE_HOME", &xdg)], "a", &["--set", "data.cache=kept"]);
    assert!(asked.is_dir() && !xdg.exists() && !place.path("empty/kept").exists());
    train(&[("XDG_CACHE_HOME", &xdg), ("HOME", &home), ("LOCALAPPDATA", &xdg)], "b", &[]);
    assert!(xdg.join("longwave").is_dir() && place.names("home").is_empty());
    train(&[("HOME", &home)], "c", &["--set", "data.cache=kept"]);
    assert!(place.path("empty/kept").is_dir() && place.names("home").is_empty());
    // A file is no folder, whoever asks.
    let nowhere = place.path("gone/file");
    place.write("gone/file", "");
    for (out, variables) in [("d", vec![("HOME", nowhere.as_path())]), ("e", Vec::new())] {
        let variables =
            [vec![("TMPDIR", temporary.as_path()), ("TEMP", &temporary), ("TMP", &temporary)], variables]
                .concat();
        let told = train(&variables, out, &[]);
        assert!(told.contains("tokens are kept in") && told.contains("LONGWAVE_CACHE"), "{told}");
    }
    assert!(place.names("tmp").iter().any(|name| name.starts_with("longwave-cache-")));
    let again = place.run_with(
        &[("XDG_CACHE_HOME", &xdg), ("HOME", &home)],
        &["train", "--config", "exp/small.toml", "--out", "f", "--device", "cpu"],
    );
    assert!(again.stderr.contains("from the cache"), "{}", again.stderr);
}

#[test]
fn processes_that_unpack_and_tokenize_at_once_do_not_disturb_each_other() {
    let project = Project::new();
    let arguments = |out: &'static str| {
        [&["train", "--config", "rope.toml", "--device", "cpu", "--out", out], &SHORT[..]].concat()
    };
    let children: Vec<_> = ["a", "b", "c"].map(|out| project.start(&arguments(out))).into_iter().collect();
    for child in children {
        Outcome::at_end(child).done();
    }
    let model = |run: &str| project.path(run).join("checkpoints/last.safetensors");
    assert!(common::same(&model("a"), &model("b")) && common::same(&model("a"), &model("c")));
}

#[test]
fn the_option_names_the_cache_of_a_command_and_of_the_runs_of_a_study() {
    let place = Installed::new();
    elsewhere(&place);
    let (asked, option) = (place.path("asked"), place.path("option"));
    let run = |arguments: &[&str]| {
        let all = [arguments, &["--cache", option.to_str().unwrap()]].concat();
        place.run_with(&[("LONGWAVE_CACHE", &asked)], &all).done();
    };
    run(&["train", "exp/small.toml", "--device", "cpu", "--set", "data.cache=kept"]);
    let first = place.names("option");
    assert!(!first.is_empty());
    // The text of the study is another, so its runs need tokens of their own.
    let study =
        "name = 'near'\nbase = 'small.toml'\nthreads = 1\nstore = 'store'\n[set]\ndata.separator = '-'\n";
    place.write("empty/exp/near.toml", study);
    run(&["study", "exp/near.toml", "--out", "near"]);
    assert!(place.names("option").len() > first.len());
    assert!(!asked.exists() && !place.path("empty/kept").exists());
    // A cache that cannot be written is named, also where the program's own text is read.
    place.write("empty/file", "");
    for arguments in [&["train", "rope.toml"][..], &["train", "exp/small.toml"], &["eval", "rope"]] {
        if arguments[0] == "eval" {
            run(&[&["train", "rope.toml", "--device", "cpu", "--out", "rope"], &SHORT[..]].concat());
        }
        place.run(&[arguments, &["--cache", "file"]].concat()).refuses(2, &["`file/", "--cache"]);
    }
    place.run(&["train", "exp/small.toml", "--cache", ""]).refuses(2, &[]);
}
