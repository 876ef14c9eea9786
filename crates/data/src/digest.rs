//! What identifies the text of each split, wherever its files lie, whatever they are called and however it is tokenized.

use crate::config::DataConfig;
use crate::corpus::{Corpus, Format};
use crate::split::Split;
use crate::split_rule::SplitRule;
use longwave_core::{Result, file};
use serde_json::{Value, json};

/// SHA-256 of the documents of each split, in the order of [`Split::ALL`]; `None` of a split without documents.
///
/// `hashes` go with the files of the corpus: no text is read again.
///
/// # Errors
/// There are too few documents for the splits asked for.
pub(crate) fn of_splits(
    corpus: &Corpus,
    hashes: &[String],
    config: &DataConfig,
) -> Result<[Option<String>; 3]> {
    let mut documents: [Vec<Value>; 3] = Default::default();
    let by_lines = corpus.sources.iter().any(|source| source.format == Format::JsonLines);
    if by_lines && !corpus.split_by_folder {
        // A line's name, made of its file's, decides its split.
        let names: Vec<_> = corpus.sources.iter().zip(hashes).map(|(it, hash)| (&it.name, hash)).collect();
        let shares = [config.split.valid, config.split.test];
        for (split, list) in Split::ALL.into_iter().zip(&mut documents) {
            list.push(json!([split, shares, config.text_field, names]));
        }
    } else {
        let rule = SplitRule::new(corpus, config)?;
        for (source, hash) in corpus.sources.iter().zip(hashes).filter(|(source, _)| source.bytes > 0) {
            match (&rule, source.format) {
                (SplitRule::Cut(ranges), _) => {
                    for (range, list) in ranges.iter().zip(&mut documents).filter(|(it, _)| !it.is_empty()) {
                        list.push(json!([hash, range.start, range.end]));
                    }
                }
                (_, Format::JsonLines) => {
                    let split = rule.of(source, &source.name);
                    documents[split.index()].push(json!([hash, config.text_field]));
                }
                (_, Format::Text) => {
                    documents[rule.of(source, &source.name).index()].push(json!([hash]));
                }
            }
        }
    }
    let digest = |list: Vec<Value>| {
        (!list.is_empty()).then(|| file::sha256_of(Value::Array(list).to_string().as_bytes()))
    };
    Ok(documents.map(digest))
}
