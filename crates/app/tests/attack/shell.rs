//! An image with a shell for those who try things in a pod, and the pods that run it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::Cluster;

pub(crate) const IMAGE: &str = "local/shell:1";

/// Debian's busybox, which needs no libraries; `None` where there is none.
fn busybox() -> Option<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    let found = places.into_iter().find(|it| it.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no busybox; `cargo xtask test` installs it");
    }
    found
}

/// A root with a shell and the usual tools, to add to.
pub(crate) fn root(cluster: &Cluster, name: &str) -> Option<PathBuf> {
    let busybox = busybox()?;
    let root = cluster.path(name);
    for directory in ["bin", "etc", "tmp", "dev", "proc", "sys"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::copy(&busybox, root.join("bin/busybox")).unwrap();
    let list = Command::new(&busybox).arg("--list").output().unwrap();
    for tool in String::from_utf8(list.stdout).unwrap().lines().filter(|it| *it != "busybox") {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").unwrap();
    Some(root)
}

/// Packs the root as an image, and gives it to the node. `config` is the image's, such as `{"Cmd":
/// ["sh"]}`.
pub(crate) fn load(cluster: &Cluster, image: &str, root: &Path, config: &Value) {
    let layout = root.with_extension("image");
    std::fs::create_dir_all(&layout).unwrap();
    let pack = |from: &Path, to: &Path| {
        let packed = Command::new("tar").arg("-C").arg(from).arg("-cf").arg(to).arg(".").status();
        assert!(packed.unwrap().success());
    };
    let layer = layout.join("layer.tar");
    pack(root, &layer);
    let sum = Command::new("sha256sum").arg(&layer).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let sum = format!("sha256:{}", sum.split_whitespace().next().unwrap());
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [sum]},
    });
    std::fs::write(layout.join("config.json"), config.to_string()).unwrap();
    let manifest = json!([{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]);
    std::fs::write(layout.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = root.with_extension("tar");
    pack(&layout, &archive);
    cluster.xebec_ok(&["image", "load", &archive.display().to_string()]);
}

/// A cluster whose node has [`IMAGE`].
pub(crate) fn cluster() -> Option<Cluster> {
    let mut cluster = Cluster::prepare()?;
    busybox()?;
    cluster.up();
    load_shell(&cluster)?;
    Some(cluster)
}

pub(crate) fn load_shell(cluster: &Cluster) -> Option<()> {
    let root = root(cluster, "shell")?;
    load(cluster, IMAGE, &root, &json!({"Env": ["PATH=/bin"]}));
    Some(())
}

/// A pod that sleeps in the shell image; `spec` and `container` are what it asks for beyond that.
pub(crate) fn pod(name: &str, spec: &Value, container: &Value) -> Value {
    let mut own = json!({ "name": "main", "image": IMAGE, "command": ["sleep", "100000"] });
    merge(&mut own, container);
    let mut whole = json!({
        "terminationGracePeriodSeconds": 0, "containers": [own],
        "automountServiceAccountToken": false,
    });
    merge(&mut whole, spec);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } }, "spec": whole,
    })
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        into[key] = value.clone();
    }
}

impl Cluster {
    pub(crate) fn apply_json(&self, manifest: &Value) {
        self.apply("pod.yaml", &manifest.to_string());
    }

    /// What the API server says against it.
    pub(crate) fn refused_json(&self, manifest: &Value) -> String {
        let path = self.file("refused.yaml", &format!("---\n{manifest}"));
        self.refused(&["apply", "-f", &path])
    }

    /// Waits until the node has refused the pod; returns `reason: message`.
    pub(crate) fn rejected(&self, pod: &str) -> String {
        let path = "jsonpath={.status.phase} {.status.reason}: {.status.message}";
        let said = self.until(&["get", "pod", pod, "-o", path], |it| it.starts_with("Failed "));
        said.trim_start_matches("Failed ").to_owned()
    }

    /// A shell script in a pod's container.
    pub(crate) fn sh(&self, pod: &str, script: &str) -> String {
        self.exec(pod, &["sh", "-c", script])
    }
}
