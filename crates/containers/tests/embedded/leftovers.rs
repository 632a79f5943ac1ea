//! What is on the machine: mounts, cgroups, processes, namespaces, before and after.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use node_api::SandboxId;

use crate::bed::Bed;

/// Processes whose command line has this in it.
pub(crate) fn processes(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(text) {
            found.push(pid);
        }
    }
    found
}

/// The sandbox's directory is the holder's argument.
pub(crate) fn holder(bed: &Bed, sandbox: &SandboxId) -> i32 {
    let directory = bed.directory.join("containers/sandboxes").join(sandbox.as_str());
    processes(directory.to_str().unwrap())[0]
}

pub(crate) fn kill_holder(bed: &Bed, sandbox: &SandboxId) {
    let pid = rustix::process::Pid::from_raw(holder(bed, sandbox)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Cgroups of this test, in every hierarchy.
pub(crate) fn cgroups(root: &str) -> Vec<String> {
    fn walk(directory: &Path, root: &str, depth: u32, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().contains(root) {
                found.push(entry.path().display().to_string());
            }
            if depth > 0 {
                walk(&entry.path(), root, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), root, 1, &mut found);
    found
}

/// Other programs mount and unmount meanwhile: only those in our directory count.
fn mounts_of(bed: &Bed) -> BTreeSet<String> {
    let directory = bed.directory.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|it| it.contains(directory)).map(str::to_owned).collect()
}

/// Whether a process is in this network namespace.
fn has_processes(namespace: &File) -> bool {
    let inode = namespace.metadata().unwrap().ino();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|it| fs::metadata(it.path().join("ns/net")).is_ok_and(|it| it.ino() == inode))
}

pub(crate) async fn twenty_sandboxes_leave_nothing() {
    let bed = Bed::new();
    let mounts_before = mounts_of(&bed);
    let node = bed.open().await;
    let (mut sandboxes, mut namespaces) = (Vec::new(), Vec::new());
    for n in 0..20 {
        let sandbox = node.sandboxes().create(bed.sandbox(&format!("pod{n}"))).await.unwrap().id;
        let config = bed.container("main", "echo hello; sleep 1000");
        node.started(&sandbox, &config).await;
        // Kept open, so that nobody else's namespace gets its number.
        namespaces.push(File::open(format!("/proc/{}/ns/net", holder(&bed, &sandbox))).unwrap());
        sandboxes.push(sandbox);
    }
    let directory = bed.directory.to_str().unwrap();
    assert_eq!(processes(directory).len(), 20, "a holder each, and no other process of ours");
    assert!(!cgroups(&bed.cgroup_root).is_empty());
    for sandbox in &sandboxes {
        node.sandboxes().remove(sandbox).await.unwrap();
    }
    assert!(bed.network.attached.lock().unwrap().is_empty());
    assert_eq!(node.containers().list(None), []);
    assert_eq!(processes(directory), [0; 0]);
    node.purge().await;
    assert_eq!(cgroups(&bed.cgroup_root), [""; 0]);
    assert_eq!(mounts_of(&bed), mounts_before);
    assert!(!namespaces.iter().any(has_processes));
    assert!(!bed.directory.join("containers").exists());
}
