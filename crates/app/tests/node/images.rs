//! Images from archives and from a registry: Debian's busybox and nginx, pushed to Debian's
//! docker-registry.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::cluster::{Cluster, pod};

const REGISTRY: &str = "127.0.0.1:5000";

/// Debian's docker-registry on the node's own loopback.
struct Registry {
    child: Child,
}

impl Registry {
    fn start(cluster: &Cluster) -> Option<Self> {
        let storage = cluster.path("registry");
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{REGISTRY}'}}\n",
            storage.display()
        );
        let config = cluster.file("registry.yml", &config);
        let log = std::fs::File::create(cluster.path("registry.log")).unwrap();
        let program = find("docker-registry")?;
        let registry = Self {
            child: cluster
                .host
                .command(program)
                .args(["serve", &config])
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap(),
        };
        for _ in 0..200 {
            let up = cluster
                .host
                .command("curl")
                .args(["-sf", &format!("http://{REGISTRY}/v2/")])
                .output();
            if up.is_ok_and(|it| it.status.success()) {
                return Some(registry);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!(
            "the registry did not start: {}",
            std::fs::read_to_string(cluster.path("registry.log")).unwrap()
        );
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of a Debian package that `cargo xtask test` has unpacked.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no `{program}`; `cargo xtask test` unpacks it");
    }
    found
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256:{}", text.split_whitespace().next().unwrap())
}

fn curl(cluster: &Cluster, arguments: &[&str]) -> String {
    let output =
        cluster.host.command("curl").args(["-sS", "--fail"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn push_blob(cluster: &Cluster, name: &str, path: &Path) -> (String, u64) {
    let digest = sha256(path);
    let head = curl(
        cluster,
        &["-i", "-X", "POST", &format!("http://{REGISTRY}/v2/{name}/blobs/uploads/")],
    );
    let location = head.lines().find_map(|it| it.strip_prefix("Location: ")).unwrap().trim();
    let joint = if location.contains('?') { '&' } else { '?' };
    curl(
        cluster,
        &[
            "-X",
            "PUT",
            "-H",
            "Content-Type: application/octet-stream",
            "--data-binary",
            &format!("@{}", path.display()),
            &format!("{location}{joint}digest={digest}"),
        ],
    );
    (digest, std::fs::metadata(path).unwrap().len())
}

/// Packs `root` as an image of one gzipped layer and pushes it; returns the manifest's digest.
fn push(cluster: &Cluster, name: &str, root: &Path, config: &serde_json::Value) -> String {
    let plain = cluster.path(&format!("{name}.tar"));
    let packed = Command::new("tar").arg("-C").arg(root).arg("-cf").arg(&plain).arg(".").status();
    assert!(packed.unwrap().success());
    let diff_id = sha256(&plain);
    assert!(Command::new("gzip").arg("-kf").arg(&plain).status().unwrap().success());
    let layer = push_blob(cluster, name, &cluster.path(&format!("{name}.tar.gz")));
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    });
    let config =
        push_blob(cluster, name, Path::new(&cluster.file("config.json", &config.to_string())));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config.0, "size": config.1},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": layer.0, "size": layer.1}],
    });
    let manifest = cluster.file("manifest.json", &manifest.to_string());
    curl(
        cluster,
        &[
            "-X",
            "PUT",
            "-H",
            "Content-Type: application/vnd.oci.image.manifest.v1+json",
            "--data-binary",
            &format!("@{manifest}"),
            &format!("http://{REGISTRY}/v2/{name}/manifests/1.0"),
        ],
    );
    sha256(Path::new(&manifest))
}

/// A root of a program and the libraries it needs.
fn root_of(cluster: &Cluster, name: &str, program: &Path, place: &str) -> PathBuf {
    let root = cluster.path(name);
    let copy = |from: &Path, to: &str| {
        let to = root.join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    };
    copy(program, place);
    let needs = Command::new("ldd").arg(program).output().unwrap();
    for word in
        String::from_utf8_lossy(&needs.stdout).split_whitespace().filter(|it| it.starts_with('/'))
    {
        copy(Path::new(word), word);
    }
    root
}

#[test]
fn busybox_and_nginx_are_pulled_from_a_registry_and_run() {
    let (Some(busybox), Some(nginx)) = (find("busybox"), find("nginx")) else { return };
    let Some(cluster) = Cluster::start() else { return };
    let Some(_registry) = Registry::start(&cluster) else { return };
    let root = root_of(&cluster, "busybox", &busybox, "/bin/busybox");
    for tool in ["sh", "echo", "sleep", "cat", "wget"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    let digest = push(
        &cluster,
        "busybox",
        &root,
        &json!({"Cmd": ["sh"], "Env": ["PATH=/bin", "WHO=image"]}),
    );
    let root = root_of(&cluster, "nginx", &nginx, "/usr/sbin/nginx");
    for (path, content) in [
        ("etc/passwd", "root:x:0:0:root:/:/bin/sh\nwww:x:33:33::/:/bin/sh\n"),
        ("etc/group", "root:x:0:\nwww:x:33:\n"),
        (
            "etc/nginx/nginx.conf",
            "user www www;\nevents {}\nhttp { access_log /dev/stdout; server { listen 80; location / { return 200 'from nginx\\n'; } } }\n",
        ),
        ("var/log/nginx/.keep", ""),
        ("var/lib/nginx/.keep", ""),
        ("run/.keep", ""),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    push(
        &cluster,
        "nginx",
        &root,
        &json!({"Entrypoint": ["/usr/sbin/nginx"], "Cmd": ["-g", "daemon off;", "-e", "stderr"]}),
    );

    let shell = pod("shell", "[sh, -c, 'echo hello from $WHO; sleep 1000']", "")
        .replace("args:", "command:")
        .replace("xebec.local/toolbox", &format!("{REGISTRY}/busybox:1.0"));
    cluster.apply("shell.yaml", &shell);
    cluster.wait_ready("app=shell", 1);
    assert_eq!(cluster.ok(&["logs", "shell"]), "hello from image\n");
    let id = cluster.field(&["pod", "shell"], ".status.containerStatuses[0].imageID");
    assert_eq!(id, format!("{REGISTRY}/busybox@{digest}"));

    cluster.ok(&[
        "create",
        "deployment",
        "nginx",
        &format!("--image={REGISTRY}/nginx:1.0"),
        "--port=80",
    ]);
    cluster.ok(&["rollout", "status", "deploy/nginx", "--timeout=60s"]);
    cluster.ok(&["expose", "deploy", "nginx", "--port=80"]);
    let page = cluster.until(&["exec", "shell", "--", "wget", "-qO-", "http://nginx"], |it| {
        it.contains("from nginx")
    });
    assert_eq!(page, "from nginx\n");
    cluster.until(&["logs", "deploy/nginx"], |it| it.contains("GET / HTTP/1.1"));
}

#[test]
fn images_that_cannot_be_had_say_why() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(_registry) = Registry::start(&cluster) else { return };
    let zeros = "0".repeat(64);
    for (name, image, waiting, text) in [
        ("tag", format!("{REGISTRY}/nothing:1"), "ErrImagePull|ImagePullBackOff", "not found"),
        (
            "digest",
            format!("{REGISTRY}/nothing@sha256:{zeros}"),
            "ErrImagePull|ImagePullBackOff",
            "not found",
        ),
        ("gone", "127.0.0.1:1/a:1".to_owned(), "ErrImagePull|ImagePullBackOff", "refused"),
        ("name", "a/UPPER".to_owned(), "InvalidImageName", "a/UPPER"),
    ] {
        let manifest = pod(name, "[sleep]", "").replace("xebec.local/toolbox", &image);
        cluster.apply("pod.yaml", &manifest);
        cluster.until(&["get", "pod", name], |it| {
            waiting.split('|').any(|reason| it.contains(reason))
        });
        cluster.until(
            &["get", "events", "--field-selector", &format!("involvedObject.name={name}")],
            |it| it.contains(text),
        );
    }
    cluster.until(&["get", "pod", "tag"], |it| it.contains("ImagePullBackOff"));
    let never = pod("never", "[sleep]", "    imagePullPolicy: Never")
        .replace("xebec.local/toolbox", "nowhere/x:1");
    cluster.apply("never.yaml", &never);
    cluster.until(&["get", "pod", "never"], |it| it.contains("ErrImageNeverPull"));
}

#[test]
fn archives_are_loaded_listed_and_removed() {
    let Some(busybox) = find("busybox") else { return };
    let Some(cluster) = Cluster::start() else { return };
    let root = root_of(&cluster, "busybox", &busybox, "/bin/busybox");
    let layout = cluster.path("archive");
    std::fs::create_dir_all(&layout).unwrap();
    let layer = layout.join("layer.tar");
    let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&layer).arg(".").status();
    assert!(packed.unwrap().success());
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "1000"]},
        "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
    });
    std::fs::write(layout.join("config.json"), config.to_string()).unwrap();
    let manifest = json!([{"Config": "config.json", "RepoTags": ["local/sleeper:1"], "Layers": ["layer.tar"]}]);
    std::fs::write(layout.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = cluster.path("sleeper.tar");
    let packed =
        Command::new("tar").arg("-C").arg(&layout).arg("-cf").arg(&archive).arg(".").status();
    assert!(packed.unwrap().success());

    cluster.xebec_ok(&["image", "load", &archive.display().to_string()]);
    let list = cluster.xebec_ok(&["image", "list"]);
    assert!(list.contains("local/sleeper"), "{list}");
    // The running cluster sees it at once.
    let manifest = pod("sleeper", "[]", "")
        .replace("    args: []\n", "")
        .replace("xebec.local/toolbox", "local/sleeper:1");
    cluster.apply("sleeper.yaml", &manifest);
    cluster.wait_ready("app=sleeper", 1);
    cluster.ok(&["delete", "pod", "sleeper"]);
    cluster.xebec_ok(&["image", "remove", "local/sleeper:1"]);
    assert!(!cluster.xebec_ok(&["image", "list"]).contains("local/sleeper"));
    let missing = cluster.xebec(&["image", "load", "/no/such/file"]).output().unwrap();
    assert!(!missing.status.success());
}
