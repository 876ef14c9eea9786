//! What is found out about a trained model: one number a line, with what it means and where it comes from.

use serde::{Deserialize, Serialize};

macro_rules! diagnostics {
    ($($Name:ident: $title:literal, $unit:literal, $bin:expr, $definition:literal, $source:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(clippy::doc_markdown, reason = "definitions are printed too")]
        pub enum Diagnostic {
            $(#[doc = $definition] $Name,)*
        }

        impl Diagnostic {
            pub const ALL: &[Self] = &[$(Self::$Name,)*];

            pub fn title(self) -> &'static str {
                match self { $(Self::$Name => $title,)* }
            }

            /// What a value of 1 is.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$Name => $unit,)* }
            }

            /// What its bins are; empty where it has none.
            pub fn bins(self) -> &'static str {
                match self { $(Self::$Name => $bin,)* }
            }

            /// What it is, in a sentence without its full stop.
            pub fn definition(self) -> &'static str {
                match self { $(Self::$Name => $definition,)* }
            }

            pub fn source(self) -> &'static str {
                match self { $(Self::$Name => $source,)* }
            }
        }
    };
}

diagnostics! {
    Loss: "loss", "nats a token", "",
        "mean negative log likelihood of the tokens that are scored: of text the last of each window, the same at every length; of a task the answers, in sequences of their own at each length", "as `eval`";
    BaselineChange: "loss beyond the window baseline", "nats a token", "",
        "loss less that of the window baseline, which reads the last L tokens alone: below 0, what lies beyond L helps", "as `eval`";
    UnseenAngles: "attention on unseen angles", "share", "",
        "of what a query of a layer that rotates gives to keys, the part at angles that training never showed, on average over bands: an angle mod 2 pi is unseen above (L - 1) theta, or above n theta where n is the longest distance that training showed to the layer (drawn positions and longer stages show more, a window less); layers that do not rotate are left out", "after arXiv:2309.00071, arXiv:2310.05209";
    UnseenPairs: "pairs at unseen angles", "share", "",
        "the same if every query gave equal shares to all keys that it sees, whatever attention gives to them", "after arXiv:2309.00071, arXiv:2310.05209";
    FirstToken: "share of the first token", "share", "",
        "what a query gives to the first token of the text", "arXiv:2309.17453";
    Sinks: "heads with a sink", "share", "",
        "heads that give the first token more than 0.3 on average over the queries", "arXiv:2410.10781, section 3.2";
    Entropy: "entropy of attention", "share of ln N", "",
        "-sum p ln p over ln N, N keys that the query sees: 1 where it gives all the same; a query of one key has none", "arXiv:2506.16640";
    EffectiveKeys: "keys in effect", "keys", "",
        "e to the entropy: so many keys with equal shares have the same entropy", "arXiv:2506.16640";
    BeyondLength: "attention beyond L", "share", "",
        "what a query gives to keys that lie L tokens back or further", "ours";
    StableRank: "stable rank of turned keys", "directions", "",
        "sum of the squared singular values of a text's keys over the largest of them; none where a layer reads near and far pairs at different positions (rerope, self_extend, dual_chunk), so that a key is turned in several ways", "arXiv:2603.18017, lemmas 1 and 2";
    PreferredBand: "preferred band", "band", "",
        "the band in which most keys are largest (i_band), 0 the fastest", "Oka et al., ICLR 2026";
    PredictedBand: "predicted band", "band", "",
        "j* = (d/2) log_base(D / 3.65721), where cos(n theta) varies most over the distances below D of training, or the nearest band that turns; D is L, more with drawn positions or longer stages, and less in a window; on average over the layers that turn", "Oka et al., ICLR 2026";
    KeyNorm: "norm of keys by band", "norm", "band",
        "mean over tokens of the norm of the band's pair of channels, before they are turned", "arXiv:2410.06205";
    QueryNorm: "norm of queries by band", "norm", "band",
        "mean over tokens of the norm of the band's pair of channels, before they are turned", "arXiv:2410.06205";
    BandShare: "share of the logits by band", "share", "band",
        "standard deviation of the band's part of q.k over the keys that the query sees, each turned as the pair is read, over the sum of those of all bands", "after arXiv:2504.18857";
    PositionProbe: "position read by a linear probe", "R^2", "from position",
        "R^2 of ridge regression of the position on the layer's input, fitted below L on other texts: 1 where it is known, 0 or less where it is not", "after arXiv:2203.16634, section 5";
    LogPositionProbe: "logarithm of the position read by a linear probe", "R^2", "from position",
        "the same of ln(position + 1)", "after arXiv:2203.16634, section 5";
    ReceptiveField: "receptive field", "tokens", "",
        "the tokens nearest to the end that have 99% of the gradient: norms of the last loss's gradient by the embedding of each token, averaged over texts", "arXiv:2212.10356";
    GradientWithin: "gradient within the last tokens", "share", "last tokens",
        "the part of that gradient in the last tokens", "arXiv:2212.10356";
    RepetitionChange: "change by distance of the last repetition", "nats a token", "distance",
        "loss less the window baseline's, of tokens whose bigram was last seen so far back (to twice as far; 0: never)", "after arXiv:2109.09115, figure 4";
    ContextCut: "far context cut", "nats a token", "kept tokens",
        "what the loss of the last tokens changes by where the text before the kept tokens, at least so many for each, is left out, positions as they were", "arXiv:1805.04623";
    ContextShuffled: "far context shuffled", "nats a token", "kept tokens",
        "the same where the tokens before are in random order", "arXiv:1805.04623, arXiv:2109.09115";
    ContextOther: "far context of another text", "nats a token", "kept tokens",
        "the same where the tokens before are of another text", "arXiv:2109.09115";
}

impl Diagnostic {
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Whether it goes from 0 to 1 and is shown in per cent.
    pub fn is_share(self) -> bool {
        self.unit() == "share"
    }
}

/// What an error is over, and what is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    #[default]
    Documents,
    /// Of a task.
    Sequences,
    /// Of the one document that was read.
    Windows,
    /// Runs that differ in their seed.
    Runs,
}

impl Over {
    pub fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Sequences => "sequences",
            Self::Windows => "windows",
            Self::Runs => "runs",
        }
    }
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub diagnostic: Diagnostic,
    /// The [label](crate::label) of the extension.
    pub extend: String,
    /// Tokens read.
    pub length: usize,
    /// From 0; absent for the whole model. Of a probe, the layer whose input it reads; the last is what the head reads.
    pub layer: Option<usize>,
    /// From 0; absent for all heads of the layer.
    pub head: Option<usize>,
    /// A band, a distance or a number of tokens, see [`Diagnostic::bins`].
    pub bin: Option<usize>,
    #[serde(with = "crate::number")]
    pub value: f64,
    /// The standard error; none of one alone.
    pub se: Option<f64>,
    /// How many of what the error is over have a part in it.
    pub count: usize,
    /// What the error is over.
    #[serde(default)]
    pub over: Over,
    /// The first windows, of those that were read, that it was measured on; absent where it is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<usize>,
}

impl Finding {
    /// A number of the whole model, of one document and so without an error: what tests change.
    #[doc(hidden)]
    pub fn of(diagnostic: Diagnostic, extend: &str, length: usize, value: f64) -> Self {
        Self {
            diagnostic,
            extend: extend.to_owned(),
            length,
            layer: None,
            head: None,
            bin: None,
            value,
            se: None,
            count: 1,
            over: Over::Documents,
            windows: None,
        }
    }

    /// What it is a number of.
    pub fn place(&self) -> (Diagnostic, &str, usize, Option<usize>, Option<usize>, Option<usize>) {
        (self.diagnostic, &self.extend, self.length, self.layer, self.head, self.bin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_read_back() {
        for value in [f64::NAN, f64::INFINITY] {
            let finding = Finding::of(Diagnostic::PositionProbe, "direct", 64, value);
            let written = serde_json::to_string(&finding).unwrap();
            let read: Finding = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}"));
            assert!(read.value.is_nan(), "JSON has no such number");
            assert_eq!(read.place(), finding.place());
        }
    }

    #[test]
    fn each_has_a_name_a_definition_and_a_source() {
        for diagnostic in Diagnostic::ALL {
            assert!(
                !diagnostic.definition().ends_with('.') && !diagnostic.source().is_empty(),
                "{diagnostic:?}"
            );
            assert!(!diagnostic.name().is_empty() && !diagnostic.title().is_empty());
        }
        assert_eq!(Diagnostic::UnseenAngles.name(), "unseen_angles");
        for over in [Over::Documents, Over::Sequences, Over::Windows, Over::Runs] {
            assert_eq!(serde_json::to_value(over).unwrap(), over.name());
        }
        assert!(Diagnostic::FirstToken.is_share() && !Diagnostic::Loss.is_share());
    }
}
