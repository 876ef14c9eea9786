//! Which split a file belongs to, by what the user named it, or by `data.split`.

use super::kind::stem;
use crate::split::Split;
use crate::split_config::SplitConfig;
use longwave_core::{Error, Result};
use std::path::PathBuf;

/// A file below a corpus, and its path from there, with `/` between folders.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) name: String,
}

/// The files of a corpus by split.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Each file that is read, and its split; `None` where shares decide.
    pub(super) files: Vec<(Found, Option<Split>)>,
    /// Whether names of files and folders say what is trained on.
    pub(super) named: bool,
    /// The shares of validation and test, of the documents of files without a split.
    pub(super) shares: [f64; 2],
    /// Files that are not read, because they belong to no split.
    pub(super) left_out: Vec<String>,
    /// Which files are which split, in words.
    pub(super) words: Option<String>,
    /// Shares that were given and have no effect, since names of files are that split.
    pub(super) idle: Vec<(Split, f64)>,
}

/// What a word says of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Split(Split),
    /// Validation or test, whichever nothing else is.
    HeldOut,
}

fn word(word: &str) -> Option<Says> {
    match word {
        "training" => Some(Says::Split(Split::Train)),
        "eval" | "evaluation" | "heldout" => Some(Says::HeldOut),
        _ => Split::ALL.into_iter().find(|split| split.names().contains(&word)).map(Says::Split),
    }
}

/// The word of a path that says a split: the first of its folders that is such a word, or one within the file's name.
fn said(name: &str) -> Option<(String, Says)> {
    let joined = name.to_lowercase().replace("held-out", "heldout").replace("held_out", "heldout");
    let (folders, file) = joined.rsplit_once('/').unwrap_or(("", &joined));
    let stem = stem(file);
    let words = stem.split(|letter: char| !letter.is_alphanumeric());
    folders.split('/').chain(words).find_map(|text| Some((text.to_owned(), word(text)?)))
}

/// Whether a file's name says its split, as that of `wiki.train.raw` does.
pub(super) fn says_split(name: &str) -> bool {
    said(name).is_some()
}

/// Files that come with corpora and hold no text of them.
fn is_about(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    ["readme", "license", "licence", "copying", "changelog"].iter().any(|start| file.starts_with(start))
}

/// The splits that the first folder of a name may say, and the rest of the name.
pub(super) fn in_folder(name: &str) -> Option<(&'static [Split], &str)> {
    let (folder, rest) = name.split_once('/')?;
    let splits: &[Split] = match word(&folder.to_lowercase())? {
        Says::Split(Split::Train) => &[Split::Train],
        Says::Split(Split::Valid) => &[Split::Valid],
        Says::Split(Split::Test) => &[Split::Test],
        Says::HeldOut => &[Split::Valid, Split::Test],
    };
    Some((splits, rest))
}

/// What a file is shown as: the folder that says its split, or its name.
fn label(name: &str) -> &str {
    match name.split_once('/') {
        Some((folder, _)) if word(&folder.to_lowercase()).is_some() => &name[..=folder.len()],
        _ => name,
    }
}

pub(crate) fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(super) const SAY: &str = "say which is which, e.g. `--set 'data.split={ train = \"*train*\", valid = \"*dev*\", test = \"*test*\" }'`; \
                   `{ train = \"*\", valid = 0.05, test = 0.05 }` holds out shares of all, whatever their names";

impl Layout {
    /// Assigns the files of the corpus `place`, in their order.
    pub(super) fn new(found: Vec<Found>, config: &SplitConfig, place: &str) -> Result<Self> {
        let given = config.files();
        let says: Vec<Option<(String, Says)>> = found.iter().map(|found| said(&found.name)).collect();
        if given.is_empty() && says.iter().all(Option::is_none) {
            let files = found.into_iter().map(|found| (found, None)).collect();
            return Ok(Self { files, shares: config.shares(), ..Self::default() });
        }
        let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
        let splits = if given.is_empty() {
            by_names(&names, &says, place)?
        } else {
            by_config(&names, &says, &given, place)?
        };
        let present = |split| splits.contains(&Some(split));
        let shares = if given.is_empty() { config.given_shares() } else { config.shares() };
        let [valid, test] = [Split::Valid, Split::Test].map(present);
        let idle = [(Split::Valid, valid), (Split::Test, test)].into_iter().zip(shares);
        let idle = idle.filter(|((_, present), share)| *present && *share > 0.0);
        let idle = idle.map(|((split, _), share)| (split, share)).collect();
        let shares = [if valid { 0.0 } else { shares[0] }, if test { 0.0 } else { shares[1] }];
        let by_shares = shares.iter().any(|share| *share > 0.0);
        let words = Some(in_words(&names, &splits, shares));
        let mut layout = Self { named: true, shares, words, idle, ..Self::default() };
        for (mut found, split) in found.into_iter().zip(splits) {
            if split.is_none() {
                layout.left_out.push(found.name);
                continue;
            }
            if given.is_empty() && label(&found.name).ends_with('/') {
                found.name.drain(..label(&found.name).len());
            }
            layout.files.push((found, split.filter(|split| !(by_shares && *split == Split::Train))));
        }
        Ok(layout)
    }
}

/// The splits that the names of files and folders say; `None` of a file beside them that says nothing.
fn by_names(names: &[String], says: &[Option<(String, Says)>], place: &str) -> Result<Vec<Option<Split>>> {
    let silent: Vec<&str> = names
        .iter()
        .zip(says)
        .filter(|(name, says)| says.is_none() && !is_about(name))
        .map(|(name, _)| name.as_str())
        .collect();
    let loud = || names.iter().zip(says).filter(|(_, says)| says.is_some()).map(|(name, _)| label(name));
    let has_folder = loud().any(|label| {
        word(&label.trim_end_matches('/').to_lowercase()) == Some(Says::Split(Split::Train))
            && label.ends_with('/')
    });
    if !silent.is_empty() && !has_folder {
        let mut labels: Vec<&str> = loud().collect();
        labels.dedup();
        return Err(Error::usage(format!(
            "`{place}` holds files whose names say a split ({}) and files whose names say none ({})",
            listed(&labels),
            listed(&silent)
        ))
        .hint(SAY));
    }
    let held_out = held_out(names, says, place)?;
    let split = |says: &Option<(String, Says)>| match says.as_ref()?.1 {
        Says::Split(split) => Some(split),
        Says::HeldOut => held_out,
    };
    Ok(says.iter().map(split).collect())
}

/// What `eval` and `heldout` mean beside the other words; two words for one split are an error.
fn held_out(names: &[String], says: &[Option<(String, Says)>], place: &str) -> Result<Option<Split>> {
    let words = |wanted: Says| {
        let mut words: Vec<&str> = says
            .iter()
            .flatten()
            .filter(|(_, says)| *says == wanted)
            .map(|(word, _)| word.as_str())
            .collect();
        words.sort_unstable();
        words.dedup();
        words
    };
    for split in Split::ALL {
        if let [first, second, ..] = words(Says::Split(split)).as_slice() {
            return Err(Error::usage(format!(
                "`{place}` has two names for the {split} split: `{first}` and `{second}`"
            ))
            .hint(format!(
                "keep one of them, or name the files, e.g. `--set 'data.split={{ {split} = \"*{first}*\" }}'`"
            )));
        }
    }
    let open = words(Says::HeldOut);
    let files: Vec<&str> = names
        .iter()
        .zip(says)
        .filter(|(_, says)| says.as_ref().is_some_and(|(_, says)| *says == Says::HeldOut))
        .map(|(name, _)| label(name).trim_end_matches('/'))
        .collect();
    let [has_train, has_valid, has_test] = Split::ALL.map(|split| !words(Says::Split(split)).is_empty());
    match (open.as_slice(), has_valid, has_test) {
        ([], ..) => Ok(None),
        ([_], false, true) => Ok(Some(Split::Valid)),
        ([_], true, false) => Ok(Some(Split::Test)),
        // Nothing else is there, so it is what a text beside a run's own is read for; there is no training on it.
        ([_], false, false) if !has_train => Ok(Some(Split::Test)),
        ([word, ..], ..) => {
            let files =
                if files.iter().all(|file| *file == files[0]) { files[0] } else { &format!("*{word}*") };
            Err(Error::usage(format!(
                "`{word}` in `{place}` may be the validation split, which choices are made by, or the test split, which results \
                 are reported on"
            ))
            .hint(format!(
                "say which: `--set 'data.split={{ valid = \"{files}\" }}'` or `--set 'data.split={{ test = \"{files}\" }}'`"
            )))
        }
    }
}

/// The splits of a config that names files; the others are what their own names say, or train.
fn by_config(
    names: &[String],
    says: &[Option<(String, Says)>],
    given: &[(Split, &str)],
    place: &str,
) -> Result<Vec<Option<Split>>> {
    let matches = |files: &str, name: &str| {
        let folder = name.strip_prefix(files.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'));
        folder || files == name || glob::Pattern::new(files).is_ok_and(|pattern| pattern.matches(name))
    };
    for (split, files) in given {
        if !names.iter().any(|name| matches(files, name)) {
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let key = format!("data.split.{split}");
            return Err(Error::value(&key, format!("\"{files}\""), format!("no file in `{place}` matches"))
                .hint(format!(
                    "it is a path from there, where `*` stands for any letters; there are {}",
                    listed(&all)
                )));
        }
    }
    let names_train = given.iter().any(|(split, _)| *split == Split::Train);
    let split = |(name, says): (&String, &Option<(String, Says)>)| {
        let by_pattern = given.iter().find(|(_, files)| matches(files, name)).map(|(split, _)| *split);
        by_pattern.or(match says {
            Some((_, Says::Split(split))) if !given.iter().any(|(given, _)| given == split) => Some(*split),
            None if !names_train && !is_about(name) => Some(Split::Train),
            _ => None,
        })
    };
    Ok(names.iter().zip(says).map(split).collect())
}

/// Which files are which split; not of those that a share of the files to train becomes.
fn in_words(names: &[String], splits: &[Option<Split>], shares: [f64; 2]) -> String {
    let of = |split: Split| {
        let mut labels: Vec<&str> = names
            .iter()
            .zip(splits)
            .filter(|(_, of)| **of == Some(split))
            .map(|(name, _)| label(name))
            .collect();
        labels.dedup();
        if labels.is_empty() { "nothing".to_owned() } else { listed(&labels) }
    };
    let verbs = [(0.0, "train"), (shares[0], "validate"), (shares[1], "test")];
    let parts = Split::ALL.into_iter().zip(verbs).filter(|(_, (share, _))| *share == 0.0);
    parts.map(|(split, (_, verb))| format!("{} to {verb}", of(split))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(names: &[&str], config: &SplitConfig) -> Result<Layout> {
        let found = |name: &&str| Found { path: PathBuf::new(), name: (*name).to_owned() };
        Layout::new(names.iter().map(found).collect(), config, "texts")
    }

    fn splits(names: &[&str]) -> Vec<Option<Split>> {
        layout(names, &SplitConfig::default()).unwrap().files.into_iter().map(|(_, split)| split).collect()
    }

    const THREE: [Option<Split>; 3] = [Some(Split::Train), Some(Split::Valid), Some(Split::Test)];

    #[test]
    fn names_as_people_write_them() {
        for names in [
            ["train.jsonl", "validation.jsonl", "test.jsonl"],
            ["wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"],
            [
                "train-00000-of-00002.parquet",
                "validation-00000-of-00001.parquet",
                "test-00000-of-00001.parquet",
            ],
            ["pg19/train/1.txt", "pg19/validation/2.txt", "pg19/test/3.txt"],
            ["train/00.jsonl.zst", "val.jsonl.zst", "test.jsonl.zst"],
            ["training_set.txt", "held-out.txt", "test_set.txt"],
            [
                "en/c4-train.00000-of-01024.json.gz",
                "en/c4-validation.00000-of-00008.json.gz",
                "en/c4-heldout.json.gz",
            ],
        ] {
            assert_eq!(splits(&names), THREE, "{names:?}");
        }
        for names in [
            ["train", "valid", "test"],
            ["Train", "VAL", "Test"],
            ["TRAIN", "Dev", "TEST"],
            ["train", "validation", "test"],
            ["training", "eval", "test"],
            ["train", "dev", "eval"],
            ["train", "heldout", "test"],
            ["train", "val", "held-out"],
            ["train", "valid", "heldout"],
        ] {
            let folders = names.map(|name| format!("{name}/0.txt"));
            let files = names.map(|name| format!("wiki.{name}.0.txt"));
            for names in [folders, files] {
                assert_eq!(splits(&names.each_ref().map(String::as_str)), THREE, "{names:?}");
            }
        }
        let none = [None, None];
        assert_eq!(splits(&["contest.txt", "retrained.txt"]), none, "a part of a word says nothing");
    }

    #[test]
    fn what_may_mean_two_things_is_asked() {
        let names = ["train.txt", "dev.txt", "test.txt", "heldout.txt"];
        let error = layout(&names, &SplitConfig::default()).unwrap_err();
        assert!(error.message().contains("`heldout` in `texts` may be"), "{error}");
        assert!(error.hint_text().unwrap().contains("data.split="), "{error}");
    }

    #[test]
    fn a_share_of_the_usual_size_is_not_held_out_of_files_to_train() {
        let layout = layout(&["train-0.parquet"], &SplitConfig::shares_of(0.05, 0.05)).unwrap();
        assert_eq!((layout.files[0].1, layout.shares), (Some(Split::Train), [0.0; 2]));
        let words = "`train-0.parquet` to train, nothing to validate, nothing to test";
        assert_eq!(layout.words.as_deref(), Some(words));
    }
}
