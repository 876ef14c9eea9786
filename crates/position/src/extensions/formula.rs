//! `formula`: an extension that a config writes as formulas.
//!
//! `inv_freq` gives the new frequency of each band as a function of the old one, `f`, of `band` (from 0, also `i`),
//! `bands`, `d` (the rotated channels, `2 bands`), `base`, the turns `r = L f / (2 pi)` of the band within L tokens, the
//! scale `s`, L, and T, the tokens of the text. `logit_scale` multiplies q.k, as a function of `s`, L and T; with
//! frequencies it is a factor `sqrt(logit_scale)` on cos and sin of q and k, as in [`yarn`](super::yarn).

use crate::extension::Extend;
use crate::formula::Formula as Parsed;
use crate::prelude::*;
use std::f64::consts::TAU;

/// Names that `inv_freq` knows.
const OF_FREQUENCY: [&str; 10] = ["f", "s", "L", "T", "band", "i", "bands", "d", "base", "r"];
/// Names that `logit_scale` knows.
const OF_LOGITS: [&str; 3] = ["s", "L", "T"];

keys! {
    /// Keys of `formula`.
    pub struct Formula {
        /// `s`: how much longer the text is than those of the training.
        pub scale: Scale = Scale::default(),
        /// The new frequency of a band, such as `"f / s"`: a function of the old one, `f`, of `band` (from 0, also `i`),
        /// `bands`, `d` (`2 bands`), `base`, `r` (turns of the band in L tokens), `s`, `L` and `T` (tokens of the text).
        pub inv_freq: Option<String> = None,
        /// A factor on q.k, such as `"(0.1 * log(s) + 1)^2"`: a function of `s`, `L` and `T`. Beside `inv_freq` it is one on the rotated
        /// channels, as that of `yarn` is. What encodings add to the logits stays.
        pub logit_scale: Option<String> = None,
    }
}

impl Formula {
    fn read(section: &str, key: &str, text: Option<&str>, known: &[&str]) -> Result<Option<Parsed>> {
        text.map(|text| Parsed::read(&format!("{section}.{key}"), text, known)).transpose()
    }

    /// Both formulas.
    fn formulas(&self, section: &str) -> Result<[Option<Parsed>; 2]> {
        Ok([
            Self::read(section, "inv_freq", self.inv_freq.as_deref(), &OF_FREQUENCY)?,
            Self::read(section, "logit_scale", self.logit_scale.as_deref(), &OF_LOGITS)?,
        ])
    }
}

/// The value of a name that the lengths decide; NaN for any other.
fn of_lengths(name: &str, scale: f64, lengths: Lengths) -> f64 {
    match name {
        "s" => scale,
        "L" => lengths.train as f64,
        "T" => lengths.length as f64,
        _ => f64::NAN,
    }
}

fn wrong(key: &str, text: Option<&str>, what: String) -> Error {
    Error::value(&format!("formula.{key}"), format!("{:?}", text.unwrap_or_default()), what)
}

impl Extend for Formula {
    const KIND: &'static str = "formula";
    const DESCRIPTION: &'static str =
        "new frequencies and a factor on the logits, written as formulas in the config";
    const SOURCE: &'static str = "the config";
    const FORMULA: &'static str = "θ'_i = f(θ_i, i, d, b, s, L, T), f written in the config\n\
        a'_{mn} = g(s, L, T) q'_m · k'_n / √d, g written in the config, or 1";

    fn validate(&self, section: &str) -> Result<()> {
        self.scale.validate(section)?;
        match self.formulas(section)? {
            [None, None] => {
                Err(Error::usage(format!("`{section}`: `formula` needs `inv_freq`, `logit_scale` or both"))
                    .hint("write `{ kind = \"formula\", inv_freq = \"f / s\" }`"))
            }
            _ => Ok(()),
        }
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("inv_freq = 'f / s'").bands(Band::ByScale, Band::ByScale),
            Example::new("inv_freq = 'f * (1 - clamp((32 - r)/31, 0, 1) * (1 - 1/s))', logit_scale = '(0.1*log(s) + 1)^2'")
                .bands(Band::Between, Band::ByScale),
            Example::new("logit_scale = '1 + log(s)'"),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        let [inv_freq, logit_scale] = self.formulas("formula")?;
        let factor =
            logit_scale.map_or(1.0, |formula| formula.number(&|name| of_lengths(name, scale, lengths)));
        if !(factor.is_finite() && factor > 0.0) {
            let what = format!("it is {factor} at length {}", lengths.length);
            return Err(
                wrong("logit_scale", self.logit_scale.as_deref(), what).hint("a factor is a number above 0")
            );
        }
        let Some(formula) = inv_freq else {
            for layer in reading.layers_mut() {
                layer.logit_scale *= factor;
            }
            return Ok(());
        };
        change_frequencies(Self::KIND, reading, |old| {
            let bands = old.inv_freq.len() as f64;
            let new = old.map(|band, f| {
                formula.number(&|name| match name {
                    "f" => f,
                    "band" | "i" => band as f64,
                    "bands" => bands,
                    "d" => 2.0 * bands,
                    "base" => old.base,
                    "r" => lengths.train as f64 * f / TAU,
                    other => of_lengths(other, scale, lengths),
                })
            });
            if let Some((band, f)) =
                new.inv_freq.iter().enumerate().find(|(_, f)| !(f.is_finite() && **f >= 0.0))
            {
                let what = format!("it is {f} for band {band} at length {}", lengths.length);
                return Err(wrong("inv_freq", self.inv_freq.as_deref(), what)
                    .hint("a frequency is a number of at least 0, in radians a position"));
            }
            Ok(new.amplified(factor.sqrt()))
        })
    }
}
