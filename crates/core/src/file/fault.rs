//! Faults on purpose, so that tests can let every operation on a file fail once.
//!
//! `LONGWAVE_FAULT=fail:N:MARK` lets the Nth operation of the process fail, and `kill:N:MARK` ends the process there without
//! any clean-up. `MARK` is a file that is then written, with the operation and its path. Without the variable an operation
//! costs one look at a number.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static PLAN: LazyLock<Option<Plan>> = LazyLock::new(Plan::read);

struct Plan {
    kills: bool,
    at: u64,
    mark: String,
    done: AtomicU64,
}

impl Plan {
    fn read() -> Option<Self> {
        let text = std::env::var("LONGWAVE_FAULT").ok()?;
        let mut parts = text.splitn(3, ':');
        let kills = parts.next()? == "kill";
        let at = parts.next()?.parse().ok()?;
        Some(Self { kills, at, mark: parts.next()?.to_owned(), done: AtomicU64::new(0) })
    }
}

/// Counts an operation on a file that is about to be done.
///
/// # Errors
/// A test wants this one to fail.
pub fn pass(operation: &str, path: &Path) -> io::Result<()> {
    let Some(plan) = &*PLAN else { return Ok(()) };
    if plan.done.fetch_add(1, Ordering::Relaxed) + 1 != plan.at {
        return Ok(());
    }
    fs::write(&plan.mark, format!("{operation} {}", path.display()))?;
    if plan.kills {
        std::process::abort();
    }
    Err(io::Error::other("a fault on purpose"))
}
