//! The allocator: counted where `bench` asks for it, and asked to keep freed memory for the next step.
//!
//! Every step makes and frees the same large buffers. glibc gives such blocks back to the kernel at once
//! and takes them again, and the page faults cost about a fifth of the CPU time of a training step.
//!
//! Large blocks begin a line of the cache: every other read of a whole vector would touch two lines otherwise. The
//! largest ask the kernel for huge pages, where Linux gives them to those who ask: copying 64 MiB takes two thirds of
//! the time, since few addresses have to be looked up.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its contract; `tests/sanitize.sh` runs it under Miri"
)]

use longwave_bench::peak_memory::CountedAllocator;
use std::alloc::{GlobalAlloc, Layout};

#[global_allocator]
static ALLOCATOR: Lined = Lined;

/// Bytes of a cache's line.
const LINE: usize = 64;
/// Blocks of so many bytes begin a line.
const LARGE: usize = 1 << 14;
/// Bytes of a huge page.
#[cfg(any(target_os = "linux", test))]
const HUGE_PAGE: usize = 1 << 21;

/// [`CountedAllocator`], with large blocks at the start of a line.
struct Lined;

/// What is asked of the inner allocator: always the same for the same layout.
fn lined(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(LINE).unwrap_or(layout) }
}

// SAFETY: every call goes to the inner allocator, with a layout that follows from the one it came with and is at
// least as strict.
unsafe impl GlobalAlloc for Lined {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, and the size is the same.
        let block = unsafe { CountedAllocator.alloc(lined(layout)) };
        ask_for_huge_pages(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: the caller keeps the contract of `alloc_zeroed`.
            return unsafe { CountedAllocator.alloc_zeroed(layout) };
        }
        // SAFETY: as above; the block holds `size` bytes if there is one.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the block was allocated with `lined(layout)`.
        unsafe { CountedAllocator.dealloc(pointer, lined(layout)) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: the caller keeps the contract of `realloc`, and neither layout is changed.
            return unsafe { CountedAllocator.realloc(pointer, layout, size) };
        }
        // SAFETY: the caller promises that `size` makes a layout with this alignment; both blocks hold the bytes
        // that are copied, and the old one is given back as it was allocated.
        unsafe {
            let block = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !block.is_null() {
                block.copy_from_nonoverlapping(pointer, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            block
        }
    }
}

/// Asks for huge pages where whole ones fit in the block.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(block: *mut u8, size: usize) {
    if block.is_null() || size < 2 * HUGE_PAGE {
        return;
    }
    let start = block.addr().next_multiple_of(HUGE_PAGE);
    let end = (block.addr() + size) / HUGE_PAGE * HUGE_PAGE;
    // SAFETY: the range lies inside the block, and the advice changes no content. A kernel without huge pages
    // refuses, and nothing is lost.
    unsafe { libc::madvise(block.with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE) };
}

/// Asks for huge pages where whole ones fit in the block.
#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: usize) {}

/// Tells glibc to keep what is freed; elsewhere nothing changes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_freed_memory() {
    // No block of any size is mapped on its own: glibc would take thresholds up to 32 MiB only, and the
    // page faults of a fresh 64 MiB take four times as long as rotating it.
    for (option, bytes) in [(libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, i32::MAX)] {
        // SAFETY: `mallopt` may be called at any time; it only changes the allocator's limits.
        let accepted = unsafe { libc::mallopt(option, bytes) };
        if accepted == 0 {
            tracing::debug!("the allocator refused option {option}");
        }
    }
}

/// Tells glibc to keep what is freed; elsewhere nothing changes.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_freed_memory() {}

#[cfg(test)]
mod memory_safety {
    use super::{HUGE_PAGE, LARGE, LINE, Lined};
    use std::alloc::{GlobalAlloc, Layout};

    /// Sizes on both sides of the border, and, where the system is asked for huge pages, one that holds some. Miri
    /// knows no `madvise`.
    fn sizes() -> Vec<usize> {
        let mut sizes = vec![1, 100, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE];
        if !cfg!(miri) {
            sizes.push(3 * HUGE_PAGE + 5);
        }
        sizes
    }

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes_when_they_grow_and_shrink() {
        for size in sizes() {
            for align in [1, 16, 2 * LINE] {
                for new_size in sizes() {
                    for zeroed in [false, true] {
                        check_block(Layout::from_size_align(size, align).unwrap(), new_size, zeroed);
                    }
                }
            }
        }
    }

    /// Takes a block, fills it, changes its size and gives it back.
    fn check_block(layout: Layout, new_size: usize, zeroed: bool) {
        let new_layout = Layout::from_size_align(new_size, layout.align()).unwrap();
        // SAFETY: neither size is 0; every block is used within its size, and given back once with its layout.
        unsafe {
            let block = if zeroed { Lined.alloc_zeroed(layout) } else { Lined.alloc(layout) };
            check_address(block, layout);
            if zeroed {
                let bytes = std::slice::from_raw_parts(block, layout.size());
                assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
            }
            block.write_bytes(7, layout.size());
            let block = Lined.realloc(block, layout, new_size);
            check_address(block, new_layout);
            let kept = std::slice::from_raw_parts(block, layout.size().min(new_size));
            assert!(kept.iter().all(|byte| *byte == 7), "{layout:?} to {new_size}");
            block.write_bytes(1, new_size);
            Lined.dealloc(block, new_layout);
        }
    }

    fn check_address(block: *mut u8, layout: Layout) {
        assert!(!block.is_null(), "{layout:?}");
        let align = if layout.size() < LARGE { layout.align() } else { layout.align().max(LINE) };
        assert!(block.addr().is_multiple_of(align), "{layout:?}");
    }
}
