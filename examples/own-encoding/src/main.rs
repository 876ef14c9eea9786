//! The `longwave` program with an encoding and an extension of its own.

use longwave::prelude::*;

keys! {
    struct Config {
        /// What the penalty of a key at distance n, `slope ln(1 + n)`, starts with. Every head learns its own.
        slope: f64 = 1.0,
    }

    struct Sharpen {
        /// By how much the logits grow where a text is e times as long as L.
        strength: f64 = 0.1,
    }
}

#[derive(Module, Debug)]
struct LogDistance {
    slopes: Param<Tensor<2>>, // [layers, heads]
}

impl Configure for Config {
    type Encoding = LogDistance;
    const KIND: &'static str = "log_distance";
    const DESCRIPTION: &'static str = "a penalty that grows with the logarithm of the distance";
    const SOURCE: &'static str = "examples/own-encoding";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d − c_h ln(1 + m − n), c_h learned";
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the penalty goes on growing");
    fn build(&self, sizes: &Dimensions, init: &Init) -> LogDistance {
        LogDistance { slopes: init.constant([sizes.layers, sizes.heads], self.slope) }
    }
}

impl DistanceBias for LogDistance {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("slopes", &["layers", "heads"])]
    }

    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let penalties: Vec<f64> = distances.iter().map(|n| -n.ln_1p()).collect();
        at_layer::<2, 1>(&self.slopes, layer).unsqueeze_dim::<2>(1) * upload(&penalties, device).unsqueeze()
    }
}

impl Extend for Sharpen {
    const KIND: &'static str = "sharpen";
    const DESCRIPTION: &'static str = "larger logits in longer texts";
    const SOURCE: &'static str = "examples/own-encoding";
    const FORMULA: &'static str = "a'_{mn} = (1 + 0.1 ln s) a_{mn}";
    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let growth = 1.0 + self.strength * lengths.scale().ln();
        reading.layers_mut().iter_mut().for_each(|layer| layer.temperature /= growth);
        Ok(())
    }
}

fn main() -> ExitCode {
    Program::new().encoding::<Config>().extension::<Sharpen>().run()
}
