//! What the tests need beside Rust: Debian packages, and packages of Python and JavaScript. Installs
//! what is missing and says so; what cannot be had here is named loudly, and the tests that need it say that they
//! are skipped, or fail: those of other clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{is_there, output, run};
use crate::say;

/// Program that shows the package is there, its argument, and the Debian package.
const DEBIAN: &[(&str, &str, &str)] = &[
    ("curl", "--version", "curl"),
    ("node", "--version", "nodejs"),
    ("npm", "--version", "npm"),
    ("python3", "--version", "python3"),
    ("openssl", "version", "openssl"),
    ("busybox", "--help", "busybox-static"),
    ("ip", "-V", "iproute2"),
    ("nft", "--version", "nftables"),
    ("iptables-nft", "--version", "iptables"),
    ("nsenter", "--version", "util-linux"),
    ("script", "--version", "bsdutils"),
    ("qemu-system-x86_64", "--version", "qemu-system-x86"),
];

/// Packages whose programs the tests put into images or run as peers. Unpacked below `target/`, not
/// installed: installing would start servers. The first column is what shows that it is there.
const UNPACKED: &[(&str, &str)] = &[
    ("usr/bin/containerd", "containerd"),
    ("usr/lib/cni/ptp", "containernetworking-plugins"),
    ("usr/sbin/runc", "runc"),
    ("usr/bin/docker-registry", "docker-registry"),
    ("usr/sbin/bird", "bird2"),
    ("usr/lib/x86_64-linux-gnu/libssh-gcrypt.so.4", "libssh-gcrypt-4"),
    ("usr/bin/etcd", "etcd-server"),
    ("usr/bin/etcdctl", "etcd-client"),
    ("usr/sbin/nginx", "nginx"),
];

/// Unpacked programs that the tests name by a variable of their own, since they must be Debian's.
const NAMED: &[(&str, &str)] =
    &[("XEBEC_TEST_ETCD", "usr/bin/etcd"), ("XEBEC_TEST_ETCDCTL", "usr/bin/etcdctl")];

/// The kernel of the guest that has cgroups of version 2 alone: the package that depends on the
/// current one.
const KERNEL: &str = "linux-image-amd64";

/// The modules of Python that tests import, and the packages that have them.
const PYTHON: &[(&str, &str)] = &[
    ("dask_kubernetes", "dask-kubernetes==2026.3.0"),
    ("kopf", "kopf==1.45.2"),
    ("kubernetes", "kubernetes==37.0.2"),
];

/// The client of JavaScript; later versions need a newer Node.js than Debian has.
const JAVASCRIPT: &str = "@kubernetes/client-node@1";

/// The lowest kubectl that the tests are written for.
const KUBECTL_MINOR: u32 = 32;

/// Where the tests find the tools.
pub(crate) struct Tools {
    pub(crate) kubectl: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
    /// The folder with `node_modules`.
    node: Option<PathBuf>,
    /// The root of the unpacked packages.
    unpacked: PathBuf,
}

impl Tools {
    /// The tests read these variables; an absent one means "skip, and say so".
    pub(crate) fn export(&self, command: &mut Command) {
        for (name, value) in [
            ("XEBEC_TEST_KUBECTL", &self.kubectl),
            ("XEBEC_TEST_NODE", &self.node),
            ("XEBEC_TEST_PYTHON", &self.python),
        ] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        for (name, program) in NAMED {
            let program = self.unpacked.join(program);
            if program.exists() {
                command.env(name, program);
            }
        }
        if has_kernel(&self.unpacked) {
            command.env("XEBEC_TEST_KERNEL", &self.unpacked);
        }
        if self.unpacked.join("usr/bin/containerd").exists() {
            command.env("XEBEC_TEST_CONTAINERD", &self.unpacked);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ours = ["usr/bin", "usr/sbin"].map(|it| self.unpacked.join(it));
        let all = ours.into_iter().chain(std::env::split_paths(&path));
        // Only a name with a colon in it cannot be joined; then the tests say what they miss.
        if let Ok(path) = std::env::join_paths(all) {
            command.env("PATH", path);
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
    let unpacked = root.join("target/test-packages");
    if let Err(err) = unpack_programs(&unpacked) {
        say(&format!("WARNING: {err:#}: tests that need these packages SKIP"));
    }
    if let Err(err) = unpack_kernel(&unpacked) {
        say(&format!("WARNING: {err:#}: the test in a guest SKIPS"));
    }
    let (python, node) = (python_packages(root), javascript_client(root));
    let tools = Tools { kubectl: find_kubectl(), python, node, unpacked };
    if tools.kubectl.is_none() {
        say(&format!(
            "WARNING: no kubectl 1.{KUBECTL_MINOR} or later on PATH (Debian has none): the kubectl tests SKIP"
        ));
    }
    if tools.python.is_none() {
        let packages = python_names().join(" ");
        say(&format!("WARNING: Python's {packages} could not be installed: their tests fail"));
    }
    if tools.node.is_none() {
        say(&format!("WARNING: {JAVASCRIPT} could not be installed: its test fails"));
    }
    Ok(tools)
}

/// A program of the unpacked packages, which are fetched if they are not there.
pub(crate) fn unpacked_program(root: &Path, program: &str) -> Result<PathBuf> {
    let folder = root.join("target/test-packages");
    unpack_programs(&folder)?;
    Ok(folder.join(program))
}

fn unpack_programs(folder: &Path) -> Result<()> {
    let missing: Vec<&str> = UNPACKED
        .iter()
        .filter(|(program, _)| !folder.join(program).exists())
        .map(|(_, package)| *package)
        .collect();
    unpack(folder, &missing)
}

fn unpack_kernel(folder: &Path) -> Result<()> {
    if has_kernel(folder) {
        return Ok(());
    }
    // `  Depends: linux-image-6.1.0-48-amd64`, whose name changes with every version.
    let depends = output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let current = depends.lines().find_map(|it| it.trim().strip_prefix("Depends: "));
    let current = current.with_context(|| format!("{KERNEL} depends on no kernel"))?;
    unpack(folder, &[current])
}

fn has_kernel(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder.join("boot")) else { return false };
    entries.flatten().any(|it| it.file_name().to_string_lossy().starts_with("vmlinuz-"))
}

fn unpack(folder: &Path, missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("unpacking Debian packages below target/test-packages: {}", missing.join(" ")));
    std::fs::create_dir_all(folder)?;
    let download = || {
        let mut command = Command::new("apt-get");
        run(command.args(["download", "-q"]).args(missing).current_dir(folder))
    };
    if download().is_err() {
        run(Command::new("apt-get").args(["update", "-q"]))?;
        download()?;
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            run(Command::new("dpkg").arg("-x").arg(&path).arg(folder))?;
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
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

fn python_names() -> Vec<&'static str> {
    PYTHON.iter().map(|(_, package)| *package).collect()
}

/// A virtual environment below `target/` with what tests import, made once.
fn python_packages(root: &Path) -> Option<PathBuf> {
    let environment = root.join("target/test-python");
    let python = environment.join("bin/python");
    let has_all = || {
        let modules: Vec<&str> = PYTHON.iter().map(|(module, _)| *module).collect();
        let import = format!("import {}", modules.join(", "));
        Command::new(&python).args(["-c", &import]).output().is_ok_and(|it| it.status.success())
    };
    if !has_all() {
        let packages = python_names();
        say(&format!("installing Python's {} below target/test-python", packages.join(" ")));
        let made =
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).or_else(|_| {
                // Debian splits venv from Python.
                run(Command::new("apt-get").args(["install", "-y", "-q", "python3-venv"]))?;
                run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            });
        made.and_then(|()| {
            run(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(&packages))
        })
        .ok()?;
    }
    has_all().then_some(python)
}

/// A folder below `target/` with the client of JavaScript, made once.
fn javascript_client(root: &Path) -> Option<PathBuf> {
    let folder = root.join("target/test-node");
    let is_there = || folder.join("node_modules/@kubernetes/client-node/dist/index.js").exists();
    if !is_there() {
        say(&format!("installing {JAVASCRIPT} below target/test-node"));
        std::fs::create_dir_all(&folder).ok()?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(JAVASCRIPT);
        run(&mut npm).ok()?;
    }
    is_there().then_some(folder)
}
