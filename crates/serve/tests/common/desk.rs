//! Runs for servers that have none.

use dapple_serve::{RunDesk, RunSettings};

/// A desk that was given nothing to train and finds no run.
pub(crate) fn empty_desk() -> RunDesk {
    let folder = std::env::temp_dir().join("no-such-folder-of-runs");
    let program = "no-such-program".into();
    RunDesk::new(RunSettings {
        program,
        folder,
        only: None,
        plan: None,
        name: "run".to_owned(),
        arguments: Vec::new(),
    })
}
