//! Ctrl-C, and the signals by which a system ends a process or a terminal goes away. They end most verbs at once, and a run in order.

use std::sync::atomic::{AtomicBool, Ordering};

static ORDERLY: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Sets the handler of these signals.
pub(crate) fn install() {
    // Files appear by one rename each, so an interrupt leaves none half-written. If no handler can be set, the signal itself ends the
    // process, with the same exit code as a shell sees it.
    let _ = ctrlc::set_handler(|| {
        let first = !ASKED.swap(true, Ordering::SeqCst);
        if !(first && ORDERLY.load(Ordering::SeqCst)) {
            std::process::exit(130);
        }
    });
}

/// From now on the first interrupt only asks to stop, and the second ends the process.
pub(crate) fn ask_first() {
    ORDERLY.store(true, Ordering::SeqCst);
}

/// Whether somebody asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
