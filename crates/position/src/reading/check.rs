//! What cannot go together in a reading, and what positions it is not defined for.

use super::{AttentionKind, LogN, Mask, Reading};
use crate::encoding::{Domain, HeadUse, ScoreUse};
use crate::positions::Positions;
use longwave_core::{Error, Result};

impl Reading {
    /// Whether everything in it means something to the attention.
    pub fn check_attention(&self) -> Result<()> {
        match self.attention {
            AttentionKind::Softmax => Ok(()),
            AttentionKind::Linear => self.check_linear(),
            AttentionKind::StickBreaking(_) => {
                let sinks = self.layers.iter().any(|layer| layer.mask.sinks > 0);
                self.check_sink()?;
                self.check_factors(|log_n| log_n != LogN::Off)?;
                self.rejected(sinks, "sinks are the first keys of a softmax")
            }
            AttentionKind::Entmax(_) => {
                self.check_sink()?;
                self.check_factors(|log_n| log_n == LogN::ByEntropy)
            }
            AttentionKind::Lssa | AttentionKind::Lssar(_) => {
                self.check_sink()?;
                self.check_factors(|log_n| log_n != LogN::Off)?;
                if self.memory() > 0 {
                    let why = "counts the keys of a text, and a segment with a memory does not know its own";
                    return Err(Error::usage(format!("`{}` {why}", self.attention)));
                }
                Ok(())
            }
        }
    }

    fn rejected(&self, is_there: bool, what: &str) -> Result<()> {
        if is_there { Err(Error::usage(format!("{what}, and `{}` is none", self.attention))) } else { Ok(()) }
    }

    /// A sink is a term of a softmax.
    fn check_sink(&self) -> Result<()> {
        let sink = |layer: usize| self.of(layer).find(|(encoding, _)| encoding.sink(0).is_some());
        let kind = (0..self.layers.len()).find_map(sink).map(|(encoding, _)| encoding.kind());
        self.rejected(kind.is_some(), &format!("`{}` takes a share of a softmax", kind.unwrap_or_default()))
    }

    /// Factors of the scores are for a softmax, where they mean nothing to another normaliser.
    fn check_factors(&self, means_nothing: impl Fn(LogN) -> bool) -> Result<()> {
        let key = self.layers.iter().find(|layer| means_nothing(layer.log_n)).map(|layer| layer.log_n.key());
        self.rejected(key.is_some(), &format!("`{}` scales the scores of a softmax", key.unwrap_or_default()))
    }

    fn check_linear(&self) -> Result<()> {
        let rejected = |what: &str| {
            Err(Error::usage(format!(
                "{what}, and `{}` has no scores of pairs that it could act on",
                self.attention
            )))
        };
        for (index, layer) in self.layers.iter().enumerate() {
            for (encoding, _) in self.of(index) {
                let capabilities = encoding.capabilities();
                let on_scores = capabilities.adds_bias()
                    || capabilities.head_use != HeadUse::None
                    || encoding.sink(0).is_some()
                    || encoding.needs_scores(&Positions::range(0..1));
                if on_scores {
                    return rejected(&format!("`{}` acts on softmax scores", encoding.kind()));
                }
            }
            if !self.geometry(index).is_plain() {
                return rejected("a geometry chooses between scores");
            }
            if layer.mask != Mask::default() {
                return rejected("a window masks scores");
            }
            if layer.log_n != LogN::Off {
                return rejected(&format!("`{}` scales scores", layer.log_n.key()));
            }
            let factor = self.rotation(index).map_or(1.0, |rotation| rotation.frequencies.attention_factor);
            let is_one = |scale: f64| (scale - 1.0).abs() <= f64::EPSILON;
            if !(is_one(factor) && is_one(layer.logit_scale) && layer.temperature.is_one()) {
                return rejected("a temperature or an attention factor scales scores");
            }
            if layer.head_scale.is_some() {
                return rejected("a factor for each head scales scores");
            }
        }
        Ok(())
    }

    /// Whether the log-n scaling of every layer goes with its encodings.
    pub fn check_log_n(&self) -> Result<()> {
        for (index, layer) in self.layers.iter().enumerate() {
            let scaled =
                self.of(index).find(|(encoding, _)| encoding.capabilities().score_use == ScoreUse::Scales);
            if let (Some((encoding, _)), true) = (scaled, layer.log_n != LogN::Off) {
                let (key, kind) = (layer.log_n.key(), encoding.kind());
                return Err(Error::usage(format!(
                    "`{key}` and `{kind}` both scale the scores of layer {index} as the text grows"
                ))
                .hint(format!("leave `{key}` out: `{kind}` scales each pair by its distance")));
            }
        }
        Ok(())
    }

    /// Whether a pass over these positions is defined for every encoding.
    pub fn check(&self, positions: &Positions) -> Result<()> {
        self.encodings.iter().try_for_each(|encoding| encoding.check(&encoding.reads(positions)))
    }

    /// Whether a pass over these positions, between whole ones, is defined for every encoding. `why` says in the message
    /// why they are not whole.
    pub fn check_between(&self, why: &str, positions: &Positions) -> Result<()> {
        let read = self.layers.iter().flat_map(|layer| &layer.encodings);
        for encoding in read.map(|place| &self.encodings[place.encoding]) {
            if encoding.capabilities().domain != Domain::Real {
                return Err(Error::usage(format!(
                    "{why}, and `{}` has a value for whole positions or distances alone",
                    encoding.kind()
                ))
                .hint("use `randpos`, whose positions are whole, or an encoding that is a function of the position, such as `rope`"));
            }
        }
        self.check(positions)
    }
}
