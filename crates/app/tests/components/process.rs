//! Components as processes of their own, and what their servers answer.

use std::process::{Child, Command};

/// Ends when the test does.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status code and the body.
pub(crate) fn get(port: &str, path: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new("curl")
        .args(["-ksS", "--max-time", "20", "-w", "\n%{http_code}"])
        .args(arguments)
        .arg(format!("https://127.0.0.1:{port}{path}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, code) = text.rsplit_once('\n').unwrap_or(("", ""));
    (code.to_owned(), body.to_owned())
}
