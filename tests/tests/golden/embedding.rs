//! Kind `embedding`: what enters the blocks.

use crate::build::{config, dimensions, encoding, positions};
use crate::file::Case;
use burn::tensor::{Device, Int, Tensor};
use longwave_position::Position;
use longwave_position::encoding::Rows;

/// Checks one case of a file; the file's name is the encoding's kind.
pub fn check(name: &str, case: &Case) {
    let x = case.input("x");
    let [length, width] = x.shape[..] else { panic!("x {:?}", x.shape) };
    let encoding = encoding(&config(name, &case.config, &[]), &dimensions(1, width, width), case.params());
    let positions = positions(&case.input("positions"));
    encoding.check(&positions).unwrap_or_else(|error| panic!("{error}"));
    let tokens = Tensor::<2, Int>::zeros([1, length], &Device::flex());
    let rows = Rows { layer: 0, tokens: &tokens, positions: &positions };
    let h = encoding.embed(x.burn::<2>().unsqueeze::<3>(), rows);
    let mut outputs = case.outputs();
    outputs.compare("h", h.squeeze_dim::<2>(0));
    outputs.done();
}
