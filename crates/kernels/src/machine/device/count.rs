//! What a GPU is told to do: launches of kernels and bytes uploaded, counted.
//!
//! A small model is bound by the number of its launches: on a GPU each takes some microseconds, however little it
//! computes. An upload waits for the host.

use std::collections::BTreeMap;

/// What some work told GPUs to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often each kernel was launched, by its name.
    pub launches: BTreeMap<String, usize>,
    /// Bytes that were copied from the host ([`super::upload()`], [`super::constant`]).
    pub uploaded: u64,
}

impl Counts {
    /// The launches of all kernels.
    pub fn launched(&self) -> usize {
        self.launches.values().sum()
    }
}

/// What some work returns, and what this thread told GPUs meanwhile; nothing on the CPU.
#[cfg(feature = "gpu")]
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::thread::{self, ThreadId};

    struct Kernels {
        thread: ThreadId,
        counts: Mutex<BTreeMap<&'static str, usize>>,
    }

    impl LaunchObserver for Kernels {
        fn launched(&self, kernel: &'static str) {
            if thread::current().id() == self.thread {
                *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(kernel).or_default() += 1;
            }
        }
    }

    let kernels = Arc::new(Kernels { thread: thread::current().id(), counts: Mutex::default() });
    let before = super::upload::uploaded();
    let watching = LaunchObservation::new(Arc::clone(&kernels) as Arc<dyn LaunchObserver>);
    let result = work();
    drop(watching);
    let mut counts = Counts { uploaded: super::upload::uploaded() - before, ..Counts::default() };
    for (kernel, count) in &*kernels.counts.lock().unwrap_or_else(PoisonError::into_inner) {
        *counts.launches.entry(short(kernel)).or_default() += count;
    }
    (result, counts)
}

/// What some work returns; without a GPU in this build there is nothing to count.
#[cfg(not(feature = "gpu"))]
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    (work(), Counts::default())
}

/// The name of a kernel's type without its path and without the types that it was made for.
#[cfg(feature = "gpu")]
fn short(kernel: &str) -> String {
    let name = kernel.split('<').next().unwrap_or(kernel);
    name.rsplit("::").next().unwrap_or(name).to_owned()
}
