//! Whether the processor has registers of 512 bits.

use std::sync::LazyLock;

/// Whether the processor has registers of 512 bits; under Miri plain loops take their place.
pub(super) fn applies() -> bool {
    static APPLIES: LazyLock<bool> = LazyLock::new(|| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return is_x86_feature_detected!("avx512f");
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return cfg!(miri);
    });
    *APPLIES
}
