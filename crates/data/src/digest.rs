//! What identifies the text of each split, wherever its files lie, whatever they are called and however it is tokenized.

use crate::config::DataConfig;
use crate::corpus::{Corpus, Format};
use crate::split::Split;
use longwave_core::file;
use serde_json::{Value, json};

/// SHA-256 of the documents of each split, in the order of [`Split::ALL`]; `None` of a split without documents.
///
/// `hashes` go with the files of the corpus: no text is read again.
pub(crate) fn of_splits(corpus: &Corpus, hashes: &[String], config: &DataConfig) -> [Option<String>; 3] {
    let mut documents: [Vec<Value>; 3] = Default::default();
    let [valid, test] = corpus.shares;
    let of_split = [1.0, valid, test];
    let single = corpus.sources.len() == 1;
    for (source, hash) in corpus.sources.iter().zip(hashes).filter(|(source, _)| source.bytes > 0) {
        let content = match source.format {
            Format::Text => json!([hash]),
            Format::JsonLines | Format::Parquet if config.join_rows => {
                json!([hash, config.text_field, "joined"])
            }
            Format::JsonLines | Format::Parquet => json!([hash, config.text_field]),
        };
        match source.split {
            Some(split) => documents[split.index()].push(content),
            None if !corpus.by_shares() => documents[0].push(content),
            // The name of a document, which its file's begins, decides its split; that of the only file does not.
            None => {
                let name = if single { "" } else { &source.name };
                for (split, list) in Split::ALL.into_iter().zip(&mut documents) {
                    if of_split[split.index()] > 0.0 {
                        list.push(json!([split, corpus.shares, name, content]));
                    }
                }
            }
        }
    }
    let digest = |list: Vec<Value>| {
        (!list.is_empty()).then(|| file::sha256_of(Value::Array(list).to_string().as_bytes()))
    };
    documents.map(digest)
}
