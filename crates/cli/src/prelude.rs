//! What an encoding or an extension of your own needs: `use longwave::prelude::*`.
//!
//! Protocols and metrics find theirs in [`longwave::eval`](crate::eval).

pub use crate::{Error, Program, Result, burn, keys};
pub use burn::module::{Module, Param};
pub use burn::tensor::{Device, Int, Tensor};
pub use longwave_kernels::{Bias, Layout};
pub use longwave_position::distance::{DistanceBias, bias_by_distance};
pub use longwave_position::encoding::{
    Capabilities, Configure, Dimensions, Extrapolation, HeadUse, Heads, HiddenUse, Position, PositionUse,
    QueryBlock, Rows,
};
pub use longwave_position::extension::{
    Band, Example, Extend, FrequencyRule, Lengths, Scale, Shifts, change_frequencies, not_applicable,
    set_geometry, set_window,
};
pub use longwave_position::frequency::{Frequencies, Rotation};
pub use longwave_position::per_layer::at_layer;
pub use longwave_position::upload::upload;
pub use longwave_position::{Init, ParameterSpec, Positions, Reading};
pub use std::process::ExitCode;
