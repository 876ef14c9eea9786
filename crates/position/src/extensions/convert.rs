//! `convert`: positions as digits of a larger base.
//!
//! A position is written in base `beta_new` with as many digits as it was in base beta, so that neighbours stay 1
//! apart and no digit is needed that training saw only as 0 (kexue.fm/archives/9675; `ntk` is the same for
//! rotations). Digits then pass `beta - 1`: `reading = "rescaled"` takes each to the centre of its cell among the
//! trained ones, `"raw"` takes the number as it is, where digits are numbers; formulas at [`radix`]. Without
//! `beta_new`, the least base of at least beta in which the highest digit of training stays within what training
//! showed of it: `beta_new^(D-1) (top + 1) >= L'`, where L - 1 has D digits with `top` first. A text that training
//! had digits for is read as trained. For `radix`.
//!
//! [`radix`]: crate::encodings::radix

use crate::encodings::radix::{DigitReading, Radix};
use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `convert`.
    #[derive(Eq)]
    pub struct Convert {
        /// The base that positions are written in, at least beta; left out, the least that the length needs.
        pub beta_new: Option<usize> = None,
        /// How digits of the larger base are read.
        pub reading: DigitReading = DigitReading::default(),
    }
}

impl Extend for Convert {
    const KIND: &'static str = "convert";
    const DESCRIPTION: &'static str = "writes positions as digits of a larger base";
    const SOURCE: &'static str = "kexue.fm/archives/9675";
    const FORMULA: &'static str = "δ_j = ⌊m / b'^j⌋ mod b'\n\
        δ'_j = clip((δ_j + 1/2) b / b' − 1/2, 0, b − 1), read between rows\n\
        b' = least base ≥ b with b'^j (c + 1) ≥ T, c and j value and place of the top digit of L − 1";

    fn validate(&self, section: &str) -> Result<()> {
        match self.beta_new {
            Some(base) if base < 2 => {
                Err(Error::value(&format!("{section}.beta_new"), base, "it must be at least 2")
                    .hint("take a base above the trained one, or leave it out"))
            }
            _ => Ok(()),
        }
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").with_encoding("radix"),
            Example::new("beta_new = 16").with_encoding("radix").changes_short_texts(),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let needs = "an encoding that reads digits of the position";
        change_encodings(Self::KIND, needs, reading, |encoding| {
            let divided = encoding.interpolation() > 1.0;
            let Some(radix) = encoding.get_mut::<Radix>() else { return Ok(false) };
            radix.convert(self.beta_new, self.reading, divided, lengths)?;
            Ok(true)
        })
    }
}
