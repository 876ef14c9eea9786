//! Kind `embedding`: what enters the blocks.

use crate::build::{config, dimensions, encoding, positions, with_key};
use crate::file::Case;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_position::encoding::Rows;
use longwave_position::{Dimensions, Encoding};

/// Checks one case of a file; the file's name is the encoding's kind, or that and a variant.
pub fn check(name: &str, case: &Case) {
    if name == "complex_order" {
        return waves(case);
    }
    let x = case.input("x");
    let [length, width] = x.shape[..] else { panic!("x {:?}", x.shape) };
    let mut dimensions = dimensions(1, width, width);
    let config = match name {
        "radix_number" => with_key(config("radix", &case.config, &[]), "digits_as", "numbers"),
        "learned_past_table" => config("learned", &case.config, &[]),
        _ => config(name, &case.config, &["layers"]),
    };
    if case.config.get("layers").is_some() {
        dimensions.layers = case.usize("layers");
    }
    let encoding = encoding(&config, &dimensions, case.params());
    let positions = positions(&case.input("positions"));
    encoding.check(&positions).unwrap_or_else(|error| panic!("{error}"));
    let tokens = Tensor::<2, Int>::zeros([1, length], &Device::flex());
    let rows = Rows::new(0, &tokens, &positions);
    let h = encoding.embed(x.burn::<2>().unsqueeze::<3>(), rows);
    let mut outputs = case.outputs();
    outputs.compare("h", h.squeeze_dim::<2>(0));
    match &encoding {
        Encoding::Radix(radix) => outputs.compare_f64("coords", &radix.coordinates(&positions)),
        Encoding::Floater(floater) => {
            let paths = (0..dimensions.layers).map(|layer| floater.path(layer, &positions)).collect();
            outputs.compare("p", Tensor::cat(paths, 0));
        }
        _ => {}
    }
    outputs.done();
}

/// Tokens as waves: the hidden state is the real half, then the imaginary one.
fn waves(case: &Case) {
    let half = case.usize("width");
    let dimensions = Dimensions { vocab_size: case.usize("vocab"), ..dimensions(1, 2 * half, 2 * half) };
    let encoding =
        encoding(&config("complex_order", &case.config, &["vocab", "width"]), &dimensions, case.params());
    let tokens: Vec<i64> = case.input("tokens").data.iter().map(|&token| token as i64).collect();
    let length = tokens.len();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, length]), &Device::flex());
    let positions = positions(&case.input("positions"));
    let rows = Rows::new(0, &tokens, &positions);
    let hidden = Tensor::zeros([1, length, 2 * half], &Device::flex());
    let waves = encoding.embed(hidden, rows).squeeze_dim::<2>(0);
    let mut outputs = case.outputs();
    outputs.compare("real", waves.clone().slice_dim(1, 0..half));
    outputs.compare("imag", waves.slice_dim(1, half..2 * half));
    outputs.done();
}
