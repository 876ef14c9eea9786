//! Text to tokens and back.

mod bytes;
mod unread;

pub(crate) use bytes::{BYTES, TokenBytes};
pub use unread::Unread;

use bytes::{byte_level_lengths, bytes_by_offsets, bytes_json};
use longwave_core::{Error, Result, file};
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The most entries of a vocabulary: no model has as many embeddings.
pub(crate) const MAX_VOCABULARY: usize = 1 << 24;

/// Tokens of one piece of text, with the bytes of each where these depend on the place.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) ids: Vec<u32>,
    pub(crate) bytes: Option<Vec<u32>>,
    /// The tokens whose bytes hold some that the tokenizer does not know or leaves out, by their places, and how many.
    pub(crate) by_token: Vec<(usize, u32)>,
    pub(crate) unread: Unread,
}

#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// `None` of bytes, which are their own tokens.
    model: Option<Arc<Model>>,
}

#[derive(Debug)]
struct Model {
    inner: tokenizers::Tokenizer,
    vocab_size: usize,
    token_bytes: TokenBytes,
    unknown: Option<u32>,
    /// Whether its normalizer may take characters away.
    may_delete: bool,
    /// What its normalizer makes equal.
    merged: Vec<&'static str>,
    /// Whether its decoder makes characters of tokens that are bytes.
    joins_bytes: bool,
}

impl Tokenizer {
    /// One token per byte; the id is the byte.
    pub fn bytes() -> Self {
        Self { model: None }
    }

    /// Reads a `tokenizer.json` (as written by [`Tokenizer::save`] or any other program). What would make
    /// its tokens depend on more than the text is switched off: truncation, padding, dropout.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_json(&file::read_text(path)?).map_err(|error| {
            error
                .context(format!("cannot read the tokenizer `{}`", path.display()))
                .hint("it must be a tokenizer.json as the `tokenizers` library writes it")
        })
    }

    /// Reads the `tokenizer.json` of a run's folder, whose SHA-256 is known since the run was trained.
    pub fn of_run(folder: &Path, sha256: Option<&str>) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        if sha256.is_some_and(|expected| file::sha256(&path).is_ok_and(|found| found != expected)) {
            return Err(Error::failed(format!("`{}` has changed since the run was trained", path.display()))
                .hint("bring the old file back; `longwave train` with `--resume` writes it again, where the run was trained here"));
        }
        Self::load(&path)
    }

    /// Reads the content of a `tokenizer.json`.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Error::failed(error.to_string());
        let mut json: Value = serde_json::from_str(text).map_err(|error| failed(&error))?;
        if json == bytes_json() {
            return Ok(Self::bytes());
        }
        let Some(object) = json.as_object_mut() else { return Err(failed(&"it is not a JSON object")) };
        object.insert("truncation".to_owned(), Value::Null);
        object.insert("padding".to_owned(), Value::Null);
        if let Some(dropout) = object.get_mut("model").and_then(|model| model.get_mut("dropout")) {
            *dropout = Value::Null;
        }
        let text = json.to_string();
        let inner = guarded(|| tokenizers::Tokenizer::from_bytes(text.as_bytes()))?
            .map_err(|error| failed(&error))?;
        let vocab_size = inner.get_vocab(true).values().max().map_or(0, |&id| id as usize + 1);
        if vocab_size == 0 {
            return Err(failed(&"its vocabulary is empty"));
        }
        if vocab_size > MAX_VOCABULARY {
            let largest = vocab_size - 1;
            return Err(failed(&format!("it has the id {largest}, and ids go up to {}", MAX_VOCABULARY - 1)));
        }
        let token_bytes = byte_level_lengths(&json, vocab_size).map_or(TokenBytes::ByPlace, TokenBytes::ById);
        let of_word = json["model"]["unk_token"].as_str().and_then(|word| inner.token_to_id(word));
        let unknown = of_word.or_else(|| u32::try_from(json["model"]["unk_id"].as_u64()?).ok());
        let normalizer = &json["normalizer"];
        let (may_delete, merged) = (unread::may_delete(normalizer), unread::merged(normalizer));
        let joins_bytes = bytes::joins(&json["decoder"]);
        let model = Model { inner, vocab_size, token_bytes, unknown, may_delete, merged, joins_bytes };
        Ok(Self { model: Some(Arc::new(model)) })
    }

    /// Number of ids: one more than the largest.
    pub fn vocab_size(&self) -> usize {
        self.model.as_ref().map_or(BYTES, |model| model.vocab_size)
    }

    /// The token that stands for every piece of text that the tokenizer does not know.
    pub fn unknown(&self) -> Option<u32> {
        self.model.as_ref()?.unknown
    }

    /// The ids that have a token, in order: a vocabulary may have gaps.
    pub fn ids(&self) -> Vec<u32> {
        let Some(model) = &self.model else { return (0..BYTES as u32).collect() };
        let mut ids: Vec<u32> = model.inner.get_vocab(true).into_values().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The id of a token, written as its tokenizer has it; a special one too.
    pub fn id(&self, token: &str) -> Option<u32> {
        match (&self.model, token.as_bytes()) {
            (Some(model), _) => model.inner.token_to_id(token),
            (None, [byte]) => Some(u32::from(*byte)),
            (None, _) => None,
        }
    }

    /// The token with which `data.bos` says that texts begin.
    pub fn bos(&self, token: &str) -> Result<Option<u32>> {
        if token.is_empty() {
            return Ok(None);
        }
        self.id(token).map(Some).ok_or_else(|| {
            Error::value("data.bos", format!("{token:?}"), "the tokenizer has no such token")
                .hint("name a token as tokenizer.json writes it, such as `<s>`, or leave the key out")
        })
    }

    /// The tokens of a text. Nothing is added at its ends, whatever the tokenizer would add there.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let Some(model) = &self.model else { return Ok(text.bytes().map(u32::from).collect()) };
        let encoding = guarded(|| model.inner.encode_fast(text, false))?;
        Ok(encoding.map_err(|error| cannot_encode(&error))?.get_ids().to_vec())
    }

    /// What the tokenizer makes equal though a reader tells it apart, in words.
    pub(crate) fn merged(&self) -> &[&'static str] {
        self.model.as_ref().map_or(&[], |model| &model.merged)
    }

    /// How much of a text its tokens do not stand for.
    pub fn unread(&self, text: &str) -> Result<Unread> {
        let encoded = self.encode_all(&[text.to_owned()])?;
        Ok(encoded.first().map(|encoded| encoded.unread).unwrap_or_default())
    }

    /// The text of tokens. Bytes that are no UTF-8 (a cut character) become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let size = self.vocab_size();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= size) {
            return Err(Error::failed(format!("token {id} is not in the vocabulary of {size} entries"))
                .hint("the tokens come from another tokenizer"));
        }
        let Some(model) = &self.model else {
            let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        };
        guarded(|| model.inner.decode(ids, false))?.map_err(|error| Error::failed(error.to_string()))
    }

    /// Whether a token is a byte, which the decoder joins with the bytes beside it: they are one text, and none of it is certain
    /// before the last of them.
    pub(crate) fn is_joined_byte(&self, id: u32) -> bool {
        let joining = self.model.as_ref().filter(|model| model.joins_bytes);
        joining.and_then(|model| model.inner.id_to_token(id)).is_some_and(|token| bytes::is_byte(&token))
    }

    /// Writes a `tokenizer.json` that [`Tokenizer::load`] and the `tokenizers` library read.
    pub fn save(&self, path: &Path) -> Result<()> {
        file::write(path, self.to_json()?.as_bytes())
    }

    /// The content of the `tokenizer.json` that [`Tokenizer::save`] writes.
    pub fn to_json(&self) -> Result<String> {
        match &self.model {
            None => Ok(format!("{:#}", bytes_json())),
            Some(model) => model.inner.to_string(true).map_err(|error| Error::failed(error.to_string())),
        }
    }

    /// Whether documents must be UTF-8.
    pub(crate) fn needs_text(&self) -> bool {
        self.model.is_some()
    }

    pub(crate) fn token_bytes(&self) -> TokenBytes {
        self.model.as_ref().map_or(TokenBytes::One, |model| model.token_bytes.clone())
    }

    /// The tokens of several texts, computed in parallel.
    pub(crate) fn encode_all(&self, texts: &[String]) -> Result<Vec<Encoded>> {
        let Some(model) = &self.model else {
            return Ok(texts.iter().map(|text| Encoded::of_bytes(text.as_bytes())).collect());
        };
        let inputs: Vec<&str> = texts.iter().map(String::as_str).collect();
        let by_place = matches!(model.token_bytes, TokenBytes::ByPlace);
        let encodings = guarded(|| {
            if by_place {
                model.inner.encode_batch(inputs, false)
            } else {
                model.inner.encode_batch_fast(inputs, false)
            }
        })?;
        let encoded = |(encoding, text): (tokenizers::Encoding, &String)| {
            if by_place {
                return model.encoded(&encoding, text);
            }
            let unread = Unread { bytes: text.len() as u64, ..Unread::default() };
            Encoded { ids: encoding.get_ids().to_vec(), unread, ..Encoded::default() }
        };
        let encodings = encodings.map_err(|error| cannot_encode(&error))?;
        // A normalizer is called once more there.
        guarded(|| encodings.into_iter().zip(texts).map(encoded).collect())
    }
}

impl Encoded {
    /// One token per byte.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let unread = Unread { bytes: bytes.len() as u64, ..Unread::default() };
        Self { ids: bytes.iter().copied().map(u32::from).collect(), unread, ..Self::default() }
    }
}

impl Model {
    /// The tokens of a text whose places tell what each stands for.
    fn encoded(&self, encoding: &tokenizers::Encoding, text: &str) -> Encoded {
        let (ids, offsets) = (encoding.get_ids().to_vec(), encoding.get_offsets());
        let bytes = bytes_by_offsets(offsets, text.len());
        let unknown = unread::unknown(offsets, &bytes, |token| Some(ids[token]) == self.unknown);
        let mut lost = unread::lost(text, offsets, self.inner.get_normalizer(), self.may_delete);
        // What the unknown token stands for counts once.
        lost.retain(|range| !unread::holds(&unknown, range.start));
        let sum = |ranges: &[Range<usize>]| ranges.iter().map(|range| range.len() as u64).sum::<u64>();
        let unread = Unread { bytes: text.len() as u64, unknown: sum(&unknown), lost: sum(&lost) };
        let mut all = [unknown, lost].concat();
        all.sort_unstable_by_key(|range| range.start);
        Encoded { ids, by_token: unread::by_token(&all, &bytes), bytes: Some(bytes), unread }
    }
}

fn guarded<T>(call: impl FnOnce() -> T) -> Result<T> {
    crate::guarded::guarded("tokenizers", call)
        .map_err(|error| error.hint("write the tokenizer.json again with the `tokenizers` library"))
}

fn cannot_encode(error: &tokenizers::Error) -> Error {
    Error::failed(format!("the tokenizer cannot encode the text: {error}"))
        .hint("a byte-level tokenizer (`bytes` or `bpe`) encodes every text")
}

#[cfg(test)]
mod tests {
    use super::bytes::byte_character;
    use super::*;
    use crate::testing::tokenizer;
    use serde_json::json;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    const TEXT: &str = "Der Käse, 日本 😀\n\n  x";

    #[test]
    fn bytes_are_their_own_ids() {
        let tokenizer = Tokenizer::bytes();
        let ids = tokenizer.encode(TEXT).unwrap();
        assert_eq!(ids, TEXT.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!(tokenizer.decode(&ids).unwrap(), TEXT);
        assert_eq!(tokenizer.decode(&[0xff, 0x41]).unwrap(), "\u{fffd}A");
        let error = tokenizer.decode(&[256]).unwrap_err();
        assert!(error.message().contains("token 256 is not in the vocabulary of 256"), "{error}");
    }

    #[test]
    fn the_saved_byte_tokenizer_is_one_for_the_library_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        Tokenizer::bytes().save(&path).unwrap();
        let library = tokenizers::Tokenizer::from_file(&path).unwrap();
        let ids = library.encode(TEXT, false).unwrap().get_ids().to_vec();
        assert_eq!(ids, Tokenizer::bytes().encode(TEXT).unwrap());
        assert_eq!(library.decode(&ids, false).unwrap(), TEXT);
        assert!(Tokenizer::load(&path).unwrap().model.is_none());
        let alphabet = ByteLevel::alphabet();
        assert!((0..=255).all(|byte| alphabet.contains(&byte_character(byte))));
    }

    /// A word-level tokenizer that lower-cases, pads and truncates.
    fn word_level() -> Value {
        json!({
            "truncation": { "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 },
            "padding": { "strategy": { "Fixed": 9 }, "direction": "Right", "pad_to_multiple_of": null,
                         "pad_id": 0, "pad_type_id": 0, "pad_token": "[UNK]" },
            "normalizer": { "type": "Lowercase" }, "pre_tokenizer": { "type": "Whitespace" },
            "model": { "type": "WordLevel", "vocab": { "[UNK]": 0, "käse": 1, "und": 5 }, "unk_token": "[UNK]" },
        })
    }

    #[test]
    fn any_tokenizer_of_the_library_is_read() {
        let tokenizer = Tokenizer::from_json(&tokenizer(word_level()).to_string()).unwrap();
        assert_eq!(tokenizer.vocab_size(), 6);
        assert_eq!(tokenizer.encode("Käse und  Brot ").unwrap(), [1, 5, 0]);
        let encoded = tokenizer.encode_all(&["  Käse und  Brot ".to_owned()]).unwrap();
        assert_eq!(encoded[0].ids, [1, 5, 0]);
        assert_eq!(encoded[0].bytes.as_deref(), Some([8, 5, 5].as_slice()));
        assert_eq!(tokenizer.decode(&[1, 5]).unwrap(), "käse und");
    }

    #[test]
    fn what_is_no_tokenizer_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        assert!(Tokenizer::load(&path).unwrap_err().message().contains("no such file"));
        for text in ["{", "[]", "{\"a\": 1}"] {
            std::fs::write(&path, text).unwrap();
            let error = Tokenizer::load(&path).unwrap_err();
            assert!(error.message().contains("cannot read the tokenizer"), "{error}");
            assert!(error.hint_text().is_some());
        }
    }
}
