//! Keys of an encoding or an extension, each with its default.

/// Declares structs of keys as a config has them: an encoding's [`Configure`](crate::prelude::Configure) or an
/// [`Extend`](crate::prelude::Extend). Each key has a default, and an unknown key is an error. The comment on a key is what
/// `longwave schema` says of it.
///
/// ```ignore
/// longwave::keys! {
///     /// Keys of `kind = "log_distance"`.
///     pub struct Config {
///         /// The slope of every head before training.
///         pub slope: f64 = 1.0,
///     }
/// }
/// ```
#[macro_export]
macro_rules! keys {
    ($($keys:tt)*) => {
        $crate::position::keys_with!("longwave::serde", "longwave::schemars"; $($keys)*);
    };
}
