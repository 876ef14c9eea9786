//! Whether the parameters of a stack's encodings fit in memory, before any is drawn.

use super::PositionConfig;
use crate::encoding::{Dimensions, largest};
use crate::encodings::EncodingConfig;
use crate::init::Init;
use longwave_core::memory_check::{available, shortage};
use longwave_core::{Error, Result};

/// Bytes of one f32.
const F32: u64 = 4;

impl PositionConfig {
    /// The largest whole number among the keys of all encodings, with its key.
    pub fn largest(&self, section: &str) -> Option<(String, u64)> {
        let of_encoding = |(_, section, encoding): (usize, String, &EncodingConfig)| {
            largest(&section, &encoding.keys().unwrap_or_default())
        };
        self.placed(section).filter_map(of_encoding).max_by_key(|(_, size)| *size)
    }

    /// Refuses encodings whose parameters are more than the free memory holds; `init` is what they are to be made by.
    pub(super) fn check_memory(&self, section: &str, dimensions: &Dimensions, init: &Init) -> Result<()> {
        if init.counted().is_some() {
            return Ok(());
        }
        let counting = Init::counting(init.device());
        for (entry, section, encoding) in self.placed(section) {
            let layers = self.layers_of(entry, dimensions.layers).len();
            let sizes = Dimensions { layers, ..*dimensions };
            encoding.build(&sizes, &counting);
            let bytes = counting.counted().unwrap_or_default().saturating_mul(F32);
            if let Some(shortage) = shortage(bytes, available()) {
                return Err(too_large(encoding, &section, &sizes, &shortage));
            }
        }
        Ok(())
    }
}

/// The error of an encoding that does not fit: names the largest size that it may be made of.
fn too_large(encoding: &EncodingConfig, section: &str, sizes: &Dimensions, shortage: &str) -> Error {
    let model = [
        ("model.layers", sizes.layers),
        ("model.width", sizes.width),
        ("model.heads", sizes.heads),
        ("model.head_dim", sizes.head_dim),
        ("train.length", sizes.train_length),
    ];
    let own = largest(section, &encoding.keys().unwrap_or_default());
    let sizes = model.map(|(key, size)| (key.to_owned(), size as u64)).into_iter().chain(own);
    let (key, value) = sizes.max_by_key(|(_, size)| *size).unwrap_or_default();
    let needed = format!("the parameters of `{}` take {shortage}", encoding.kind());
    Error::value(&key, value, needed)
        .hint("take a smaller one: `longwave schema` prints the default of every key")
}
