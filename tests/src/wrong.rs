//! A program whose encoding sees the future, whose extension changes what it promises to keep, and whose protocol and
//! metric are wrong too: `selfcheck` must find each. With `LONGWAVE_TWICE` it registers the encoding twice. Another encoding
//! is right, but for some batches in training, which it makes NaN.

use longwave::eval::metrics::{Column, Documents, Facts, Measure};
use longwave::eval::protocols::{self, Keys, Rules};
use longwave::eval::{Plan, Window};
use longwave::prelude::*;

keys! {
    struct Config {}

    struct Slow {}

    struct NanConfig {
        /// The block whose input it spoils.
        layer: usize = 1,
        /// The sums of the tokens of the passes that it spoils.
        sums: Vec<i64> = Vec::new(),
    }
}

/// No encoding; the input of a block becomes NaN in some passes of training.
#[derive(Module, Debug)]
struct Nan {
    #[module(skip)]
    layer: usize,
    #[module(skip)]
    sums: Vec<i64>,
}

impl Configure for NanConfig {
    type Encoding = Nan;
    const KIND: &'static str = "nan";
    const DESCRIPTION: &'static str = "nothing, or NaN";
    const SOURCE: &'static str = "a test";
    const FORMULA: &'static str = "x'_m = x_m";
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined");

    fn build(&self, _sizes: &Dimensions, _init: &Init) -> Nan {
        Nan { layer: self.layer, sums: self.sums.clone() }
    }
}

impl Position for Nan {
    fn parameters(&self) -> Vec<ParameterSpec> {
        Vec::new()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { position_use: PositionUse::Order, ..Capabilities::default() }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer != self.layer || rows.draw.is_none() {
            return hidden;
        }
        let tokens = rows.tokens.clone().into_data_as::<i32>().try_to_vec::<i32>().unwrap_or_default();
        let sum: i64 = tokens.into_iter().map(i64::from).sum();
        if self.sums.contains(&sum) { hidden * f32::NAN } else { hidden }
    }
}

/// Adds the mean of all rows to each.
#[derive(Module, Debug)]
struct LooksAhead {
    gain: Param<Tensor<1>>, // [1]
}

impl Configure for Config {
    type Encoding = LooksAhead;
    const KIND: &'static str = "looks_ahead";
    const DESCRIPTION: &'static str = "the mean of the text, its future included";
    const SOURCE: &'static str = "a test";
    const FORMULA: &'static str = "x'_m = x_m + c Σ_n x_n / T, c learned";
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined");

    fn build(&self, _sizes: &Dimensions, init: &Init) -> LooksAhead {
        LooksAhead { gain: init.constant([1], 1.0) }
    }
}

impl Position for LooksAhead {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("gain", &["1"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            position_use: PositionUse::Order,
            ..Capabilities::default()
        }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let mean = hidden.clone().mean_dim(1); // [batch, 1, width]
        hidden + mean * self.gain.val().unsqueeze::<3>()
    }
}

impl Extend for Slow {
    const KIND: &'static str = "slow";
    const DESCRIPTION: &'static str = "half as fast at any length, without saying so";
    const SOURCE: &'static str = "a test";
    const FORMULA: &'static str = "θ'_i = θ_i / 2";

    fn apply(&self, reading: &mut Reading, _lengths: Lengths) -> Result<()> {
        change_frequencies(Self::KIND, reading, |old| Ok(old.map(|_, frequency| frequency / 2.0)))
    }
}

/// Scores the first token of every document again and again.
struct Again;

impl Rules for Again {
    fn description(&self) -> &'static str {
        "The first token of every document, twice."
    }

    fn plan(&self, _keys: &Keys, _length: usize, documents: &protocols::Documents<'_>) -> Plan {
        let long = documents.tokens.iter().enumerate().filter(|(_, tokens)| **tokens > 1);
        let windows: Vec<Window> =
            long.flat_map(|(document, _)| [Window { document, start: 0, first: 1, end: 2 }; 2]).collect();
        Plan { skipped_documents: documents.tokens.len() - windows.len() / 2, windows }
    }

    fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
        true
    }

    fn in_words(&self, _keys: &Keys) -> String {
        "the first token, twice".to_owned()
    }
}

/// The loss, called a share.
struct LossShare;

impl Measure for LossShare {
    fn title(&self) -> &'static str {
        "Loss as a share"
    }

    fn unit(&self) -> &'static str {
        "nats"
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("loss_share", "loss_share_se"))
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        let sums = facts.per_document?;
        Some(Documents { sums: sums.get("nll")?, weights: sums.tokens.clone() })
    }
}

fn main() -> ExitCode {
    let program = Program::new().encoding::<Config>().encoding::<NanConfig>().extension::<Slow>();
    let program = program.protocol("again", &Again).metric("loss_share", &LossShare);
    match std::env::var_os("LONGWAVE_TWICE") {
        Some(_) => program.encoding::<Config>().run(),
        None => program.run(),
    }
}
