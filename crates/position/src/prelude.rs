//! What the file of an encoding or of an extension begins with: `use crate::prelude::*`. A crate of its own has the public part
//! of it in `longwave::prelude`.

pub use crate::distance::{DistanceBias, bias_by_distance};
pub use crate::encoding::{
    BiasUse, Capabilities, Configure, Dimensions, Domain, Extrapolation, Geometry, HeadUse, Heads, HiddenUse,
    LayerInput, Position, PositionMap, PositionUse, QueryBlock, Rows, ScoreForm, ScoreUse, Selector,
};
pub use crate::extension::{
    Band, Example, Lengths, Scale, Shifts, change_frequencies, divide_positions, not_applicable, set_geometry,
};
pub use crate::frequency::{Frequencies, Rotation, Side};
pub use crate::init::Init;
pub use crate::parameter::ParameterSpec;
pub use crate::per_layer::at_layer;
pub use crate::positions::Positions;
pub use crate::reading::Reading;
pub use crate::summary::Summary;
pub use crate::tokens::Tokens;
pub use crate::upload::upload;
pub use burn::module::{Module, Param};
pub use burn::tensor::{Device, Int, Tensor, TensorData};
pub use longwave_core::{Error, Result};
pub use longwave_kernels::{Bias, Layout};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

pub(crate) use crate::distance::{as_block, consecutive, of_block};
pub(crate) use crate::encoding::{
    check_above, check_at_least, check_at_most, check_base, check_even_width, check_hidden, check_not_below,
    check_positive, check_without,
};
pub(crate) use crate::extension::{Farthest, change_encodings, check_attention_factor, narrow};
pub(crate) use crate::upload::upload_shaped;
pub(crate) use longwave_kernels::device::constant;
