//! Other users of the machine read nothing of what a cluster keeps, whatever the data directory was
//! before.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::cluster::{self, Cluster};

const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below the directory that nobody in particular can open, by name.
fn readable(directory: &Path) -> String {
    let mut command = Command::new("find");
    command.arg(directory).args(["-mindepth", "1"]).uid(NOBODY).gid(NOBODY);
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

#[test]
fn nobody_reads_secrets_and_tokens() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    let data = cluster.data();
    std::fs::create_dir(&data).unwrap();
    set_mode(data.parent().unwrap(), 0o755);
    set_mode(&data, 0o755);
    assert!(Command::new("ls").arg(&data).uid(NOBODY).gid(NOBODY).status().unwrap().success());
    cluster.up();
    cluster.ok(&["create", "secret", "generic", "password", "--from-literal=word=sesame"]);
    let volumes = r#"
    securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true}
    volumeMounts: [{name: word, mountPath: /word}, {name: word, mountPath: /one, subPath: word}, {name: room, mountPath: /room}]
  volumes: [{name: word, secret: {secretName: password}}, {name: room, emptyDir: {}}]"#;
    cluster.apply("pod.yaml", &cluster::pod("reader", "[sleep]", volumes));
    cluster.wait_ready("app=reader", 1);
    // The pod itself reads them, as a user that is not root.
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    for (path, expected) in [("/word/word", "sesame"), ("/one", "sesame"), (token, "ey")] {
        let read = cluster.exec("reader", &["cat", path]);
        assert!(read.starts_with(expected), "{path}: {read}");
    }
    cluster.exec("reader", &["touch", "/room/file"]);
    assert_eq!(readable(&data), "");
    for name in ["pki/ca.key", "kubeconfig", "store/LOCK", "lock", "pki/service-account.key"] {
        let mode = std::fs::metadata(data.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{name}");
    }
    // As an older version left it: the next start puts it right.
    cluster.stop();
    for name in ["", "pki", "store"] {
        set_mode(&data.join(name), 0o755);
    }
    for name in ["pki/ca.key", "store/LOCK"] {
        set_mode(&data.join(name), 0o644);
    }
    cluster.up();
    assert_eq!(readable(&data), "");
    // What somebody else could have put there is not believed.
    cluster.stop();
    std::fs::rename(data.join("pki/admin.key"), cluster.path("admin.key")).unwrap();
    symlink(cluster.path("admin.key"), data.join("pki/admin.key")).unwrap();
    let output = cluster.xebec(&["up", "--node", "none"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("is a symbolic link"), "{said}");
    std::fs::remove_file(data.join("pki/admin.key")).unwrap();
    std::fs::rename(cluster.path("admin.key"), data.join("pki/admin.key")).unwrap();
}
