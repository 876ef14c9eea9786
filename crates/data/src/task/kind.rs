//! The kinds of tasks.

use super::{Episode, LETTERS, TaskConfig, arithmetic, haystack, mqar, names, recall, strings, symbols};
use longwave_core::random::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// `abca=abca`.
    #[default]
    Copy,
    /// `abca=abcaabca`.
    DuplicateString,
    /// `abca=acba`.
    ReverseString,
    /// `abcde=acebd`: the first, third, .. symbols, then the others.
    OddsFirst,
    /// `caba=aabc`.
    BucketSort,
    /// `abcab?=c`: the symbol missing from a string written twice.
    MissingDuplicate,
    /// `abba=1`: whether as many neighbours read `ab` as `ba`, which is whether both ends are alike.
    EvenPairs,
    /// `abba=1`: whether `b` occurs an even number of times.
    ParityCheck,
    /// `+-+0=1`: where steps on a circle of five places end.
    CycleNavigation,
    /// `ab|-B=Ba.`: a stack, bottom first, and what is done to it (`-` pops, a capital is pushed);
    /// the answer is the stack, top first.
    StackManipulation,
    /// `1+2*3=2`: modulo 5, products first.
    ModularArithmetic,
    /// `((-1)+(2*3))=0`: modulo 5, with brackets.
    ModularArithmeticBrackets,
    /// `(1+(x-3))=2:4`: the `x` that makes it true modulo 5; without products, so that there is one.
    SolveEquation,
    /// `101+110=0001`: least digit first.
    BinaryAddition,
    /// `101*110=111100`: least digit first.
    BinaryMultiplication,
    /// `10001=100`: the whole root of a number, largest digit first.
    ComputeSqrt,
    /// A number stands in filler text and is asked for at the end (Mohtashami and Jaggi 2023,
    /// arXiv:2305.16300; the form of Chen et al. 2023, arXiv:2306.15595, shortened).
    Passkey,
    /// `qzk#4f..#4`: the digit after the only other `#` in random letters.
    Needle,
    /// `dqzabqz`: a letter that occurred once before is followed by what followed it.
    Induction,
    /// `abcdefgh=e`: the symbol `offset` places before the `=`.
    FixedOffset,
    /// `ab1 cd2 ef3 ?cd2`: the value of a key.
    AssocRecall,
    /// `a1b2a3?a3`: the last value of a key that may have had several.
    DupKeyRecall,
    /// `w1i0i1r1`: `w` writes a bit, `i` is to be ignored, `r` reads the last bit that was written (Liu et al. 2023,
    /// arXiv:2306.00946). Every read is an answer.
    FlipFlop,
    /// `a4b7..b7..a4`: key-value pairs, then some of the keys again, each with its value (multi-query associative recall;
    /// Arora et al. 2023, arXiv:2312.04927). Every value that is asked for is an answer.
    Mqar,
    /// `.a=7;..d=2;b=a;c=d;.?b=7`: names that stand for a digit or for another name, and the digit of one name (variable tracking;
    /// Hsieh et al. 2024, arXiv:2404.06654).
    VariableTracking,
    /// `.c..a.b.=cab`: the letters among blanks, in order (Gu and Dao 2023, arXiv:2312.00752).
    SelectiveCopy,
    /// `b3f1a7=1`: the digit of the largest letter (the maximum retrieval of Veličković et al. 2024, arXiv:2410.01104).
    Argmax,
    /// `a.c.bafccb`: every symbol is followed by the one `offset` symbols before it (Vasylenko et al. 2025, arXiv:2506.16640).
    /// Each is an answer.
    NBack,
}

/// What a kind is made of.
pub(super) struct Rule {
    /// Symbols of strings or keys unless `alphabet` says otherwise; `None` where the kind has its own symbols.
    pub(super) alphabet: Option<usize>,
    /// The keys that it has besides those.
    pub(super) keys: &'static [&'static str],
    /// The least tokens that a sequence has.
    pub(super) shortest: fn(&TaskConfig) -> usize,
    /// A sequence, as long as fits into so many tokens.
    pub(super) sequence: fn(&TaskConfig, &mut Stream, usize) -> Episode,
}

impl TaskKind {
    pub(super) fn rule(self) -> Rule {
        let rule = |alphabet, keys, shortest, sequence| Rule { alphabet, keys, shortest, sequence };
        match self {
            Self::Copy => rule(Some(8), &[], |_| 3, strings::copy),
            Self::DuplicateString => rule(Some(8), &[], |_| 4, strings::duplicate),
            Self::ReverseString => rule(Some(8), &[], |_| 3, strings::reverse),
            Self::OddsFirst => rule(Some(8), &[], |_| 3, strings::odds_first),
            Self::BucketSort => rule(Some(5), &[], |_| 3, strings::bucket_sort),
            Self::MissingDuplicate => rule(Some(8), &[], |_| 4, strings::missing_duplicate),
            Self::EvenPairs => rule(None, &[], |_| 3, strings::even_pairs),
            Self::ParityCheck => rule(None, &[], |_| 3, strings::parity),
            Self::CycleNavigation => rule(None, &[], |_| 3, strings::cycle),
            Self::StackManipulation => rule(None, &[], |_| 5, strings::stack),
            Self::ModularArithmetic => rule(None, &[], |_| 3, arithmetic::modular),
            Self::ModularArithmeticBrackets => rule(None, &[], |_| 3, arithmetic::brackets),
            Self::SolveEquation => rule(None, &[], |_| 9, arithmetic::equation),
            Self::BinaryAddition => rule(None, &[], |_| 6, arithmetic::addition),
            Self::BinaryMultiplication => rule(None, &[], |_| 6, arithmetic::multiplication),
            Self::ComputeSqrt => rule(None, &[], |_| 4, arithmetic::root),
            Self::Passkey => {
                let shortest = |task: &TaskConfig| haystack::PASSKEY_TEXT + 2 * task.digits();
                rule(None, &["digits", "depth", "filler"], shortest, haystack::passkey)
            }
            Self::Needle => {
                let shortest = |task: &TaskConfig| task.hay().shortest_needle();
                rule(None, &["depth", "distractors", "filler"], shortest, haystack::needle)
            }
            Self::Induction => rule(Some(LETTERS), &[], |_| 4, recall::induction),
            Self::FixedOffset => {
                rule(Some(LETTERS), &["offset"], |task| task.offset() + 2, recall::fixed_offset)
            }
            Self::AssocRecall => rule(Some(LETTERS), &["depth"], |_| 8, recall::assoc),
            Self::DupKeyRecall => rule(Some(LETTERS), &[], |_| 5, recall::dup_key),
            Self::FlipFlop => rule(None, &["ignore", "score"], |_| 4, names::flip_flop),
            Self::Mqar => {
                let keys = &["pairs", "fill", "queries", "key_len", "value_len", "score"];
                rule(Some(LETTERS), keys, |task| task.mqar().shortest(), mqar::mqar)
            }
            Self::VariableTracking => {
                let shortest = |task: &TaskConfig| task.chains().shortest();
                rule(Some(LETTERS), &["hops", "chains"], shortest, names::variable_tracking)
            }
            Self::SelectiveCopy => {
                rule(Some(8), &["items"], |task| 2 * task.items() + 1, symbols::selective_copy)
            }
            Self::Argmax => rule(Some(8), &[], |_| 4, symbols::argmax),
            Self::NBack => {
                rule(Some(16), &["offset", "score"], |task| 2 * task.offset() + 2, symbols::n_back)
            }
        }
    }
}
