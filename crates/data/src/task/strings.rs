//! Strings copied, turned round, sorted and looked at.

use super::{Episode, TaskConfig, below, letters};
use longwave_core::random::Stream;

/// `=` between what is given and what is wanted.
fn episode(given: Vec<u8>, wanted: Vec<u8>) -> Episode {
    Episode::new([given, b"=".to_vec()].concat(), wanted)
}

/// A string whose answer is as long as itself.
fn same_length(
    task: &TaskConfig,
    stream: &mut Stream,
    tokens: usize,
    answer: impl Fn(&[u8]) -> Vec<u8>,
) -> Episode {
    let string = letters(stream, (tokens - 1) / 2, task.symbols());
    let wanted = answer(&string);
    episode(string, wanted)
}

pub(super) fn copy(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    same_length(task, stream, tokens, <[u8]>::to_vec)
}

pub(super) fn duplicate(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let string = letters(stream, (tokens - 1) / 3, task.symbols());
    let wanted = string.repeat(2);
    episode(string, wanted)
}

pub(super) fn reverse(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    same_length(task, stream, tokens, |string| string.iter().rev().copied().collect())
}

pub(super) fn odds_first(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    same_length(task, stream, tokens, |string| {
        let (odd, even) = (string.iter().step_by(2), string.iter().skip(1).step_by(2));
        odd.chain(even).copied().collect()
    })
}

pub(super) fn bucket_sort(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    same_length(task, stream, tokens, |string| {
        let mut sorted = string.to_vec();
        sorted.sort_unstable();
        sorted
    })
}

pub(super) fn missing_duplicate(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let string = letters(stream, (tokens - 2) / 2, task.symbols());
    let place = string.len() + below(stream, string.len());
    let mut given = string.repeat(2);
    let missing = std::mem::replace(&mut given[place], b'?');
    episode(given, vec![missing])
}

/// A string of `a` and `b` and a yes or no about it.
fn decided(stream: &mut Stream, tokens: usize, answer: impl Fn(&[u8]) -> bool) -> Episode {
    let string = letters(stream, tokens - 2, 2);
    let wanted = vec![b'0' + u8::from(answer(&string))];
    episode(string, wanted)
}

pub(super) fn even_pairs(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    decided(stream, tokens, |string| string.first() == string.last())
}

pub(super) fn parity(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    decided(stream, tokens, |string| string.iter().fold(true, |even, &letter| even != (letter == b'b')))
}

pub(super) fn cycle(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let moves: Vec<usize> = (0..tokens - 2).map(|_| below(stream, 3)).collect();
    // 0 stays, 1 goes forward, 2 backward: four steps forward on a circle of five.
    let place = moves.iter().map(|step| [0, 1, 4][*step]).sum::<usize>() % 5;
    episode(moves.iter().map(|step| b"0+-"[*step]).collect(), vec![b'0' + place as u8])
}

/// The prompt has the stack, a bar and as many actions; the answer has room for a stack that only grew.
pub(super) fn stack(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let both = (tokens - 3) / 2;
    let actions = 1 + below(stream, both);
    let mut stack = letters(stream, both - actions, 2);
    let mut given = stack.clone();
    given.push(b'|');
    for _ in 0..actions {
        let action = b"-AB"[below(stream, 3)];
        given.push(action);
        if action == b'-' {
            // Popping an empty stack leaves it empty.
            stack.pop();
        } else {
            stack.push(action);
        }
    }
    stack.reverse();
    // The end is part of the answer: otherwise an empty stack would have none.
    stack.push(b'.');
    episode(given, stack)
}
