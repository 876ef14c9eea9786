//! Which document belongs to which split.

use crate::config::{DataConfig, SplitConfig};
use crate::corpus::{Corpus, Format, Source};
use crate::names::names;
use crate::split::Split;
use longwave_core::{Error, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// The rule that assigns documents to splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SplitRule {
    /// The folder a file lies in.
    Folders,
    /// The hash of a document's name: test below the first bound, else valid below the second.
    ByName { test: u64, valid: u64 },
    /// The only document, cut into these byte ranges, in the order of [`Split::ALL`].
    Cut([Range<u64>; 3]),
}

impl SplitRule {
    /// Decides how the documents of a corpus are split.
    ///
    /// # Errors
    /// There are too few documents for the splits asked for, or a file cannot be read.
    pub(crate) fn new(corpus: &Corpus, config: &DataConfig) -> Result<Self> {
        if corpus.split_by_folder {
            return Ok(Self::Folders);
        }
        let split = &config.split;
        if split.valid == 0.0 && split.test == 0.0 {
            return Ok(Self::ByName { test: 0, valid: 0 });
        }
        if let [source] = corpus.sources.as_slice()
            && source.format == Format::Text
        {
            return Ok(Self::Cut(cut(source, split)?));
        }
        by_name(corpus, split)
    }

    /// The split of the document `name` of `source`.
    pub(crate) fn of(&self, source: &Source, name: &str) -> Split {
        match self {
            Self::Folders => source.split.unwrap_or(Split::Train),
            Self::Cut(_) => Split::Train,
            Self::ByName { test, valid } => match name_hash(name) {
                hash if hash < *test => Split::Test,
                hash if hash < *valid => Split::Valid,
                _ => Split::Train,
            },
        }
    }
}

/// The documents with the smallest hashes are held out: as many as the shares say, but at least one.
fn by_name(corpus: &Corpus, split: &SplitConfig) -> Result<SplitRule> {
    let mut hashes = Vec::new();
    names(corpus, &mut |name| hashes.push(name_hash(name)))?;
    let count = hashes.len();
    let held_out = |share: f64| match share {
        0.0 => 0,
        share => ((share * count as f64).round() as usize).max(1),
    };
    let (test, valid) = (held_out(split.test), held_out(split.valid));
    if test + valid >= count {
        let wanted = 1 + usize::from(test > 0) + usize::from(valid > 0);
        let documents = if count == 1 { "1 document is" } else { &format!("{count} documents are") };
        return Err(Error::failed(format!("{documents} too few for {wanted} splits")).hint(
            "set `split = { valid = 0, test = 0 }`, or put the files into folders train, valid and test",
        ));
    }
    hashes.sort_unstable();
    // Held-out documents lie below the hash of the first one that is not.
    Ok(SplitRule::ByName { test: hashes[test], valid: hashes[test + valid] })
}

/// The first eight bytes of the SHA-256 of a name: neither the order of the files nor where the corpus
/// lies changes it.
fn name_hash(name: &str) -> u64 {
    let hex = longwave_core::file::sha256_of(name.as_bytes());
    u64::from_str_radix(&hex[..16], 16).unwrap_or(0)
}

/// Cuts one file contiguously into training, validation and test bytes.
fn cut(source: &Source, split: &SplitConfig) -> Result<[Range<u64>; 3]> {
    let at = |share: f64| {
        let place = ((source.bytes as f64 * share).round() as u64).min(source.bytes);
        character_start(source, place)
    };
    let valid = at(1.0 - split.valid - split.test)?;
    // Computed from the same shares when there is no test split, so that nothing is left over.
    let test = if split.test == 0.0 { source.bytes } else { at(1.0 - split.test)? };
    let ranges = [0..valid, valid..test, test..source.bytes];
    let wanted = [true, split.valid > 0.0, split.test > 0.0];
    if ranges.iter().zip(wanted).any(|(range, wanted)| wanted && range.is_empty()) {
        return Err(Error::failed(format!(
            "`{}` holds {} bytes, too few to cut into splits",
            source.path.display(),
            source.bytes
        ))
        .hint("set `data.split = { valid = 0, test = 0 }`, or add text"));
    }
    Ok(ranges)
}

/// The first place from `place` on that is not within a UTF-8 character; `place` itself in other bytes.
fn character_start(source: &Source, place: u64) -> Result<u64> {
    let failed = |error: std::io::Error| Error::io("read", &source.path, &error);
    let mut file = File::open(&source.path).map_err(failed)?;
    file.seek(SeekFrom::Start(place)).map_err(failed)?;
    let mut next = Vec::new();
    file.take(4).read_to_end(&mut next).map_err(failed)?;
    let inside = next.iter().take_while(|byte| *byte & 0b1100_0000 == 0b1000_0000).count() as u64;
    Ok(if inside < 4 { place + inside } else { place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn plan(files: &[(&str, &str)], valid: f64, test: f64) -> Result<(SplitRule, Corpus)> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut config = DataConfig::new(folder.path().to_str().unwrap());
        config.split = SplitConfig { valid, test };
        let corpus = crate::corpus::find(&config.corpus, "data.corpus")?;
        Ok((SplitRule::new(&corpus, &config)?, corpus))
    }

    fn counts(files: &[(&str, &str)], valid: f64, test: f64) -> [usize; 3] {
        let (plan, corpus) = plan(files, valid, test).unwrap();
        let splits: Vec<_> = corpus.sources.iter().map(|source| plan.of(source, &source.name)).collect();
        Split::ALL.map(|split| splits.iter().filter(|found| **found == split).count())
    }

    #[test]
    fn shares_are_met_and_small_corpora_keep_one_of_each() {
        let names: Vec<String> = (0..40).map(|i| format!("{i}.txt")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        assert_eq!(counts(&files, 0.1, 0.2), [28, 4, 8]);
        assert_eq!(counts(&files[..3], 0.05, 0.05), [1, 1, 1]);
        assert_eq!(counts(&files[..4], 0.0, 0.05), [3, 0, 1]);
        assert_eq!(counts(&files[..4], 0.0, 0.0), [4, 0, 0]);
    }

    #[test]
    fn too_few_documents_are_an_error() {
        let error = plan(&[("a.txt", "1"), ("b.txt", "2")], 0.05, 0.05).unwrap_err();
        assert!(error.message().contains("2 documents are too few for 3 splits"), "{error}");
        let error = plan(&[("a.txt", "12")], 0.05, 0.05).unwrap_err();
        assert!(error.message().contains("too few to cut"), "{error}");
    }

    #[test]
    fn one_file_is_cut_between_characters() {
        let text = "é".repeat(50);
        let (plan, _) = plan(&[("a.txt", &text)], 0.05, 0.25).unwrap();
        // 70 and 75 bytes in; the second falls within a character.
        assert_eq!(plan, SplitRule::Cut([0..70, 70..76, 76..100]));
    }

    #[test]
    fn bytes_that_are_no_text_are_cut_where_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, [0x80; 100]).unwrap();
        let mut config = DataConfig::new(path.to_str().unwrap());
        config.split = SplitConfig { valid: 0.1, test: 0.0 };
        let corpus = crate::corpus::find(&config.corpus, "data.corpus").unwrap();
        assert_eq!(SplitRule::new(&corpus, &config).unwrap(), SplitRule::Cut([0..90, 90..100, 100..100]));
    }

    #[test]
    fn names() {
        for split in Split::ALL {
            assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
            assert_eq!(serde_json::to_string(&split).unwrap(), format!("\"{split}\""));
            assert_eq!(Split::ALL[split.index()], split);
        }
        for name in ["valid", "validation", "val", "dev"] {
            assert_eq!(name.parse::<Split>().unwrap(), Split::Valid);
            assert_eq!(serde_json::from_str::<Split>(&format!("\"{name}\"")).unwrap(), Split::Valid);
        }
        assert!("eval".parse::<Split>().unwrap_err().to_string().contains("`validation`"));
    }
}
