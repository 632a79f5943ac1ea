//! The guest: what is in it, how it is started, and what it told.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::archive::Archive;
use crate::modules;

const EMULATOR: &str = "qemu-system-x86_64";
/// Everything is emulated, and other tests may be running: usually it takes a minute.
const WAIT: Duration = Duration::from_mins(10);
/// From power on to our first program: usually ten seconds.
const WAIT_BOOT: Duration = Duration::from_mins(2);
/// Emulated processors that wait for each other have been seen to stand still before anything of
/// ours ran. What is ours is judged by one run alone.
const BOOTS_MAX: u32 = 3;
const STEP: Duration = Duration::from_millis(100);

const CONSOLE: &str = "console";
const KERNEL_LOG: &str = "kernel-log";
const INIT: &str = include_str!("init.sh");
const MANIFESTS: &[(&str, &str)] = &[
    ("manifests/busy.yaml", include_str!("manifests/busy.yaml")),
    ("manifests/family.yaml", include_str!("manifests/family.yaml")),
    ("manifests/hungry.yaml", include_str!("manifests/hungry.yaml")),
    ("manifests/web.yaml", include_str!("manifests/web.yaml")),
];

pub(crate) struct Machine {
    kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
    kubectl: Option<PathBuf>,
}

/// The lines `GUEST name=value` of the console.
pub(crate) struct Seen {
    values: BTreeMap<String, String>,
    pub(crate) console: String,
    kernel: String,
}

impl Seen {
    fn read(directory: &Path) -> Self {
        let text = |name| {
            let bytes = std::fs::read(directory.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\r', "")
        };
        let console = text(CONSOLE);
        Self { values: values(&console), console, kernel: text(KERNEL_LOG) }
    }

    fn has_booted(&self) -> bool {
        self.values.contains_key("booted")
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        let Some(value) = self.values.get(name) else {
            panic!("the guest did not tell {name}:\n{}\n{}", self.kernel, self.console)
        };
        value
    }
}

impl Machine {
    /// None, loudly, where there is something missing.
    pub(crate) fn find() -> Option<Self> {
        let machine = Self::look();
        if let Err(missing) = &machine {
            eprintln!("SKIPPED: no guest with cgroups of version 2: {missing}");
        }
        machine.ok()
    }

    fn look() -> Result<Self, String> {
        if std::env::consts::ARCH != "x86_64" {
            return Err("the guest's kernel is for x86_64".to_owned());
        }
        let version = Command::new(EMULATOR).arg("--version").output();
        if !version.is_ok_and(|it| it.status.success()) {
            return Err(format!("no {EMULATOR} (Debian package qemu-system-x86)"));
        }
        let busybox = on_path("busybox").ok_or("no busybox (Debian package busybox-static)")?;
        if !libraries(&busybox).is_empty() {
            return Err("busybox is not static (Debian package busybox-static)".to_owned());
        }
        let root = std::env::var_os("XEBEC_TEST_KERNEL").map(PathBuf::from).ok_or(
            "XEBEC_TEST_KERNEL does not name an unpacked package of Debian's kernel; `cargo xtask test` makes one",
        )?;
        let kernel = newest(&root.join("boot"), "vmlinuz-");
        let modules = ["lib/modules", "usr/lib/modules"]
            .into_iter()
            .find_map(|it| newest(&root.join(it), ""));
        let (Some(kernel), Some(modules)) = (kernel, modules) else {
            return Err(format!("no kernel in {}", root.display()));
        };
        let kubectl = std::env::var_os("XEBEC_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into());
        let kubectl = on_path(kubectl);
        if kubectl.is_none() {
            eprintln!("SKIPPED: what needs a kubectl in the guest");
        }
        Ok(Self { kernel, modules, busybox, kubectl })
    }

    pub(crate) fn has_kubectl(&self) -> bool {
        self.kubectl.is_some()
    }

    /// Returns when it has powered itself off, or was killed because it did not.
    pub(crate) fn run(&self) -> Seen {
        let directory = tempfile::tempdir().unwrap();
        self.fill(&directory.path().join("initramfs"));
        for boot in 1..=BOOTS_MAX {
            self.run_once(directory.path());
            let seen = Seen::read(directory.path());
            if seen.has_booted() || boot == BOOTS_MAX {
                return seen;
            }
            eprintln!(
                "the emulator did not come to our program, and starts again:\n{}",
                seen.kernel
            );
        }
        unreachable!("the last boot returns")
    }

    fn run_once(&self, directory: &Path) {
        let console = File::create(directory.join(CONSOLE)).unwrap();
        let mut emulator = Command::new(EMULATOR)
            .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "2048"])
            .args(["-nodefaults", "-nographic", "-no-reboot", "-net", "none", "-serial", "stdio"])
            .args(["-serial", &format!("file:{}", directory.join(KERNEL_LOG).display())])
            // The kernel speaks on a line of its own, not into ours; when it panics, the emulator
            // ends.
            .args(["-append", "console=ttyS1 loglevel=6 panic=-1"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(directory.join("initramfs"))
            .stdin(Stdio::null())
            .stdout(console.try_clone().unwrap())
            .stderr(console)
            .spawn()
            .unwrap();
        let mut has_ended = |wait: Duration, is_enough: &dyn Fn() -> bool| {
            (0..wait.as_millis() / STEP.as_millis()).any(|_| {
                std::thread::sleep(STEP);
                emulator.try_wait().unwrap().is_some() || is_enough()
            })
        };
        let has_booted = || Seen::read(directory).has_booted();
        if !has_ended(WAIT_BOOT, &has_booted) || !has_ended(WAIT, &|| false) {
            eprintln!("the guest did not end in time");
            emulator.kill().unwrap();
            emulator.wait().unwrap();
        }
    }

    fn fill(&self, initramfs: &Path) {
        let xebec = Path::new(env!("CARGO_BIN_EXE_xebec"));
        let mut archive = Archive::create(initramfs);
        for directory in ["dev", "etc", "lib", "lib64", "proc", "sys"] {
            archive.directory(directory);
        }
        archive.file("init", INIT.as_bytes());
        for (path, content) in MANIFESTS {
            archive.file(path, content.as_bytes());
        }
        archive.copy("bin/busybox", &self.busybox);
        archive.copy("bin/xebec", xebec);
        archive.link("bin/toolbox", "xebec");
        for library in libraries(xebec) {
            archive.copy(&library, Path::new(&library));
        }
        if let Some(kubectl) = &self.kubectl {
            archive.copy("bin/kubectl", kubectl);
        }
        for (i, module) in modules::in_order(&self.modules).iter().enumerate() {
            let name = module.file_name().unwrap().to_string_lossy();
            archive.copy(&format!("lib/modules/{i:02}-{name}"), module);
        }
        archive.finish();
    }
}

fn values(console: &str) -> BTreeMap<String, String> {
    let lines = console.lines().filter_map(|it| it.strip_prefix("GUEST ")?.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// The shared ones that a program is loaded with, and the loader itself.
fn libraries(program: &Path) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.split_whitespace().filter(|it| it.starts_with('/') && !it.ends_with(':'));
    words.map(str::to_owned).collect()
}

/// A program by its name or by its whole path.
fn on_path(program: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join(&program)).find(|it| it.is_file())
}

/// The last by name of the entries whose names start so.
fn newest(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let names = entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(prefix));
    names.map(|it| it.path()).max()
}
