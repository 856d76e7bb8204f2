//! Ctrl-C, and the signals by which a system ends a process or a terminal goes away: at once for most verbs; in order where a run is under
//! way.

use std::sync::atomic::{AtomicBool, Ordering};

static ORDERLY: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens from now on.
pub(crate) fn install() {
    // Files appear by one rename each, so an interrupt at any moment leaves none half-written. Where no handler can be set,
    // the signal itself ends the process with the same code as seen by a shell.
    let _ = ctrlc::set_handler(|| {
        let first = !ASKED.swap(true, Ordering::SeqCst);
        if !(first && ORDERLY.load(Ordering::SeqCst)) {
            std::process::exit(130);
        }
    });
}

/// From now on the first interrupt asks, and only the second ends the process.
pub(crate) fn ask_first() {
    ORDERLY.store(true, Ordering::SeqCst);
}

/// Whether somebody asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
