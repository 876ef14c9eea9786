//! The kinds of tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// `abca=abca`.
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
