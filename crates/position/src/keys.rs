//! Keys of an encoding or an extension, each with its default.

/// Declares structs of keys as a config has them. Each key has a default, and an unknown key is an error. One whose
/// default is `None` is written only where it is given. The comment on a key is what the schema says of it. The first two arguments are where serde and schemars are found; `keys!` of this crate and of the
/// program know them.
#[doc(hidden)]
#[macro_export]
macro_rules! keys_with {
    ($serde:tt, $schemars:tt; $(
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
        #[serde(deny_unknown_fields, default, crate = $serde)]
        #[schemars(crate = $schemars)]
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

macro_rules! keys {
    ($($keys:tt)*) => {
        $crate::keys_with!("serde", "schemars"; $($keys)*);
    };
}
