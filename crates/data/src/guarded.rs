//! Calls into libraries that panic on files that they should reject.

use longwave_core::{Error, Result};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is made an error, whose message says all.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a library: its panic is an error here. `what` is what the library reads.
pub(crate) fn guarded<T>(what: &str, call: impl FnOnce() -> T) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    GUARDED.set(true);
    // What the call changes is its own, and is not used after a panic.
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(false);
    result.map_err(|said| {
        let text = said.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| said.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Error::failed(format!("the library of {what} fails on it: {text}"))
    })
}
