//! The process that trains a run.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::error::ServeError;

/// How many lines of what a process says are kept.
const LINES: usize = 50;
/// The longest line that is kept.
const LONGEST: usize = 2000;

/// A process that trains a run. It lives on if the server ends or dies, because nothing ends it but its work, and a request to stop.
#[derive(Debug)]
pub(super) struct RunProcess {
    child: Child,
    /// What it said last on stderr.
    said: Arc<Mutex<VecDeque<String>>>,
    /// The plan that it reads, kept until it has ended.
    _plan: Option<NamedTempFile>,
}

impl RunProcess {
    /// Starts the program with these arguments.
    pub(super) fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        plan: Option<NamedTempFile>,
    ) -> Result<Self, ServeError> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ServeError::Launch { source })?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let heard = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let line: String =
                        line.chars().filter(|letter| !letter.is_control()).take(LONGEST).collect();
                    let mut lines = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    if lines.len() == LINES {
                        lines.pop_front();
                    }
                    lines.push_back(line);
                }
            });
        }
        Ok(Self { child, said, _plan: plan })
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The error that it ended with, as it told it.
    pub(super) fn problem(&mut self) -> Option<String> {
        // 130 is the exit code of a run that was asked to stop.
        let failed = matches!(self.child.try_wait(), Ok(Some(status)) if !status.success() && status.code() != Some(130));
        if !failed {
            return None;
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let told: Vec<&str> = said
            .iter()
            .filter_map(|line| line.strip_prefix("error: ").or_else(|| line.strip_prefix("hint: ")))
            .collect();
        Some(if told.is_empty() { "the process ended without a word".to_owned() } else { told.join("; ") })
    }

    /// Asks it to stop in order, by the signal of an interrupt. The process is a child that was not waited for, so its number is still its own.
    #[cfg(unix)]
    pub(super) fn interrupt(&mut self) -> bool {
        use nix::sys::signal::{Signal, kill};
        use nix::unistd::Pid;

        i32::try_from(self.child.id()).is_ok_and(|id| kill(Pid::from_raw(id), Signal::SIGINT).is_ok())
    }

    /// This system has no such signal.
    #[cfg(not(unix))]
    pub(super) fn interrupt(&mut self) -> bool {
        false
    }
}
