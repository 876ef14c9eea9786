//! Changes of an input, drawn at random.

use longwave_core::random::Stream;
use std::collections::BTreeSet;

/// Inputs do not grow beyond so many bytes.
const MOST: usize = 1 << 18;

/// Numbers at which something may overflow, as texts of configs and JSON have them.
const NUMBERS: [&str; 30] = [
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "255",
    "256",
    "65535",
    "65536",
    "16777216",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "-1e300",
    "1e-300",
    "1e400",
    "0.5",
    "1.0000000001",
    "nan",
    "inf",
    "null",
];

/// Words that mean something to many readers.
const WORDS: [&str; 16] = [
    "\"1e300L\"",
    "\"0L\"",
    "\"L/0\"",
    "\"2L\"",
    "[]",
    "{}",
    "[[]]",
    "true",
    "false",
    "\"\"",
    "\"../../x\"",
    "\"/dev/zero\"",
    "\"\\u0000\"",
    "\"\u{202e}\"",
    "{ kind = \"rope\" }",
    "0x7fffffffffffffff",
];

/// The words of inputs, of which changes take some.
#[derive(Debug)]
pub(crate) struct Dictionary(Vec<Vec<u8>>);

impl Dictionary {
    pub(crate) fn of(inputs: &[Vec<u8>]) -> Self {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let words = inputs.iter().flat_map(|input| input.split(|byte| !is_part(byte)));
        let words: BTreeSet<&[u8]> = words.filter(|word| (1..40).contains(&word.len())).collect();
        let general = NUMBERS.iter().chain(&WORDS).map(|word| word.as_bytes().to_vec());
        Self(words.into_iter().take(4096).map(<[u8]>::to_vec).chain(general).collect())
    }
}

fn below(stream: &mut Stream, bound: usize) -> usize {
    stream.below(bound.max(1) as u64) as usize
}

fn one_of<'a, T>(stream: &mut Stream, among: &'a [T]) -> &'a T {
    &among[below(stream, among.len())]
}

/// An input, changed in one to eight places.
pub(crate) fn mutate(stream: &mut Stream, seeds: &[Vec<u8>], words: &Dictionary, is_text: bool) -> Vec<u8> {
    let mut input = one_of(stream, seeds).clone();
    let changes = 1 + (stream.bits() | 1 << 7).trailing_zeros();
    for _ in 0..changes {
        if is_text && stream.below(8) > 0 {
            change_text(stream, &mut input, seeds, words);
        } else {
            change_bytes(stream, &mut input, seeds);
        }
        input.truncate(MOST);
    }
    input
}

/// Changes that leave most of the words whole.
fn change_text(stream: &mut Stream, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &Dictionary) {
    match stream.below(11) {
        0..4 => {
            let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+');
            replace(stream, input, is_number, one_of_texts);
        }
        4..6 => {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            replace(stream, input, is_word, |stream| one_of(stream, &words.0).clone());
        }
        6 => {
            let word =
                if stream.below(2) == 0 { one_of(stream, &words.0).clone() } else { one_of_texts(stream) };
            let at = below(stream, input.len() + 1);
            input.splice(at..at, word);
        }
        7 => {
            // A line of this or another input takes the place of one, or stands before it.
            let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
            let others: Vec<&[u8]> = one_of(stream, seeds).split(|byte| *byte == b'\n').collect();
            let (at, other) = (below(stream, lines.len()), *one_of(stream, &others));
            let mut lines: Vec<&[u8]> = lines;
            match stream.below(3) {
                0 => lines[at] = other,
                1 => lines.insert(at, other),
                _ => drop(lines.remove(at)),
            }
            *input = lines.join(&b'\n');
        }
        8 => {
            let open = one_of(stream, &["[", "{\"a\":", "(", "{a=", "-", "1+", "exp("]).as_bytes();
            let depth = 1 << stream.below(15);
            let at = below(stream, input.len() + 1);
            input.splice(at..at, open.repeat(depth));
        }
        9 => {
            // A value in brackets, quotes or braces goes to another place.
            let (from, to) = (below(stream, input.len()), below(stream, input.len() + 1));
            let piece = input[from..(from + 1 + below(stream, 80)).min(input.len())].to_vec();
            input.splice(to..to, piece);
        }
        _ => change_bytes(stream, input, seeds),
    }
}

fn one_of_texts(stream: &mut Stream) -> Vec<u8> {
    match stream.below(6) {
        0 => one_of(stream, &WORDS).as_bytes().to_vec(),
        1 => (1u64 << stream.below(64)).to_string().into_bytes(),
        2 => {
            format!("{:e}", (stream.uniform() - 0.5) * 10f64.powi(stream.below(80) as i32 - 40)).into_bytes()
        }
        _ => one_of(stream, &NUMBERS).as_bytes().to_vec(),
    }
}

/// Puts another word in the place of one.
fn replace(
    stream: &mut Stream,
    input: &mut Vec<u8>,
    is_part: impl Fn(u8) -> bool,
    word: impl FnOnce(&mut Stream) -> Vec<u8>,
) {
    let start = below(stream, input.len());
    let Some(first) = input[start..].iter().position(|byte| is_part(*byte)) else { return };
    let first =
        start + first - input[..start + first].iter().rev().take_while(|byte| is_part(**byte)).count();
    let end = first + input[first..].iter().take_while(|byte| is_part(**byte)).count();
    input.splice(first..end, word(stream));
}

fn change_bytes(stream: &mut Stream, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    // Headers are small and say most.
    let reach = if stream.below(3) == 0 { input.len().min(64) } else { input.len() };
    let at = below(stream, reach);
    let longest = 1 << stream.below(12);
    let end = (at + 1 + below(stream, longest)).min(input.len());
    match stream.below(8) {
        _ if input.is_empty() => input.push(stream.bits() as u8),
        0 | 1 => input[at] ^= 1 << stream.below(8),
        2 => input[at] = stream.bits() as u8,
        3 => drop(input.drain(at..end)),
        4 => input.truncate(at),
        5 => {
            let piece = input[at..end].to_vec();
            let to = below(stream, input.len());
            input.splice(to..to, piece);
        }
        6 => {
            let other = one_of(stream, seeds);
            let from = below(stream, other.len());
            let until = (from + 1 + below(stream, 256)).min(other.len());
            let piece = other.get(from..until).unwrap_or_default().to_vec();
            input.splice(at..at, piece);
        }
        _ => {
            let number = match stream.below(4) {
                0 => u64::MAX >> stream.below(64),
                1 => 1 << stream.below(64),
                2 => stream.below(1 << 20),
                _ => (input.len() as u64 + stream.below(17)).saturating_sub(8),
            };
            let bytes = number.to_le_bytes();
            let width = (1 << stream.below(4)).min(input.len() - at);
            input[at..at + width].copy_from_slice(&bytes[..width]);
        }
    }
}
