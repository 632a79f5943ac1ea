//! What pods are given beside ConfigMaps and Secrets: a handler of the runtime, the content of an
//! image, files that another container wrote, whom to trust; and mounts that are read-only all the
//! way down.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

#[test]
fn a_runtime_class_names_the_handler_and_what_its_pods_cost() {
    let Some(cluster) = Cluster::start() else { return };
    let class = |name: &str, handler: &str| {
        format!(
            "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {{name: {name}}}\nhandler: {handler}\n\
             overhead: {{podFixed: {{cpu: 250m, memory: 64Mi}}}}\n"
        )
    };
    cluster.apply("known.yaml", &class("known", "xebec"));
    cluster.apply("unknown.yaml", &class("unknown", "kata"));
    let limits = "    resources: {limits: {cpu: 100m, memory: 64Mi}}\n  runtimeClassName: known";
    cluster.apply("fast.yaml", &pod("fast", "[sleep]", limits));
    cluster.wait_ready("app=fast", 1);
    assert_eq!(cluster.field(&["pod", "fast"], ".spec.overhead.memory"), "64Mi");
    let uid = cluster.field(&["pod", "fast"], ".metadata.uid");
    let below = format!("{}/kubepods/pod{uid}", cluster.host.cgroup);
    let files = [
        format!("/sys/fs/cgroup/memory/{below}/memory.limit_in_bytes"),
        format!("/sys/fs/cgroup/{below}/memory.max"),
    ];
    let limit = files.iter().find_map(|it| std::fs::read_to_string(it).ok()).unwrap();
    assert_eq!(limit.trim(), (128 << 20).to_string());

    cluster.apply("slow.yaml", &pod("slow", "[sleep]", "  runtimeClassName: unknown"));
    let about = ["get", "events", "--field-selector", "involvedObject.name=slow"];
    let told = cluster.until(&about, |it| it.contains("FailedCreatePodSandBox"));
    assert!(told.contains("RuntimeHandler \"kata\" not supported"), "{told}");
    assert_eq!(cluster.field(&["pod", "slow"], ".status.phase"), "Pending");
    let refused = cluster.file("none.yaml", &pod("none", "[sleep]", "  runtimeClassName: none"));
    let said = cluster.refused(&["apply", "-f", &refused]);
    assert!(said.contains("RuntimeClass \"none\" not found"), "{said}");

    let node = cluster.json(&["get", "node", "node-a"]);
    let handlers = node["status"]["runtimeHandlers"].as_array().unwrap();
    let names: Vec<&str> = handlers.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["", "xebec"]);
    assert_eq!(handlers[1]["features"]["recursiveReadOnlyMounts"], true);
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256:{}", text.split_whitespace().next().unwrap())
}

fn pack(from: &Path, to: &Path) {
    let packed = Command::new("tar").arg("-C").arg(from).arg("-cf").arg(to).arg(".").status();
    assert!(packed.unwrap().success());
}

/// An archive of an image that has these files and no program.
fn archive(cluster: &Cluster, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = cluster.path("content");
    for (path, content) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let layout = cluster.path("layout");
    std::fs::create_dir_all(&layout).unwrap();
    let layer = layout.join("layer.tar");
    pack(&root, &layer);
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
    });
    std::fs::write(layout.join("config.json"), config.to_string()).unwrap();
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    std::fs::write(layout.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = cluster.path("content.tar");
    pack(&layout, &archive);
    archive
}

#[test]
fn the_content_of_an_image_is_a_volume_that_nobody_can_change() {
    let Some(cluster) = Cluster::start() else { return };
    let files = [("data/greeting", "hello"), ("data/deep/more", "and more")];
    let archive = archive(&cluster, "local/content:1", &files);
    cluster.xebec_ok(&["image", "load", &archive.display().to_string()]);
    let extra = |reference: &str| {
        format!(
            "    volumeMounts:\n    - {{name: content, mountPath: /content}}\n    - {{name: content, mountPath: /part, subPath: data/deep}}\n  \
             volumes: [{{name: content, image: {{reference: '{reference}', pullPolicy: Never}}}}]"
        )
    };
    cluster.apply("reader.yaml", &pod("reader", "[sleep]", &extra("local/content:1")));
    cluster.wait_ready("app=reader", 1);
    assert_eq!(cluster.exec("reader", &["cat", "/content/data/greeting"]), "hello");
    assert_eq!(cluster.exec("reader", &["cat", "/part/more"]), "and more");
    let said = cluster.refused(&["exec", "reader", "--", "touch", "/content/data/mine"]);
    assert!(said.contains("Read-only file system"), "{said}");
    let kept = cluster.xebec(&["image", "remove", "local/content:1"]).output().unwrap();
    assert!(!kept.status.success(), "it is mounted");

    cluster.apply("waits.yaml", &pod("waits", "[sleep]", &extra("local/nothing:1")));
    cluster.until(&["get", "pod", "waits"], |it| it.contains("ErrImageNeverPull"));
    cluster.ok(&["delete", "pod", "reader", "waits"]);
    // A container that ended is there until its sandbox is removed, which the API does not wait for.
    let is_removed = (0..600).any(|_| {
        let removed = cluster.xebec(&["image", "remove", "local/content:1"]).output().unwrap();
        if !removed.status.success() {
            std::thread::sleep(Duration::from_millis(100));
        }
        removed.status.success()
    });
    assert!(is_removed, "nobody uses it any more");
}

#[test]
fn a_container_reads_its_environment_from_a_file_of_another() {
    let Some(cluster) = Cluster::start() else { return };
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: pair, labels: {app: pair}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: writer
    image: xebec.local/toolbox
    args: [sleep]
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: reader
    image: xebec.local/toolbox
    args: [sleep]
    env:
    - {name: COLOR, valueFrom: {fileKeyRef: {volumeName: shared, path: env/app, key: COLOR}}}
    - {name: SIZE, valueFrom: {fileKeyRef: {volumeName: shared, path: env/app, key: SIZE, optional: true}}}
  volumes: [{name: shared, emptyDir: {}}]
"#;
    cluster.apply("pair.yaml", manifest);
    let state = "jsonpath={.status.containerStatuses[?(@.name=='reader')].state}";
    let about = ["get", "pod", "pair", "-o", state];
    let waits = cluster.until(&about, |it| it.contains("CreateContainerConfigError"));
    assert!(waits.contains("couldn't parse env file"), "{waits}");
    let folder = cluster.path("files/env");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("app"), "# for the reader\nCOLOR='dark\nred' # really\n").unwrap();
    let folder = folder.display().to_string();
    cluster.ok(&["cp", &folder, "pair:/shared/env", "-c", "writer"]);
    cluster.wait_ready("app=pair", 1);
    let env = cluster.exec("pair", &["env"]);
    assert!(!env.contains("COLOR"), "it is the writer's:\n{env}");
    let env = cluster.ok(&["exec", "pair", "-c", "reader", "--", "env"]);
    assert!(env.contains("COLOR=dark\nred\n") && !env.contains("SIZE="), "{env}");
    let wrong = manifest.replace("emptyDir: {}", "hostPath: {path: /tmp}").replace("pair", "wrong");
    let wrong = cluster.file("wrong.yaml", &wrong);
    let said = cluster.refused(&["create", "-f", &wrong]);
    assert!(said.contains("referenced volume must be of type emptyDir"), "{said}");
}

/// Something mounted below a directory, until it is dropped.
struct Below(PathBuf);

impl Below {
    fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&path).status();
        assert!(mounted.unwrap().success());
        Self(path)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn read_only_holds_for_what_is_mounted_below_where_it_is_asked_for() {
    let Some(cluster) = Cluster::start() else { return };
    let _below = Below::new(cluster.path("volume/below"));
    let extra = format!(
        "    volumeMounts:\n    - {{name: v, mountPath: /all, readOnly: true, recursiveReadOnly: Enabled}}\n    \
         - {{name: v, mountPath: /maybe, readOnly: true, recursiveReadOnly: IfPossible}}\n    \
         - {{name: v, mountPath: /top, readOnly: true}}\n  volumes: [{{name: v, hostPath: {{path: {}}}}}]",
        cluster.path("volume").display()
    );
    cluster.apply("careful.yaml", &pod("careful", "[sleep]", &extra));
    cluster.wait_ready("app=careful", 1);
    for path in ["/all/x", "/all/below/x", "/maybe/below/x", "/top/x"] {
        let said = cluster.refused(&["exec", "careful", "--", "touch", path]);
        assert!(said.contains("Read-only file system"), "{path}: {said}");
    }
    cluster.exec("careful", &["touch", "/top/below/x"]);
    let pod = cluster.json(&["get", "pod", "careful"]);
    let mounts = pod["status"]["containerStatuses"][0]["volumeMounts"].as_array().unwrap();
    let modes: Vec<&Value> = mounts.iter().map(|it| &it["recursiveReadOnly"]).collect();
    assert_eq!(modes[..3], ["Enabled", "Enabled", "Disabled"]);
}

#[test]
fn trust_bundles_are_mounted_and_follow_their_objects() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    cluster.up_with(&[
        "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
        "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
    ]);
    let path = ".data.ca\\.crt";
    let authority = cluster.until(
        &["get", "configmap", "kube-root-ca.crt", "-o", &format!("jsonpath={{{path}}}")],
        |it| it.contains("BEGIN CERTIFICATE"),
    );
    let bundle = |name: &str, signer: &str| {
        let pem: String = authority.lines().map(|it| format!("    {it}\n")).collect();
        format!(
            "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\n\
             metadata: {{name: '{name}', labels: {{live: 'yes'}}}}\nspec:\n{signer}  trustBundle: |\n    whose it is\n{pem}"
        )
    };
    cluster.apply("roots.yaml", &bundle("roots", ""));
    let extra = "    volumeMounts: [{name: trust, mountPath: /trust}]\n  volumes:\n  - name: trust\n    projected:\n      sources:\n      \
                 - clusterTrustBundle: {name: roots, path: roots.pem}\n      \
                 - clusterTrustBundle: {signerName: example.com/signer, labelSelector: {matchLabels: {live: 'yes'}}, path: signer.pem, optional: true}";
    cluster.apply("careful.yaml", &pod("careful", "[sleep]", extra));
    cluster.wait_ready("app=careful", 1);
    let read = |file: &str| cluster.exec("careful", &["cat", file]);
    // The certificate alone, whatever stands around it.
    assert_eq!(read("/trust/roots.pem"), authority);
    assert_eq!(read("/trust/signer.pem"), "");
    let of_signer = bundle("example.com:signer:one", "  signerName: example.com/signer\n");
    cluster.apply("signer.yaml", &of_signer);
    let shown =
        cluster.until(&["exec", "careful", "--", "cat", "/trust/signer.pem"], |it| !it.is_empty());
    assert_eq!(shown, authority);
}

#[test]
fn without_the_gate_trust_bundles_are_dropped_from_pods() {
    let Some(cluster) = Cluster::start() else { return };
    let extra = "  volumes:\n  - name: trust\n    projected:\n      sources:\n      \
                 - clusterTrustBundle: {name: roots, path: roots.pem}";
    cluster.apply("plain.yaml", &pod("plain", "[sleep]", extra));
    let volume = cluster.field(&["pod", "plain"], ".spec.volumes[0].projected.sources");
    assert_eq!(volume, "[{}]");
    cluster.wait_ready("app=plain", 1);
}
