//! The launches of kernels on GPUs, counted.
//!
//! A small model is bound by the number of its launches: on a GPU each takes some microseconds, however little it
//! computes.

use std::collections::BTreeMap;

/// How often each kernel was launched, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches(pub BTreeMap<String, usize>);

impl Launches {
    /// Of all kernels.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

/// What some work returns, and the kernels that any thread of the process launched meanwhile; none on the CPU. What is
/// held back (by burn's fusion) counts when it is launched.
#[cfg(feature = "gpu")]
pub fn launches<T>(work: impl FnOnce() -> T) -> (T, Launches) {
    use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver};
    use std::sync::{Arc, Mutex, PoisonError};

    #[derive(Default)]
    struct Counts(Mutex<BTreeMap<&'static str, usize>>);

    impl LaunchObserver for Counts {
        fn launched(&self, kernel: &'static str) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kernel).or_default() += 1;
        }
    }

    let counts = Arc::new(Counts::default());
    let watching = LaunchObservation::new(Arc::clone(&counts) as Arc<dyn LaunchObserver>);
    let result = work();
    drop(watching);
    let mut launches = Launches::default();
    for (kernel, count) in &*counts.0.lock().unwrap_or_else(PoisonError::into_inner) {
        *launches.0.entry(short(kernel)).or_default() += count;
    }
    (result, launches)
}

/// What some work returns; without a GPU in this build nothing is launched.
#[cfg(not(feature = "gpu"))]
pub fn launches<T>(work: impl FnOnce() -> T) -> (T, Launches) {
    (work(), Launches::default())
}

/// The name of a kernel's type without its path and without the types that it was made for.
#[cfg(feature = "gpu")]
fn short(kernel: &str) -> String {
    let name = kernel.split('<').next().unwrap_or(kernel);
    let mut parts = name.rsplit("::");
    let last = parts.next().unwrap_or(name);
    match parts.next() {
        Some(module) => format!("{module}::{last}"),
        None => last.to_owned(),
    }
}
