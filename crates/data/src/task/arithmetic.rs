//! Sums and products, modulo 5 or binary.

use super::{Episode, TaskConfig, below};
use longwave_core::random::Stream;

const MODULUS: usize = 5;

fn digit(value: usize) -> u8 {
    b'0' + value as u8
}

/// One digit of the modulus.
fn draw(stream: &mut Stream) -> usize {
    below(stream, MODULUS)
}

/// What an operation of `operators` makes of two values.
fn apply(operator: u8, left: usize, right: usize) -> usize {
    match operator {
        b'+' => (left + right) % MODULUS,
        b'-' => (left + MODULUS - right) % MODULUS,
        _ => left * right % MODULUS,
    }
}

/// `1+2*3=2`: products before sums, from left to right.
pub(super) fn modular(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    // Operands and the operators between them, `=` and the answer.
    let operands = (tokens - 1) / 2;
    let mut product = draw(stream);
    let mut prompt = vec![digit(product)];
    let (mut sum, mut sign) = (0, b'+');
    for _ in 1..operands {
        let (operator, value) = (b"+-*"[below(stream, 3)], draw(stream));
        prompt.extend([operator, digit(value)]);
        if operator == b'*' {
            product = apply(b'*', product, value);
        } else {
            sum = apply(sign, sum, product);
            (product, sign) = (value, operator);
        }
    }
    sum = apply(sign, sum, product);
    prompt.push(b'=');
    Episode::new(prompt, [digit(sum)])
}

/// A bracketed expression of `length` characters, and its value.
fn expression(stream: &mut Stream, length: usize, operators: &[u8], text: &mut Vec<u8>) -> usize {
    if length < 5 {
        let value = draw(stream);
        let (minus, brackets) = (length.is_multiple_of(2), length > 2);
        text.extend(b"(".iter().filter(|_| brackets));
        text.extend(b"-".iter().filter(|_| minus));
        text.push(digit(value));
        text.extend(b")".iter().filter(|_| brackets));
        return if minus { apply(b'-', 0, value) } else { value };
    }
    // Two brackets, an operator and two parts of at least one character.
    let left_length = 1 + below(stream, length - 4);
    text.push(b'(');
    let left = expression(stream, left_length, operators, text);
    let operator = operators[below(stream, operators.len())];
    text.push(operator);
    let right = expression(stream, length - 3 - left_length, operators, text);
    text.push(b')');
    apply(operator, left, right)
}

pub(super) fn brackets(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let mut prompt = Vec::new();
    let value = expression(stream, tokens - 2, b"+-*", &mut prompt);
    prompt.push(b'=');
    Episode::new(prompt, [digit(value)])
}

pub(super) fn equation(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let mut prompt = Vec::new();
    let value = expression(stream, tokens - 4, b"+-", &mut prompt);
    let places: Vec<usize> = (0..prompt.len()).filter(|&place| prompt[place].is_ascii_digit()).collect();
    let unknown = places[below(stream, places.len())];
    let answer = std::mem::replace(&mut prompt[unknown], b'x');
    prompt.extend([b'=', digit(value), b':']);
    Episode::new(prompt, [answer])
}

fn bits(stream: &mut Stream, count: usize) -> Vec<u8> {
    (0..count).map(|_| below(stream, 2) as u8).collect()
}

fn written(bits: &[u8]) -> Vec<u8> {
    bits.iter().map(|bit| b'0' + bit).collect()
}

/// Two numbers of `count` digits and what is made of them, least digit first.
fn binary(a: &[u8], operator: u8, b: &[u8], answer: &[u8]) -> Episode {
    Episode::new([written(a), vec![operator], written(b), b"=".to_vec()].concat(), written(answer))
}

pub(super) fn addition(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let count = (tokens - 3) / 3;
    let (a, b) = (bits(stream, count), bits(stream, count));
    let mut carry = 0;
    let mut sum: Vec<u8> = a
        .iter()
        .zip(&b)
        .map(|(a, b)| {
            let digit = a + b + carry;
            carry = digit / 2;
            digit % 2
        })
        .collect();
    sum.push(carry);
    binary(&a, b'+', &b, &sum)
}

pub(super) fn multiplication(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let count = (tokens - 2) / 4;
    let (a, b) = (bits(stream, count), bits(stream, count));
    let mut columns = vec![0usize; 2 * count];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            columns[i + j] += usize::from(x & y);
        }
    }
    let mut carry = 0;
    let product: Vec<u8> = columns
        .iter()
        .map(|column| {
            let digit = column + carry;
            carry = digit / 2;
            (digit % 2) as u8
        })
        .collect();
    binary(&a, b'*', &b, &product)
}

/// The whole root, digit by digit from the largest, as on paper.
pub(super) fn root(_: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    // A number of n digits has a root of half as many, rounded up.
    let count = (tokens - 1) * 2 / 3;
    let mut number = bits(stream, count);
    number[0] = 1;
    Episode::new([written(&number), b"=".to_vec()].concat(), written(&square_root(&number)))
}

/// Largest digit first, both.
fn square_root(number: &[u8]) -> Vec<u8> {
    let padded = [vec![0; number.len() % 2], number.to_vec()].concat();
    let (mut root, mut rest): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    for pair in padded.chunks(2) {
        rest.extend(pair);
        // Twice the root so far, and a 1 after it: what the next digit takes from the rest if it is 1.
        let taken = [root.as_slice(), &[0, 1]].concat();
        match subtract(&rest, &taken) {
            Some(less) => {
                rest = less;
                root.push(1);
            }
            None => root.push(0),
        }
    }
    root
}

/// `a - b`, largest digit first; `None` where that is below zero.
fn subtract(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let mut digits = a.to_vec();
    let mut borrow = 0;
    for place in 0..a.len().max(b.len()) {
        let of = |digits: &[u8]| digits.len().checked_sub(place + 1).map_or(0, |index| digits[index]);
        let (x, y) = (of(a), of(b) + borrow);
        borrow = u8::from(x < y);
        if let Some(index) = a.len().checked_sub(place + 1) {
            digits[index] = x + 2 * borrow - y;
        } else if y > 0 {
            return None;
        }
    }
    (borrow == 0).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_whole_roots() {
        for number in 1u32..2000 {
            let count = 32 - number.leading_zeros();
            let digits: Vec<u8> = (0..count).rev().map(|place| (number >> place & 1) as u8).collect();
            let root = square_root(&digits).iter().fold(0, |value, &digit| 2 * value + u32::from(digit));
            assert_eq!(root, number.isqrt(), "{number}");
        }
    }
}
