//! What a bit or a name stands for by now.

use super::{Episode, TaskConfig, below, chosen, digit, distinct};
use longwave_core::random::Stream;
use longwave_core::{Error, Result};

/// Between the statements about names.
const BLANK: u8 = b'.';
/// Tokens of a statement about a name: `b=a;`.
const STATEMENT: usize = 4;

/// Pairs of an instruction and a bit. The first one writes and the last one reads; the others are drawn for themselves, as in
/// Liu et al. 2023 (arXiv:2306.00946, definition of FFL): `ignore` with its chance, and `w` and `r` with half the rest each.
pub(super) fn flip_flop(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let (count, ignore) = (tokens / 2, task.ignore());
    let (mut text, mut answers, mut written) = (Vec::with_capacity(tokens), Vec::new(), b'0');
    for index in 0..count {
        let drawn = stream.uniform();
        let bit = b'0' + below(stream, 2) as u8;
        let instruction = match index {
            0 => b'w',
            _ if index + 1 == count => b'r',
            _ if drawn < ignore => b'i',
            _ if drawn < f64::midpoint(ignore, 1.0) => b'w',
            _ => b'r',
        };
        if instruction == b'w' {
            written = bit;
        }
        text.push(instruction);
        if instruction == b'r' {
            answers.push(text.len()..text.len() + 1);
        }
        text.push(if instruction == b'r' { written } else { bit });
    }
    Episode { tokens: text, answers }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Chains {
    pub(super) count: usize,
    pub(super) hops: usize,
    /// Names there are.
    pub(super) names: usize,
}

impl Chains {
    /// Checks that there are names enough.
    pub(super) fn check(self, section: &str) -> Result<()> {
        let (needed, names) = (self.statements(), self.names);
        if needed <= names {
            return Ok(());
        }
        let allowed = format!(
            "{} chains of {} names each need {needed} names, and there are {names}",
            self.count,
            self.hops + 1
        );
        Err(Error::value(&format!("{section}.hops"), self.hops, allowed).hint("use fewer `hops` or `chains`"))
    }

    fn statements(self) -> usize {
        self.count * (self.hops + 1)
    }

    pub(super) fn shortest(self) -> usize {
        STATEMENT * (self.statements() + 1)
    }
}

/// Chains of statements, `a=7;` then `b=a;` then `c=b;`, each in its order and mixed with the others at random places among
/// blanks; then the last name of one chain is asked for. RULER (arXiv:2404.06654, section 3.2) asks for all names of a value; here it
/// is the value of a name, so that the answer is one token.
pub(super) fn variable_tracking(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let form = task.chains();
    let count = form.statements();
    let names: Vec<u8> =
        distinct(stream, count, form.names).into_iter().map(|name| b'a' + name as u8).collect();
    let values: Vec<u8> = (0..form.count).map(|_| digit(stream)).collect();
    // The chain of each statement, in a random order.
    let order = distinct(stream, count, count).into_iter().map(|drawn| drawn % form.count);
    let blanks = tokens - form.shortest();
    let places = chosen(stream, count, blanks + count);
    let mut text = Vec::with_capacity(tokens);
    let mut told = vec![0; form.count];
    let mut before = 0;
    for (index, (chain, place)) in order.zip(places).enumerate() {
        text.extend(std::iter::repeat_n(BLANK, place - index - before));
        before = place - index;
        let name = |step: usize| names[chain * (form.hops + 1) + step];
        let step = told[chain];
        text.extend([name(step), b'=', if step == 0 { values[chain] } else { name(step - 1) }, b';']);
        told[chain] += 1;
    }
    text.extend(std::iter::repeat_n(BLANK, blanks - before));
    let asked = below(stream, form.count);
    text.extend([b'?', names[asked * (form.hops + 1) + form.hops], b'=']);
    Episode::new(text, [values[asked]])
}
