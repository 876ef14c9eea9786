//! One flipped bit anywhere in an export, in rows, in metrics, in a checkpoint or in a token cache is noticed, or changes nothing.
//!
//! `LONGWAVE_FLIPS=10000 cargo test --package longwave-tests --test workspace flips:: -- --nocapture` samples as many of an export, of
//! rows, of metrics, of a checkpoint and of a cache, and prints how many were noticed and why the others are harmless.

#![allow(clippy::print_stdout, reason = "counts, for who runs the long form")]

use crate::common::{Project, RUN, files};
use burn::tensor::Device;
use longwave_core::random::Stream;
use longwave_core::sealed_line;
use longwave_data::{Dataset, Split};
use longwave_eval::row::read_rows;
use longwave_experiment::Config;
use longwave_train::FileScaling;
use longwave_train::checkpoint::Checkpoint;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a reader makes of a damaged file.
enum Found {
    /// It says so, or replaces the file by a whole one.
    Noticed,
    /// It reads what the whole file holds.
    Same,
}

/// Why a flip that nobody notices changes nothing: all that may be harmless.
fn why_harmless(whole: &[u8], place: usize) -> Option<&'static str> {
    if place + 1 == whole.len() && whole.ends_with(b"\n") {
        return Some("at the end of the last line, where other white space means the same");
    }
    let line = whole[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = place + whole[place..].iter().position(|byte| *byte == b'\n').unwrap_or(whole.len() - place);
    let line = String::from_utf8_lossy(&whole[line..end]);
    let name = line.rfind("\"checksum\"").map(|begin| end - (line.len() - begin))?;
    // What it covers is as it was: a line without a checksum is read as it stands, and keys that nobody knows may follow.
    (name..name + "\"checksum\"".len()).contains(&place).then_some("in the name of a checksum")
}

/// What a reader finds, or in words what has changed.
type Read<'a> = &'a mut dyn FnMut() -> Result<Found, String>;

/// Flips a file's share of the bits that are asked for; `files` of them share these.
fn check(what: &str, files: usize, path: &Path, read: Read<'_>) -> [usize; 2] {
    check_some(what, asked(40, files), usize::MAX, path, read)
}

fn asked(default: usize, files: usize) -> usize {
    std::env::var("LONGWAVE_FLIPS").map_or(default, |flips| flips.parse::<usize>().unwrap().div_ceil(files))
}

/// Flips one bit of a file at a time, every third one among the first `head` bytes, and puts the file back.
fn check_some(what: &str, flips: usize, head: usize, path: &Path, read: Read<'_>) -> [usize; 2] {
    let whole = fs::read(path).unwrap();
    let mut stream = Stream::new(3, what, 0);
    let [mut noticed, mut harmless] = [0; 2];
    let mut changed = Vec::new();
    let mut reasons = BTreeMap::new();
    for index in 0..flips {
        let size = if index.is_multiple_of(3) { whole.len().min(head) } else { whole.len() };
        let (place, bit) = (stream.below(size as u64) as usize, stream.below(8));
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << bit;
        fs::write(path, &damaged).unwrap();
        match read() {
            Ok(Found::Noticed) => noticed += 1,
            Ok(Found::Same) => {
                let Some(why) = why_harmless(&whole, place) else {
                    changed.push(format!("{place} bit {bit} in {:?} is not noticed", around(&whole, place)));
                    continue;
                };
                *reasons.entry(why).or_insert(0) += 1;
                harmless += 1;
            }
            Err(how) => {
                changed.push(format!("{place} bit {bit} in {:?}: {how}", around(&whole, place)));
            }
        }
    }
    fs::write(path, whole).unwrap();
    println!(
        "{what}: {flips} flips, {noticed} noticed, {harmless} harmless {reasons:?}, {} changed",
        changed.len()
    );
    assert!(
        changed.is_empty(),
        "{what}: {} of {flips}: {:#?}",
        changed.len(),
        &changed[..changed.len().min(8)]
    );
    [noticed, harmless]
}

fn around(whole: &[u8], place: usize) -> String {
    String::from_utf8_lossy(&whole[place.saturating_sub(30)..(place + 10).min(whole.len())]).into_owned()
}

#[test]
fn of_rows_and_metrics() {
    let project = Project::new();
    project.train(&[]);
    let path = project.path(&format!("{RUN}/results.jsonl"));
    let whole = read_rows(&path).unwrap();
    let [noticed, harmless] = check("rows", 1, &path, &mut || match read_rows(&path) {
        Err(_) => Ok(Found::Noticed),
        Ok(rows) if rows == whole => Ok(Found::Same),
        Ok(_) => Err("other rows".to_owned()),
    });
    assert!(noticed > 9 * harmless, "{noticed} noticed, {harmless} harmless");
    let path = project.path(&format!("{RUN}/metrics.jsonl"));
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    check("metrics", 1, &path, &mut || {
        let Ok(text) = fs::read_to_string(&path) else { return Ok(Found::Noticed) };
        let sealed = text.lines().all(|line| sealed_line::check(line) == Ok(true));
        let is_same = sealed && text.lines().count() == lines;
        Ok(if is_same { Found::Same } else { Found::Noticed })
    });
}

#[test]
fn of_a_checkpoint() {
    let project = Project::new();
    project.train(&["--set", "train.checkpoint_every=2"]);
    let path = project.path(&format!("{RUN}/checkpoints/last.safetensors"));
    let whole = Checkpoint::load(&path).unwrap();
    // The header is small.
    let header = 8 + u64::from_le_bytes(fs::read(&path).unwrap()[..8].try_into().unwrap()) as usize;
    let mut read = || match Checkpoint::load(&path) {
        Err(error) => {
            assert!(error.message().contains("last.safetensors") && error.hint_text().is_some(), "{error}");
            Ok(Found::Noticed)
        }
        Ok(found) if found.meta == whole.meta && found.parameters() == whole.parameters() => Ok(Found::Same),
        Ok(_) => Err("another checkpoint".to_owned()),
    };
    assert_eq!(check_some("checkpoint", asked(300, 1), header, &path, &mut read)[1], 0);
}

/// All files below a folder, with what they hold.
fn held(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(folder).into_iter().map(|path| (PathBuf::from(&path), fs::read(path).unwrap())).collect()
}

#[test]
fn of_an_export() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    project.ok(&["export", RUN, "exported"]);
    let (folder, out) = (project.path("exported"), project.path("imported"));
    let read = || {
        let _ = fs::remove_dir_all(&out);
        let import = longwave_hub::import(&folder, FileScaling::Trained).ok()?;
        let notes = import.notes.len();
        import.write(&out, &Device::flex()).ok()?;
        let files =
            held(&out).into_iter().map(|(path, bytes)| (path.strip_prefix(&out).unwrap().to_owned(), bytes));
        Some((notes, files.collect::<BTreeMap<_, _>>()))
    };
    let whole = read().unwrap();
    let names = ["model.safetensors", "tokenizer.json", "config.json"];
    for name in names {
        check(name, names.len(), &folder.join(name), &mut || match read() {
            None => Ok(Found::Noticed),
            Some((notes, _)) if notes > whole.0 => Ok(Found::Noticed),
            Some(found) if found == whole => Ok(Found::Same),
            Some((_, files)) => {
                let other = files.iter().filter(|(name, bytes)| whole.1.get(*name) != Some(bytes));
                Err(format!("{:?}", other.map(|(name, _)| name).collect::<Vec<_>>()))
            }
        });
    }
}

#[test]
fn of_a_token_cache() {
    let project = Project::new();
    let cache = project.path("cache");
    let place = format!("data.cache=\"{}\"", cache.display());
    let config = Config::load(&project.path("small.toml"), &[place]).unwrap();
    let read = || {
        let dataset = Dataset::open(&config.run.data, &mut |_| ()).map_err(|error| error.to_string())?;
        let tokens = [Split::Train, Split::Valid, Split::Test].map(|split| {
            let tokens = dataset.tokens(split);
            let names = (0..tokens.documents()).map(|index| tokens.document_name(index).to_owned());
            (tokens.read(0..tokens.len()), names.collect::<Vec<_>>())
        });
        let tokenizer = dataset.tokenizer().to_json().map_err(|error| error.to_string())?;
        Ok::<_, String>((tokens, tokenizer, dataset.content_hash().to_owned()))
    };
    let expected = read().unwrap();
    let whole: Vec<_> = held(&cache).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    for (path, bytes) in &whole {
        check(&path.file_name().unwrap().to_string_lossy(), whole.len(), path, &mut || match read() {
            Ok(found) if found != expected => Err("other tokens".to_owned()),
            Err(_) => Ok(Found::Noticed),
            // Rebuilt, or read as it stands.
            Ok(_) if fs::read(path).unwrap() == *bytes => Ok(Found::Noticed),
            Ok(_) => Ok(Found::Same),
        });
    }
}
