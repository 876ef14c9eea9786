//! What cannot go together in a reading, and what positions it is not defined for.

use super::{AttentionKind, LogN, Mask, Reading};
use crate::encoding::HeadUse;
use crate::positions::Positions;
use longwave_core::{Error, Result};

impl Reading {
    /// Whether everything in it means something to the attention.
    pub fn check_attention(&self) -> Result<()> {
        match self.attention {
            AttentionKind::Softmax => Ok(()),
            AttentionKind::Linear => self.check_linear(),
            AttentionKind::StickBreaking(_) => self.check_stick_breaking(),
        }
    }

    fn check_stick_breaking(&self) -> Result<()> {
        let rejected = |what: &str| Err(Error::usage(format!("{what}, and `{}` is none", self.attention)));
        for (index, layer) in self.layers.iter().enumerate() {
            if let Some((encoding, _)) = self.of(index).find(|(encoding, _)| encoding.sink(0).is_some()) {
                return rejected(&format!("`{}` takes a share of a softmax", encoding.kind()));
            }
            if layer.log_n != LogN::Off {
                return rejected(&format!("`{}` scales the scores of a softmax", layer.log_n.key()));
            }
            if layer.mask.sinks > 0 {
                return rejected("sinks are the first keys of a softmax");
            }
        }
        Ok(())
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
                let on_scores = capabilities.adds_bias
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
            let scaled = self.of(index).find(|(encoding, _)| encoding.capabilities().scales_scores);
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
        self.encodings.iter().try_for_each(|encoding| encoding.check(positions))
    }

    /// Whether a pass over these positions, between whole ones, is defined for every encoding. `why` says in the message
    /// why they are not whole.
    pub fn check_between(&self, why: &str, positions: &Positions) -> Result<()> {
        let read = self.layers.iter().flat_map(|layer| &layer.encodings);
        for encoding in read.map(|place| &self.encodings[place.encoding]) {
            let capabilities = encoding.capabilities();
            if capabilities.whole_positions || capabilities.table_rows.is_some() {
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
