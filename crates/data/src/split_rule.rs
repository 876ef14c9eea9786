//! Which document belongs to which split.

use crate::corpus::Source;
use crate::split::Split;
use longwave_core::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SplitRule {
    /// What files are named, and train where they are not.
    Named,
    /// The hash of a document's name, in files that are not named: test below the first bound, else valid below the second.
    ByName { test: u64, valid: u64 },
    /// The only document, cut where training and validation end, in bytes.
    Cut([u64; 2]),
}

impl SplitRule {
    pub(crate) fn of(&self, source: &Source, name: &str) -> Split {
        source.split.unwrap_or_else(|| match self {
            Self::Named | Self::Cut(_) => Split::Train,
            Self::ByName { test, valid } => match name_hash(name) {
                hash if hash < *test => Split::Test,
                hash if hash < *valid => Split::Valid,
                _ => Split::Train,
            },
        })
    }
}

/// The documents with the smallest hashes are held out: as many as the shares say, but at least one.
pub(crate) fn by_name(mut hashes: Vec<u64>, valid: f64, test: f64) -> Result<SplitRule> {
    let count = hashes.len();
    let held_out = |share: f64| match share {
        0.0 => 0,
        share => ((share * count as f64).round() as usize).max(1),
    };
    let (test, valid) = (held_out(test), held_out(valid));
    if count > 0 && test + valid >= count {
        let wanted = 1 + usize::from(test > 0) + usize::from(valid > 0);
        let documents = if count == 1 { "1 document is" } else { &format!("{count} documents are") };
        return Err(Error::failed(format!("{documents} too few for {wanted} splits")).hint(
            "set `split = { valid = 0, test = 0 }`, or put the files into folders train, valid and test",
        ));
    }
    hashes.sort_unstable();
    // Held-out documents lie below the hash of the first one that is not.
    let bound = |index: usize| hashes.get(index).copied().unwrap_or(0);
    Ok(SplitRule::ByName { test: bound(test), valid: bound(test + valid) })
}

/// The first eight bytes of the SHA-256 of a name: neither the order of the files nor where the corpus
/// lies changes it.
pub(crate) fn name_hash(name: &str) -> u64 {
    let hex = longwave_core::file::sha256_of(name.as_bytes());
    u64::from_str_radix(&hex[..16], 16).unwrap_or(0)
}

/// Cuts one text contiguously into training, validation and test bytes.
pub(crate) fn cut(source: &Source, bytes: u64, valid: f64, test: f64) -> Result<SplitRule> {
    // A cut moves on to the next character, which is less than four bytes away.
    const LEAST: u64 = 4;
    let at = |share: f64| ((bytes as f64 * share).round() as u64).min(bytes);
    // Computed from the same shares when there is no test split, so that nothing is left over.
    let ends = [at(1.0 - valid - test), if test == 0.0 { bytes } else { at(1.0 - test) }];
    let lengths = [(1.0, ends[0]), (valid, ends[1] - ends[0]), (test, bytes - ends[1])];
    if lengths.iter().any(|(share, bytes)| *share > 0.0 && *bytes < LEAST) {
        return Err(Error::failed(format!(
            "`{}` holds {bytes} bytes of text, too few to cut into splits",
            source.path.display(),
        ))
        .hint("set `data.split = { valid = 0, test = 0 }`, or add text"));
    }
    Ok(SplitRule::Cut(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DataConfig;
    use crate::corpus;
    use crate::documents::{Documents, Event};
    use crate::split_config::SplitConfig;
    use crate::testing::folder;

    fn plan(files: &[(&str, &[u8])], valid: f64, test: f64) -> Result<(SplitRule, [usize; 3])> {
        let folder = folder(files);
        let mut config = DataConfig::new(folder.path().to_str().unwrap());
        config.split = SplitConfig::shares_of(valid, test);
        let corpus = corpus::find(&config, "data.corpus")?;
        let documents = Documents { corpus: &corpus, config: &config };
        let rule = documents.split_rule()?;
        let mut counts = [0; 3];
        documents.visit(&rule, &Split::ALL, &mut |event| {
            if let Event::End { split, .. } = event {
                counts[split.index()] += 1;
            }
            Ok(())
        })?;
        Ok((rule, counts))
    }

    fn counts(files: &[(&str, &[u8])], valid: f64, test: f64) -> [usize; 3] {
        plan(files, valid, test).unwrap().1
    }

    #[test]
    fn shares_are_met_and_small_corpora_keep_one_of_each() {
        let names: Vec<String> = (0..40).map(|i| format!("{i}.txt")).collect();
        let mut files: Vec<_> = names.iter().map(|name| (name.as_str(), b"x".as_slice())).collect();
        assert_eq!(counts(&files, 0.1, 0.2), [28, 4, 8]);
        assert_eq!(counts(&files[..3], 0.05, 0.05), [1, 1, 1]);
        assert_eq!(counts(&files[..4], 0.0, 0.05), [3, 0, 1]);
        assert_eq!(counts(&files[..4], 0.0, 0.0), [4, 0, 0]);
        // Documents of blanks are none of them.
        files.truncate(3);
        files.extend([("a.txt", b" \n".as_slice()), ("b.txt", "\u{a0}\u{2003}".as_bytes())]);
        assert_eq!(counts(&files, 0.05, 0.05), [1, 1, 1]);
    }

    #[test]
    fn too_few_documents_are_an_error() {
        let error = plan(&[("a.txt", b"1"), ("b.txt", b"2")], 0.05, 0.05).unwrap_err();
        assert!(error.message().contains("2 documents are too few for 3 splits"), "{error}");
        let error = plan(&[("a.txt", b"12")], 0.05, 0.05).unwrap_err();
        assert!(error.message().contains("2 bytes of text, too few to cut"), "{error}");
    }

    #[test]
    fn one_file_is_cut_where_the_shares_say() {
        let (rule, counts) = plan(&[("a.txt", "é".repeat(50).as_bytes())], 0.05, 0.25).unwrap();
        assert_eq!((rule, counts), (SplitRule::Cut([70, 75]), [1, 1, 1]));
        let (rule, counts) = plan(&[("a.txt", &[0x80; 100])], 0.1, 0.0).unwrap();
        assert_eq!((rule, counts), (SplitRule::Cut([90, 100]), [1, 1, 0]));
        let parted = "one\n<|endoftext|>\ntwo\n<|endoftext|>\nthree\n";
        assert_eq!(plan(&[("a.txt", parted.as_bytes())], 0.05, 0.25).unwrap().1, [1, 1, 1]);
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
