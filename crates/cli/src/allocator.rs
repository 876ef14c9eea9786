//! The allocator: counted where `bench` asks for it, and told to keep freed memory for the next step.
//!
//! Every step makes and frees the same large buffers. glibc gives such blocks back to the kernel at once
//! and takes them anew, and the page faults cost about a fifth of the CPU time of a training step.

#[global_allocator]
static ALLOCATOR: longwave_bench::memory::CountedAllocator = longwave_bench::memory::CountedAllocator;

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
