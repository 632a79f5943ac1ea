//! What the tests need beside Rust: Debian packages and the Python client. Installs what is missing and says so;
//! what cannot be had here is named loudly, and the tests that need it say that they are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::{is_there, output, run};
use crate::say;

/// Program that shows the package is there, its argument, and the Debian package.
const DEBIAN: &[(&str, &str, &str)] = &[
    ("curl", "--version", "curl"),
    ("python3", "--version", "python3"),
    ("openssl", "version", "openssl"),
    ("busybox", "--help", "busybox-static"),
];

/// The lowest kubectl that the tests are written for.
const KUBECTL_MINOR: u32 = 32;

/// Where the tests find the tools.
pub(crate) struct Tools {
    pub(crate) kubectl: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
}

impl Tools {
    /// The tests read these variables; an absent one means "skip, and say so".
    pub(crate) fn export(&self, command: &mut Command) {
        for (name, value) in
            [("XEBEC_TEST_KUBECTL", &self.kubectl), ("XEBEC_TEST_PYTHON", &self.python)]
        {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
    }
}

pub(crate) fn install(root: &Path) -> Result<Tools> {
    let missing: Vec<&str> = DEBIAN
        .iter()
        .filter(|(program, argument, _)| !is_there(program, argument))
        .map(|(_, _, package)| *package)
        .collect();
    if !missing.is_empty() {
        say(&format!("installing Debian packages: {}", missing.join(" ")));
        run(Command::new("apt-get").args(["update", "-q"]))?;
        run(Command::new("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(&missing))?;
    }
    let tools = Tools { kubectl: find_kubectl(), python: python_client(root) };
    if tools.kubectl.is_none() {
        say(&format!(
            "WARNING: no kubectl 1.{KUBECTL_MINOR} or later on PATH (Debian has none): the kubectl tests SKIP"
        ));
    }
    if tools.python.is_none() {
        say("WARNING: the Python client `kubernetes` could not be installed: its test SKIPS");
    }
    Ok(tools)
}

/// `XEBEC_TEST_KUBECTL`, or the one on PATH, if it is new enough.
fn find_kubectl() -> Option<PathBuf> {
    let candidate = std::env::var_os("XEBEC_TEST_KUBECTL")
        .map_or_else(|| PathBuf::from("kubectl"), PathBuf::from);
    let version =
        output(Command::new(&candidate).args(["version", "--client", "-o", "json"])).ok()?;
    let version: serde_json::Value = serde_json::from_str(&version).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    let minor: u32 = minor.trim_end_matches(|it: char| !it.is_ascii_digit()).parse().ok()?;
    (minor >= KUBECTL_MINOR).then_some(candidate)
}

/// A virtual environment below `target/` with the Python client, made once.
fn python_client(root: &Path) -> Option<PathBuf> {
    let environment = root.join("target/test-python");
    let python = environment.join("bin/python");
    let has_client = || {
        Command::new(&python)
            .args(["-c", "import kubernetes"])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    if !has_client() {
        say("installing the Python client `kubernetes` below target/test-python");
        let made =
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).or_else(|_| {
                // Debian splits venv from Python.
                run(Command::new("apt-get").args(["install", "-y", "-q", "python3-venv"]))?;
                run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            });
        made.and_then(|()| {
            run(Command::new(&python).args(["-m", "pip", "install", "-q", "kubernetes"]))
        })
        .ok()?;
    }
    has_client().then_some(python)
}
