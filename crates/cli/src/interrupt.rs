//! Ctrl-C and SIGTERM ask the program to stop at the next safe place.

use longwave_core::{Error, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<std::result::Result<(), String>> = OnceLock::new();

/// From now on the signals set a flag instead of ending the program.
pub(crate) fn install() -> Result<()> {
    let installed = INSTALLED.get_or_init(|| {
        ctrlc::set_handler(|| {
            if ASKED.swap(true, Ordering::Relaxed) {
                // Whoever asks twice does not want to wait for a checkpoint.
                #[allow(clippy::exit, reason = "a signal handler has nothing to return to")]
                std::process::exit(130);
            }
            crate::output::status("\nstopping at the end of this pass; once more stops at once");
        })
        .map_err(|error| error.to_string())
    });
    installed.clone().map_err(|error| Error::failed(format!("cannot listen for Ctrl-C: {error}")))
}

/// Asks the program to stop, as a signal would.
pub(crate) fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether a signal has come.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Ends work that a signal asks to stop; `said` is what the user reads.
pub(crate) fn check(said: &str) -> Result<()> {
    if asked() { Err(Error::interrupted(said)) } else { Ok(()) }
}
