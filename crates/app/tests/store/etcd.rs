//! A cluster whose objects are in an etcd: Debian's.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::{free_port, store_refuses};

fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map_or_else(|| PathBuf::from(name), PathBuf::from);
    let argument = if name == "etcd" { "--version" } else { "version" };
    let found = Command::new(&path).env("ETCDCTL_API", "3").arg(argument).output();
    if found.is_ok_and(|it| it.status.success()) {
        return Some(path);
    }
    eprintln!("SKIPPED: no {name} on this machine");
    None
}

pub(crate) fn etcdctl() -> Option<PathBuf> {
    program("XEBEC_TEST_ETCDCTL", "etcdctl")
}

/// One member. Ends when the test does.
struct Etcd {
    child: Child,
    directory: tempfile::TempDir,
    program: PathBuf,
    etcdctl: PathBuf,
    ports: (u16, u16),
}

impl Etcd {
    fn start() -> Option<Self> {
        let (program, etcdctl) = (program("XEBEC_TEST_ETCD", "etcd")?, etcdctl()?);
        let directory = tempfile::tempdir().unwrap();
        let ports = (free_port(), free_port());
        let child = spawn(&program, directory.path(), ports);
        Some(Self { child, directory, program, etcdctl, ports })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.0)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn(&self.program, self.directory.path(), self.ports);
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.etcdctl)
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url()])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns when it listens.
fn spawn(program: &Path, directory: &Path, ports: (u16, u16)) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let (client, peer) =
        (format!("http://127.0.0.1:{}", ports.0), format!("http://127.0.0.1:{}", ports.1));
    let mut child = Command::new(program)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    for _ in 0..300 {
        if TcpStream::connect(("127.0.0.1", ports.0)).is_ok() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("etcd does not listen: {}", std::fs::read_to_string(directory.join("log")).unwrap());
}

fn cluster(etcd: &Etcd, simulate: usize) -> Option<Cluster> {
    let directory = tempfile::tempdir().unwrap();
    Cluster::start_with(directory, simulate, &["--datastore-endpoint", &etcd.url()])
}

#[test]
fn objects_are_in_etcd_under_upstreams_keys_and_outlive_the_server() {
    let Some(etcd) = Etcd::start() else { return };
    let Some(mut cluster) = cluster(&etcd, 1) else { return };
    cluster.ok(&["create", "configmap", "kept", "--from-literal=a=b"]);
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    cluster.ok(&["rollout", "status", "deployment", "web", "--timeout=60s"]);
    let keys = etcd.ctl(&["get", "", "--prefix", "--keys-only"]);
    for wanted in [
        "/registry/clusterroles/cluster-admin",
        "/registry/configmaps/default/kept",
        "/registry/deployments/default/web",
        "/registry/leases/kube-node-lease/sim-0",
        "/registry/minions/sim-0",
        "/registry/namespaces/kube-system",
        "/registry/serviceaccounts/default/default",
        "/registry/services/endpoints/default/kubernetes",
        "/registry/services/specs/default/kubernetes",
    ] {
        assert!(keys.lines().any(|it| it == wanted), "no {wanted} in\n{keys}");
    }
    let object = cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]);
    cluster.kill_and_restart(1);
    assert_eq!(cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]), object);
    assert!(!cluster.path("data/store").exists(), "nothing is kept beside etcd");
    let refused = store_refuses(&cluster.path("data"), &["status"]);
    assert!(refused.contains("etcdctl"), "{refused}");
}

#[test]
fn a_server_survives_the_restart_of_its_etcd() {
    let Some(mut etcd) = Etcd::start() else { return };
    let Some(cluster) = cluster(&etcd, 0) else { return };
    cluster.ok(&["create", "configmap", "before"]);
    let pid = cluster.pid();
    etcd.kill();
    let refused = cluster.refused(&["create", "configmap", "meanwhile", "--request-timeout=8s"]);
    assert!(!refused.is_empty());
    etcd.restart();
    cluster.until(&["create", "configmap", "after"], |it| {
        it.contains("created") || it.contains("already exists")
    });
    let found = cluster.ok(&["get", "configmaps", "-o", "name"]);
    assert!(found.contains("before") && found.contains("after"), "{found}");
    cluster.until(&["get", "--raw", "/readyz"], |it| it == "ok");
    assert_eq!(cluster.pid(), pid, "it is the same process");
}

#[test]
fn two_servers_over_one_etcd_see_each_others_writes_at_once() {
    let Some(etcd) = Etcd::start() else { return };
    let Some(one) = cluster(&etcd, 0) else { return };
    // The second has the first one's certificates: to clients they are one cluster.
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .args([one.path("data/pki"), one.path("data/xebec-format")])
        .arg(&data)
        .status();
    assert!(copied.unwrap().success());
    let flags = ["--datastore-endpoint", &etcd.url()];
    let Some(other) = Cluster::start_with(directory, 0, &flags) else { return };
    for index in 0..10 {
        let name = format!("c{index}");
        let (writer, reader) = if index % 2 == 0 { (&one, &other) } else { (&other, &one) };
        writer.ok(&["create", "configmap", &name]);
        reader.ok(&["get", "configmap", &name]);
        reader.ok(&["delete", "configmap", &name]);
        writer.refused(&["get", "configmap", &name]);
    }
}
