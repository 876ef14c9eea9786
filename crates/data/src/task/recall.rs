//! Something said once, asked for at the end.

use super::{Episode, TaskConfig, below, digit, letters};
use longwave_core::random::Stream;

/// Random letters; the last one occurs once before, and what followed it then follows again.
pub(super) fn induction(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let alphabet = task.symbols();
    let query = below(stream, alphabet) as u8;
    // The other letters: one less, those from the query on moved up by one.
    let mut prompt = letters(stream, tokens - 2, alphabet - 1);
    for letter in &mut prompt {
        *letter += u8::from(*letter - b'a' >= query);
    }
    let place = below(stream, prompt.len() - 1);
    prompt[place] = b'a' + query;
    let answer = prompt[place + 1];
    prompt.push(b'a' + query);
    Episode::new(prompt, [answer])
}

pub(super) fn fixed_offset(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let mut prompt = letters(stream, tokens - 2, task.symbols());
    let answer = prompt[prompt.len() - task.offset()];
    prompt.push(b'=');
    Episode::new(prompt, [answer])
}

/// Tokens of a pair of `assoc_recall`: a key of two letters, a digit and a space.
const PAIR: usize = 4;

/// Pairs that fit into a sequence of `assoc_recall`; the question and its answer take as many tokens.
pub(super) fn pairs(tokens: usize) -> usize {
    tokens / PAIR - 1
}

/// Tokens of a sequence of so many pairs, and those that hold no further one.
pub(super) fn tokens(pairs: usize) -> usize {
    (pairs + 2) * PAIR - 1
}

/// Different keys of two letters.
pub(super) fn most_pairs(alphabet: usize) -> usize {
    alphabet * alphabet
}

/// Pairs, and the question of one. A given `depth` asks for the pair at that share of the way, others being alike.
pub(super) fn assoc(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let (count, alphabet) = (pairs(tokens), task.symbols());
    // The beginning of a shuffle: different keys, each choice equally likely.
    let mut keys: Vec<usize> = (0..most_pairs(alphabet)).collect();
    let mut prompt = Vec::with_capacity(tokens);
    let mut told = Vec::with_capacity(count);
    for index in 0..count {
        let other = index + below(stream, keys.len() - index);
        keys.swap(index, other);
        let key = [b'a' + (keys[index] / alphabet) as u8, b'a' + (keys[index] % alphabet) as u8];
        let value = digit(stream);
        prompt.extend([key[0], key[1], value, b' ']);
        told.push((key, value));
    }
    let drawn = below(stream, count);
    let asked = task.depth.map_or(drawn, |depth| (depth * (count - 1) as f64).round() as usize);
    let (key, value) = told[asked];
    prompt.extend([b'?', key[0], key[1]]);
    Episode::new(prompt, [value])
}

pub(super) fn dup_key(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let alphabet = task.symbols();
    let mut told: Vec<Option<u8>> = vec![None; alphabet];
    let mut prompt = Vec::with_capacity(tokens);
    for _ in 0..(tokens - 3) / 2 {
        let (key, value) = (below(stream, alphabet), digit(stream));
        prompt.extend([b'a' + key as u8, value]);
        told[key] = Some(value);
    }
    let known: Vec<(u8, u8)> =
        (b'a'..).zip(&told).filter_map(|(key, value)| value.map(|value| (key, value))).collect();
    let (key, value) = known[below(stream, known.len())];
    prompt.extend([b'?', key]);
    Episode::new(prompt, [value])
}
