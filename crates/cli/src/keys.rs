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
    ($(
        $(#[$about:meta])*
        $seen:vis struct $Name:ident {
            $($(#[$meaning:meta])* $key_seen:vis $key:ident: $Type:ty = $default:expr),* $(,)?
        }
    )*) => {$(
        $(#[$about])*
        #[derive(
            Clone,
            Debug,
            PartialEq,
            $crate::serde::Serialize,
            $crate::serde::Deserialize,
            $crate::schemars::JsonSchema,
        )]
        #[serde(deny_unknown_fields, default, crate = "longwave::serde")]
        #[schemars(crate = "longwave::schemars")]
        $seen struct $Name {
            $($(#[$meaning])* $key_seen $key: $Type,)*
        }

        impl ::std::default::Default for $Name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    )*};
}
