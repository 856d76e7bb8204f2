//! A headless Chromium that its driver steers, for tests of pages, where both are installed.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one window.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call("DELETE", "", &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts a browser; `None` where there is none.
    pub(crate) fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let quiet = || Stdio::null();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(quiet())
            .stderr(quiet())
            .spawn();
        let Ok(driver) = driver else {
            eprintln!("not tested: there is no chromedriver on the path");
            return None;
        };
        let mut browser = Self { driver, port, session: String::new() };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the driver does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let options = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": arguments }, "goog:loggingPrefs": { "browser": "ALL" } } } });
        let made = browser.call("POST", "", &options).unwrap();
        browser.session = made["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        Some(browser)
    }

    /// One command of the WebDriver protocol; the value that it answers.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let session = if self.session.is_empty() { String::new() } else { format!("/{}", self.session) };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "{method} /session{session}{path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let mut answer = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut answer)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        Ok(answer["value"].clone())
    }

    pub(crate) fn go(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url })).unwrap();
    }

    /// What a piece of script returns.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] })).unwrap()
    }

    /// Waits until a piece of script returns something that satisfies, and returns that.
    pub(crate) fn wait(&self, script: &str, satisfies: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.script(script);
            if satisfies(&found) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "{script}: still {found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The shown epsilon of a level, once it is another than `before`.
    pub(crate) fn epsilon(&self, level: usize, before: f64) -> f64 {
        let script = format!(
            "const shown = document.querySelectorAll('.level strong')[{level}]; return shown ? shown.textContent : ''"
        );
        let number =
            |value: &Value| value.as_str().and_then(|text| text.strip_prefix("≤ ")?.parse::<f64>().ok());
        number(&self.wait(&script, |value| number(value).is_some_and(|now| now != before))).unwrap()
    }

    /// Presses a key in whatever has the focus.
    pub(crate) fn press(&self, key: &str) {
        let strokes = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] });
        self.call("POST", "/actions", &actions).unwrap();
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        self.call("POST", "/goog/cdp/execute", &command).unwrap();
    }

    pub(crate) fn colours(&self, scheme: &str) {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call(
            "POST",
            "/goog/cdp/execute",
            &json!({ "cmd": "Emulation.setEmulatedMedia", "params": feature }),
        )
        .unwrap();
    }

    /// Keeps a picture of what is shown, if `DAPPLE_SCREENSHOTS` names a folder for it; the whole page, not only what fits into the window.
    pub(crate) fn keep(&self, name: &str) {
        let Some(folder) = std::env::var_os("DAPPLE_SCREENSHOTS") else { return };
        let command = json!({ "cmd": "Page.captureScreenshot", "params": { "captureBeyondViewport": true } });
        let shot = self.call("POST", "/goog/cdp/execute", &command).unwrap();
        let path = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(path, shot["data"].as_str().unwrap()).unwrap();
    }
}

/// Texts whose contrast with the page is below 4.5, the least for small letters (WCAG 2.1, 1.4.3).
pub(crate) const CONTRAST: &str = "
    const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 };
    const luminance = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b) };
    const paper = luminance(getComputedStyle(document.documentElement).backgroundColor);
    const found = [];
    for (const e of document.querySelectorAll('h1,h2,p,label,legend,output,dt,dd,strong,figcaption,summary')) {
        if (!e.textContent.trim() || !e.offsetParent) continue;
        const ink = luminance(getComputedStyle(e).color);
        const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (ratio < 4.5) found.push([e.outerHTML.slice(0, 80), ratio]);
    }
    return found;";
