//! Training a byte-level BPE tokenizer.

use crate::documents::{Documents, Event};
use crate::split::Split;
use crate::split_rule::SplitRule;
use crate::tokenizer::Tokenizer;
use longwave_core::{Error, Result};
use rayon::ThreadPoolBuilder;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{NormalizerWrapper, PostProcessorWrapper, TokenizerBuilder};

/// Trains a byte-level BPE tokenizer on the training split.
///
/// GPT-2's splitting into words, no space in front, all 256 bytes in the alphabet, no special tokens,
/// exactly `vocab_size` entries. The text streams through: only its different words are held in memory.
/// The result depends on the words and how often they occur, not on the number of threads. (The library
/// counts pairs in 32 bits: a pair must not occur more than 2 billion times.)
pub(crate) fn train(
    documents: &Documents<'_>,
    rule: &SplitRule,
    vocab_size: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<Tokenizer> {
    // Reading and progress stay on this thread; the trainer counts words on others. They are its own: this thread may be
    // the only one of the program's pool, and waits.
    let threads = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build();
    let threads = threads.map_err(|error| Error::failed(format!("threads cannot be started: {error}")))?;
    let (sender, receiver) = sync_channel::<String>(8);
    let json = thread::scope(|scope| {
        let train = || train_on(receiver.into_iter(), vocab_size);
        let trainer = scope.spawn(move || threads.install(train));
        let sent = send(documents, rule, sender, progress);
        let trained =
            trainer.join().map_err(|_| Error::failed("training the tokenizer stopped unexpectedly"))?;
        // Where both failed, the sender only noticed that the trainer had.
        trained.and_then(|json| sent.map(|sent| sent.then_some(json)))
    })?;
    // Of no text nothing can be learned: whoever wanted its tokens finds none, and says why.
    let Some(json) = json else { return Ok(Tokenizer::bytes()) };
    let tokenizer = Tokenizer::from_json(&json)?;
    if tokenizer.vocab_size() != vocab_size {
        let reached = tokenizer.vocab_size();
        let allowed = format!("the training text supports no more than {reached} entries");
        return Err(Error::value("data.tokenizer.vocab_size", vocab_size, allowed)
            .hint(format!("write `--set data.tokenizer.vocab_size={reached}`, or train on more text")));
    }
    Ok(tokenizer)
}

/// Sends the pieces of the training documents to the trainer, and says whether there is one.
fn send(
    documents: &Documents<'_>,
    rule: &SplitRule,
    sender: SyncSender<String>,
    progress: &mut dyn FnMut(u64),
) -> Result<bool> {
    let (mut done, mut any) = (0, false);
    let sent = documents.visit(rule, &[Split::Train], &mut |event| {
        match event {
            Event::Piece { name, start, bytes, .. } => {
                let text = text(name, start, bytes)?.to_owned();
                any |= !text.is_empty();
                sender.send(text).map_err(|_| Error::failed("the tokenizer's trainer stopped early"))?;
            }
            Event::Read(bytes) => {
                done += bytes;
                progress(done);
            }
            Event::End { .. } => {}
        }
        Ok(())
    });
    // The trainer goes on to its merges when no more text can come.
    drop(sender);
    sent.map(|_| any)
}

fn train_on(texts: impl Iterator<Item = String> + Send, vocab_size: usize) -> Result<String> {
    let byte_level = ByteLevel::new(false, true, true);
    let failed = |error: tokenizers::Error| Error::failed(format!("cannot train the tokenizer: {error}"));
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(vocab_size)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let mut tokenizer = TokenizerBuilder::<_, NormalizerWrapper, _, PostProcessorWrapper, _>::new()
        .with_model(BPE::default())
        .with_normalizer(None)
        .with_pre_tokenizer(Some(byte_level))
        .with_post_processor(None)
        .with_decoder(Some(byte_level))
        .build()
        .map_err(failed)?;
    tokenizer.train(&mut trainer, texts).map_err(failed)?;
    tokenizer.to_string(false).map_err(failed)
}

/// A piece of a document as text.
pub(crate) fn text<'a>(name: &str, start: u64, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = start + error.valid_up_to() as u64;
        Error::failed(format!("`{name}` is not valid UTF-8 at byte {at}, and the tokenizer reads text"))
            .hint("convert the file to UTF-8, or set `data.tokenizer = { kind = \"bytes\" }`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train_on_texts(texts: &[&str], vocab_size: usize) -> Result<Tokenizer> {
        let files = texts.iter().enumerate().map(|(index, text)| (format!("{index}.txt"), text));
        let folder = crate::testing::folder(&files.collect::<Vec<_>>());
        let config = crate::DataConfig::new(folder.path().to_str().unwrap());
        let corpus = crate::corpus::find(&config, "data.corpus")?;
        train(&Documents { corpus: &corpus, config: &config }, &SplitRule::Named, vocab_size, &mut |_| ())
    }

    #[test]
    fn learns_the_frequent_and_returns_every_text() {
        let tokenizer = train_on_texts(&["low low low lower", "lowest low"], 259).unwrap();
        assert_eq!(tokenizer.vocab_size(), 259);
        assert_eq!(tokenizer.encode("low").unwrap().len(), 1);
        for text in ["low lower", "  Käse\r\n\t日本 😀 's", "", "\u{0}\u{7f}\u{ad}"] {
            assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn the_same_text_gives_the_same_tokenizer() {
        let text = include_str!("tokenizer/mod.rs");
        let train = || train_on_texts(&[text, text, "more"], 600).unwrap().to_json().unwrap();
        let first = train();
        for _ in 0..3 {
            assert_eq!(train(), first);
        }
    }

    #[test]
    fn too_little_text_is_an_error() {
        let error = train_on_texts(&["abc"], 300).unwrap_err();
        assert!(error.message().contains("no more than 258 entries"), "{error}");
        assert!(error.hint_text().unwrap().contains("258"));
    }

    #[test]
    fn the_place_of_a_byte_that_is_no_text_is_named() {
        let error = text("a.txt", 100, b"ab\xffc").unwrap_err();
        assert!(error.message().contains("`a.txt` is not valid UTF-8 at byte 102"), "{error}");
    }
}
