//! `dapple serve` as a process of its own.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that dies with the test.
pub(crate) struct PageServer {
    child: Child,
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Drop for PageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PageServer {
    /// Starts `dapple serve` with these arguments in a folder, and reads where it is.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(["serve", "--no-open"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().to_owned();
        let (place, token) = url.split_once("/?token=").unwrap();
        let port = place.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
        Self { child, port, token: token.to_owned(), url }
    }
}
