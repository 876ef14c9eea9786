//! Faults on purpose, so that tests can let every operation on a file fail once.
//!
//! `LONGWAVE_FAULT=fail:N:MARK` lets the Nth operation of the process fail, and `kill:N:MARK` ends the process there without
//! any clean-up. `MARK` is a file that is then written, with the operation and its path. `power:N:MARK` ends this process and
//! all that it has started at their Nth operation, counted together, and `MARK.disk` then holds what had reached the disk
//! ([`Disk`]). Without the variable an operation costs one look at a number.

mod disk;

pub use disk::Disk;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static PLAN: LazyLock<Option<Plan>> = LazyLock::new(Plan::read);

enum Fault {
    Fail,
    Kill,
    Power(Disk),
}

struct Plan {
    kind: Fault,
    at: u64,
    mark: PathBuf,
    done: AtomicU64,
}

impl Plan {
    fn read() -> Option<Self> {
        let text = std::env::var("LONGWAVE_FAULT").ok()?;
        let mut parts = text.splitn(3, ':');
        let (kind, at, mark) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let kind = match kind {
            "kill" => Fault::Kill,
            "power" => Fault::Power(Disk::of(Path::new(mark))),
            _ => Fault::Fail,
        };
        Some(Self { kind, at, mark: PathBuf::from(mark), done: AtomicU64::new(0) })
    }

    /// Does something to the picture of the disk, if there is one, unless the power is gone already.
    fn with_disk(&self, act: impl FnOnce(&Disk) -> io::Result<()>) -> io::Result<()> {
        let Fault::Power(disk) = &self.kind else { return Ok(()) };
        let _lock = disk.lock()?;
        if self.mark.exists() {
            std::process::abort();
        }
        act(disk)
    }

    fn reached(&self, operation: &str, path: &Path) -> io::Result<()> {
        fs::write(&self.mark, format!("{operation} {}", path.display()))
    }
}

/// Counts an operation on a file that is about to be done.
///
/// # Errors
/// A test wants this one to fail.
pub fn pass(operation: &str, path: &Path) -> io::Result<()> {
    let Some(plan) = &*PLAN else { return Ok(()) };
    if matches!(plan.kind, Fault::Power(_)) {
        return plan.with_disk(|disk| {
            if disk.count()? == plan.at {
                plan.reached(operation, path)?;
                std::process::abort();
            }
            Ok(())
        });
    }
    if plan.done.fetch_add(1, Ordering::Relaxed) + 1 != plan.at {
        return Ok(());
    }
    plan.reached(operation, path)?;
    if matches!(plan.kind, Fault::Kill) {
        std::process::abort();
    }
    Err(io::Error::other("a fault on purpose"))
}

/// Notes that what a file holds has reached the disk.
pub fn synced(path: &Path) -> io::Result<()> {
    PLAN.as_ref().map_or(Ok(()), |plan| plan.with_disk(|disk| disk.keep_file(path)))
}

/// Notes that the names in a folder have reached the disk.
pub fn synced_folder(path: &Path) -> io::Result<()> {
    PLAN.as_ref().map_or(Ok(()), |plan| plan.with_disk(|disk| disk.keep_names(path)))
}
