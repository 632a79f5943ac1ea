//! A machine for one test: a network namespace for the node and one for a neighbor, joined by a
//! cable.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The node's address, and the neighbor's.
pub(crate) const NODE: &str = "192.0.2.1";
pub(crate) const NEIGHBOR: &str = "192.0.2.2";

static COUNTER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Host {
    node: Child,
    neighbor: Child,
    pub(crate) cgroup: String,
}

impl Host {
    /// `None` where namespaces cannot be made: the test says so and ends.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: tests of a real node need root");
            return None;
        }
        for tool in ["ip", "nsenter", "unshare", "nft"] {
            if Command::new(tool).arg("-V").output().is_err() {
                eprintln!(
                    "SKIPPED: tests of a real node need `{tool}`; `cargo xtask test` installs it"
                );
                return None;
            }
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("xebec-test-{}-{number}", std::process::id());
        let host = Self { node: namespace(), neighbor: namespace(), cgroup };
        // Or its link-local address would change by itself while a test compares.
        host.on_node(&["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"]);
        host.on_node(&["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6"]);
        host.on_node(&["ip", "link", "set", "lo", "up"]);
        host.join(&host.neighbor, "eth0", (NODE, NEIGHBOR));
        host.on_node(&["ip", "route", "add", "default", "via", NEIGHBOR]);
        Some(host)
    }

    /// A command inside the node's network.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        inside(&self.node, program)
    }

    /// Lays a cable from the node to another machine.
    pub(crate) fn join(&self, machine: &Child, link: &str, (node, other): (&str, &str)) {
        let id = machine.id().to_string();
        let on = |words: &[&str]| ok(&mut inside(machine, words[0]), words);
        self.on_node(&[
            "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", &id,
        ]);
        self.on_node(&["ip", "address", "add", &format!("{node}/24"), "dev", link]);
        self.on_node(&["ip", "link", "set", link, "up"]);
        on(&["ip", "link", "set", "lo", "up"]);
        on(&["ip", "address", "add", &format!("{other}/24"), "dev", "eth0"]);
        on(&["ip", "link", "set", "eth0", "up"]);
    }

    /// What comes before a command to run it inside the node's network.
    #[allow(
        dead_code,
        clippy::allow_attributes,
        reason = "of those who share this file one needs it"
    )]
    pub(crate) fn words_inside(&self) -> Vec<std::ffi::OsString> {
        let network = format!("--net=/proc/{}/ns/net", self.node.id());
        ["nsenter", &network, "--"].map(Into::into).into()
    }

    /// Must succeed; returns what it printed.
    pub(crate) fn on_node(&self, words: &[&str]) -> String {
        ok(&mut inside(&self.node, words[0]), words)
    }

    /// A command inside the neighbor's network.
    pub(crate) fn neighbor_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        inside(&self.neighbor, program)
    }

    pub(crate) fn on_neighbor(&self, words: &[&str]) -> String {
        ok(&mut self.neighbor_command(words[0]), words)
    }

    /// Everything a cluster could leave on this machine: links, addresses, routes, rules, switches;
    /// mounts and processes that have to do with `directory`; cgroups of ours.
    pub(crate) fn traces(&self, directory: &Path) -> BTreeSet<String> {
        let mut traces = BTreeSet::new();
        for words in [
            &["ip", "-o", "link"][..],
            &["ip", "-o", "address"],
            &["ip", "route", "show", "table", "all"],
            &["ip", "rule"],
            &["nft", "list", "ruleset"],
            &["cat", "/proc/sys/net/ipv4/ip_forward"],
        ] {
            let printed = self.on_node(words);
            traces.extend(printed.lines().map(|it| format!("{}: {it}", words.join(" "))));
        }
        let directory = directory.to_string_lossy();
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let ours = mounts.lines().filter(|it| it.contains(&*directory));
        traces.extend(ours.map(|it| format!("mount: {it}")));
        traces.extend(self.cgroups());
        traces.extend(processes(&directory));
        traces
    }

    fn cgroups(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut roots = vec![Path::new("/sys/fs/cgroup").to_owned()];
        roots.extend(entries(Path::new("/sys/fs/cgroup")));
        for root in roots {
            let ours = root.join(&self.cgroup);
            if ours.exists() {
                found.insert(format!("cgroup: {}", ours.display()));
            }
        }
        found
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for child in [&mut self.node, &mut self.neighbor] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process that holds a new network namespace open; it says when it has it.
pub(crate) fn namespace() -> Child {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-c", "echo ready; exec sleep 100000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    child
}

pub(crate) fn inside(child: &Child, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", child.id())).arg("--").arg(program);
    command
}

/// Must succeed; returns what it printed. The first word is the program already.
pub(crate) fn ok(command: &mut Command, words: &[&str]) -> String {
    let output = command.args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{words:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn entries(path: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    entries.flatten().map(|it| it.path()).filter(|it| it.is_dir()).collect()
}

/// Processes that were started with something of `directory`, or stand in it.
fn processes(directory: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in entries(Path::new("/proc")) {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let stands = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        if words.contains(directory) || stands.to_string_lossy().contains(directory) {
            found.insert(format!("process: {words}"));
        }
    }
    found
}
