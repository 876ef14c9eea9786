//! Something that stands out from filler and is asked for at the end.
//!
//! The key of `needle` may have company: with `distractors`, other keys stand among the filler, as in the multi-key tasks of
//! RULER (Hsieh et al. 2024, arXiv:2404.06654, section 3). A given `depth` puts what is asked for at that share of the
//! filler, as Liu et al. 2023 do ("Lost in the middle", arXiv:2307.03172).

use super::{Episode, LETTERS, TaskConfig, below, digit, distinct, letters};
use crate::embedded;
use longwave_core::random::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const SENTENCES: &[u8] = b"the grass is green. the sky is blue. the sun is yellow. ";
const TELL: &[u8] = b"the pass key is ";
const END: &[u8] = b". ";

/// Characters of a passkey sequence without filler and digits.
pub(super) const PASSKEY_TEXT: usize = 2 * TELL.len() + END.len();

/// What stands around what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filler {
    /// Random letters.
    Random,
    /// Passages of the State of the Union addresses.
    Text,
    /// `the grass is green. the sky is blue. the sun is yellow. `, again and again.
    Repeated,
}

/// What surrounds what is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hay {
    pub(super) filler: Filler,
    pub(super) depth: Option<f64>,
    pub(super) distractors: usize,
}

impl Hay {
    /// Tokens of a needle: `#` and a digit, and between them the name of the key where there are others.
    fn needle(self) -> usize {
        2 + usize::from(self.distractors > 0)
    }

    /// The least tokens of a sequence of `needle`: the needles, and the question with its answer.
    pub(super) fn shortest_needle(self) -> usize {
        self.needle() * (self.distractors + 2)
    }

    /// The place of what is asked for among `filler` tokens: one is drawn in any case, so that all else is alike at every depth.
    fn place(self, stream: &mut Stream, filler: usize) -> usize {
        let drawn = below(stream, filler + 1);
        self.depth.map_or(drawn, |depth| (depth * filler as f64).round() as usize)
    }

    fn text(self, stream: &mut Stream, count: usize) -> Vec<u8> {
        match self.filler {
            Filler::Random => letters(stream, count, LETTERS),
            Filler::Repeated => SENTENCES.iter().copied().cycle().take(count).collect(),
            Filler::Text => {
                let texts: Vec<&[u8]> = embedded::training_texts().collect();
                let text = texts[below(stream, texts.len())];
                let start = below(stream, text.len());
                // One text has the sign of a needle, and a letter of several bytes might be cut.
                let is_plain = |byte: u8| byte.is_ascii() && byte != b'#';
                let plain = |&byte: &u8| if is_plain(byte) { byte } else { b' ' };
                text.iter().map(plain).cycle().skip(start).take(count).collect()
            }
        }
    }
}

/// Filler, the key told somewhere in it, each place equally likely, and the question.
pub(super) fn passkey(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let (digits, hay) = (task.digits(), task.hay());
    let key: Vec<u8> = (0..digits).map(|_| digit(stream)).collect();
    let filler = tokens - PASSKEY_TEXT - 2 * digits;
    let before = hay.place(stream, filler);
    let [before, after] = [before, filler - before].map(|count| hay.text(stream, count));
    let prompt = [&before, TELL, &key, END, &after, TELL].concat();
    Episode::new(prompt, key)
}

/// Filler, with one `#` and its digit among it and the `#` again at the end; with distractors, other names after other `#`.
pub(super) fn needle(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let hay = task.hay();
    let filler = tokens - hay.shortest_needle();
    let text = hay.text(stream, filler);
    let mut needles = vec![(hay.place(stream, filler), digit(stream))];
    for _ in 0..hay.distractors {
        needles.push((below(stream, filler + 1), digit(stream)));
    }
    let names = distinct(stream, if hay.distractors > 0 { needles.len() } else { 0 }, LETTERS);
    let named = |index: usize| names.get(index).map(|&name| b'A' + name as u8);
    let value = needles[0].1;
    let mut order: Vec<usize> = (0..needles.len()).collect();
    order.sort_by_key(|&index| needles[index].0);
    let (mut prompt, mut written) = (Vec::with_capacity(tokens), 0);
    for index in order {
        let (place, value) = needles[index];
        prompt.extend_from_slice(&text[written..place]);
        prompt.extend([b'#'].into_iter().chain(named(index)).chain([value]));
        written = place;
    }
    prompt.extend_from_slice(&text[written..]);
    prompt.extend([b'#'].into_iter().chain(named(0)));
    Episode::new(prompt, [value])
}
