//! Symbols picked from many by what they are, or by where they stand.

use super::{Episode, TaskConfig, below, chosen, digit, letters};
use longwave_core::random::Stream;

/// Letters at random places among blanks, and the same letters in their order.
pub(super) fn selective_copy(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let items = task.items();
    let wanted = letters(stream, items, task.symbols());
    let mut prompt = vec![b'.'; tokens - 1 - items];
    for (&letter, place) in wanted.iter().zip(chosen(stream, items, prompt.len())) {
        prompt[place] = letter;
    }
    prompt.push(b'=');
    Episode::new(prompt, wanted)
}

/// Pairs of a letter and a digit, and the digit of the largest letter. That letter is drawn first and the others below it, so that
/// there is one, and that a longer text does not make it larger.
pub(super) fn argmax(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let count = (tokens - 2) / 2;
    let (largest, place) = (1 + below(stream, task.symbols() - 1), below(stream, count));
    let (mut prompt, mut answer) = (Vec::with_capacity(tokens), 0);
    for index in 0..count {
        let (lesser, class) = (below(stream, largest), digit(stream));
        let letter = if index == place { largest } else { lesser };
        prompt.extend([b'a' + letter as u8, class]);
        if index == place {
            answer = class;
        }
    }
    prompt.push(b'=');
    Episode::new(prompt, [answer])
}

/// Symbols, each followed by the one `offset` symbols before it; by `.` where there is none yet.
pub(super) fn n_back(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let (symbols, offset) = (letters(stream, tokens / 2, task.symbols()), task.offset());
    let (mut text, mut answers) = (Vec::with_capacity(tokens), Vec::new());
    for (index, &symbol) in symbols.iter().enumerate() {
        text.push(symbol);
        if index >= offset {
            answers.push(text.len()..text.len() + 1);
        }
        text.push(index.checked_sub(offset).map_or(b'.', |before| symbols[before]));
    }
    Episode { tokens: text, answers }
}
