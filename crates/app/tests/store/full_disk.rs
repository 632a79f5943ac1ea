//! A disk that is full: writes are refused with the reason, reads go on, nothing acknowledged is
//! lost, and when there is room again the cluster goes on by itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::Cluster;
use crate::{json, store};

/// A small disk at `data/`. Unmounted even when the test fails.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: mounting a small disk takes root");
            return None;
        }
        std::fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs"])
            .arg(path)
            .status();
        if !mounted.is_ok_and(|it| it.success()) {
            eprintln!("SKIPPED: a small disk cannot be mounted here");
            return None;
        }
        Some(Self(path.to_owned()))
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            let block = vec![0x5a; size];
            while filler.write_all(&block).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Writes objects until one is refused; says which were acknowledged, and the refusal.
fn write_until_refused(cluster: &Cluster, round: usize) -> (Vec<String>, String) {
    let content = "x".repeat(100_000);
    let file = cluster.file("big", &content);
    let mut names = Vec::new();
    for index in 0..100 {
        let name = format!("big-{round}-{index}");
        let ran = cluster.run(&["create", "configmap", &name, &format!("--from-file={file}")]);
        if !ran.is_ok {
            return (names, ran.stderr);
        }
        names.push(name);
    }
    panic!("a full disk took {} objects", names.len());
}

#[test]
fn a_full_disk_is_survived_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let Some(disk) = SmallDisk::mount(&data) else { return };
    let Some(mut cluster) = Cluster::start_with(directory, 0, &[]) else { return };
    let mut acknowledged = Vec::new();
    for round in 0..2 {
        disk.fill();
        let (names, refusal) = write_until_refused(&cluster, round);
        acknowledged.extend(names);
        assert!(refusal.contains("the store is read-only"), "{refusal}");
        assert!(refusal.contains("No space left on device"), "{refusal}");
        cluster.ok(&["get", "configmaps"]);
        let ready = cluster.refused(&["get", "--raw", "/readyz/etcd"]);
        assert!(ready.contains("No space left on device"), "{ready}");
        let status = json(&store(&data, &["status", "-o", "json"]));
        assert!(status["readOnly"].as_str().unwrap().contains("No space left"), "{status}");
        disk.free();
        let name = format!("after-{round}");
        cluster.until(&["create", "configmap", &name], |it| {
            it.contains("created") || it.contains("already exists")
        });
        acknowledged.push(name);
        cluster.until(&["get", "--raw", "/readyz/etcd"], |it| it == "ok");
    }
    let check = |cluster: &Cluster| {
        let found = cluster.ok(&["get", "configmaps", "-o", "name"]);
        for name in &acknowledged {
            assert!(found.contains(&format!("configmap/{name}\n")), "{name} is lost");
        }
    };
    check(&cluster);
    cluster.kill_and_restart(0);
    check(&cluster);
    drop(cluster);
    drop(disk);
}
