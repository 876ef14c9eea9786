//! The most memory that a piece of work holds, counted where it is allocated.

#![expect(unsafe_code, reason = "an allocator is unsafe by its contract")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counted while [`peak`] runs; a program installs it as its global allocator.
#[derive(Debug)]
pub struct CountedAllocator;

fn took(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        let held = HELD.fetch_add(bytes.cast_signed(), Ordering::Relaxed) + bytes.cast_signed();
        MOST.fetch_max(held, Ordering::Relaxed);
    }
}

fn gave_back(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        HELD.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for CountedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        gave_back(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size);
        gave_back(layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work`; the second value is the most bytes held at once beyond those held before it. `None` where
/// nothing is counted: memory of a GPU, or a program with another allocator.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    HELD.store(0, Ordering::Relaxed);
    MOST.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    // A program with another allocator counts nothing here.
    let counted = Box::new([0_u8; 64]);
    drop(std::hint::black_box(counted));
    let counts = MOST.load(Ordering::Relaxed) > 0;
    HELD.store(0, Ordering::Relaxed);
    MOST.store(0, Ordering::Relaxed);
    let result = work();
    COUNTING.store(false, Ordering::Relaxed);
    (result, counts.then(|| MOST.load(Ordering::Relaxed).max(0).unsigned_abs() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;

    #[global_allocator]
    static ALLOCATOR: CountedAllocator = CountedAllocator;

    #[test]
    fn counts_what_is_held_at_once() {
        let _alone = alone();
        let before = vec![1_u8; 1 << 20];
        let ((), one) = peak(|| {
            for _ in 0..4 {
                drop(std::hint::black_box(vec![1_u8; 8 << 20]));
            }
        });
        let (_, both) = peak(|| {
            let first = std::hint::black_box(vec![1_u8; 8 << 20]);
            drop(before);
            std::hint::black_box(vec![first[0]; 16 << 20]).len()
        });
        let near = |bytes: Option<u64>, mebibytes: u64| {
            bytes.is_some_and(|bytes| bytes.abs_diff(mebibytes << 20) < 1 << 19)
        };
        assert!(near(one, 8), "{one:?}");
        assert!(near(both, 23), "{both:?}");
    }
}
