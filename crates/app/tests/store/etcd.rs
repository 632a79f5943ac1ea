//! A cluster whose objects are in an etcd: Debian's.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::{store_refuses, xebec};

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
        let ports = (test_ports::reserve(), test_ports::reserve());
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

    /// The bytes of a value that need not be text, as far as they are.
    fn value(&self, key: &str) -> String {
        self.ctl(&["get", key, "--print-value-only"])
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
        let value = etcd.value(wanted);
        assert!(value.starts_with("k8s\0"), "{wanted} is not upstream's protobuf: {value:?}");
        assert!(!value.contains("resourceVersion"), "{wanted}: {value:?}");
    }
    let port = cluster.server().rsplit(':').next().unwrap().to_owned();
    let alive = format!("/registry/masterleases/127.0.0.1:{port}");
    assert!(keys.lines().any(|it| it == alive), "no {alive} in\n{keys}");
    let object = cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]);
    cluster.kill_and_restart(1);
    assert_eq!(cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]), object);
    assert!(!cluster.path("data/store").exists(), "nothing is kept beside etcd");
    let refused = store_refuses(&cluster.path("data"), &["status"]);
    assert!(refused.contains("etcdctl"), "{refused}");
    // A clean end gives back what others would wait for.
    cluster.until(&["get", "lease", "kube-scheduler", "-n", "kube-system", "-o", "yaml"], |it| {
        it.contains("holderIdentity")
    });
    cluster.stop();
    assert_eq!(etcd.ctl(&["get", "/registry/masterleases/", "--prefix", "--keys-only"]).trim(), "");
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

/// Another server over the same etcd. It has the first one's certificates: to clients they are one
/// cluster.
fn beside(etcd: &Etcd, first: &Cluster, simulate: usize, flags: &[&str]) -> Option<Cluster> {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .args([first.path("data/pki"), first.path("data/xebec-format")])
        .arg(&data)
        .status();
    assert!(copied.unwrap().success());
    let url = etcd.url();
    Cluster::start_with(directory, simulate, &[&["--datastore-endpoint", &url], flags].concat())
}

#[test]
fn servers_that_write_differently_see_each_others_writes_at_once() {
    let Some(etcd) = Etcd::start() else { return };
    let Some(one) = cluster(&etcd, 0) else { return };
    let flags = ["--storage-media-type", "application/json"];
    let Some(other) = beside(&etcd, &one, 0, &flags) else { return };
    for index in 0..10 {
        let name = format!("c{index}");
        let is_even = index % 2 == 0;
        let (writer, reader) = if is_even { (&one, &other) } else { (&other, &one) };
        writer.ok(&["create", "configmap", &name]);
        let value = etcd.value(&format!("/registry/configmaps/default/{name}"));
        assert!(value.starts_with(if is_even { "k8s\0" } else { "{" }), "{value:?}");
        let object = reader.ok(&["get", "configmap", &name, "-o", "yaml"]);
        assert_eq!(writer.ok(&["get", "configmap", &name, "-o", "yaml"]), object);
        reader.ok(&["label", "configmap", &name, "seen=yes"]);
        writer.ok(&["get", "configmaps", "-l", "seen=yes", "-o", "name"]);
        reader.ok(&["delete", "configmap", &name]);
        writer.refused(&["get", "configmap", &name]);
    }
}

fn leads(cluster: &Cluster, lease: &str) -> bool {
    cluster.log().lines().any(|it| it.contains("leading") && it.contains(lease))
}

fn pods(cluster: &Cluster) -> usize {
    cluster.ok(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count()
}

#[test]
fn one_of_several_servers_runs_the_controllers_and_another_takes_over() {
    const LEASES: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
    let Some(etcd) = Etcd::start() else { return };
    let verbose = ["-v", "2"];
    let url = etcd.url();
    let flags = [&["--datastore-endpoint", &url][..], &verbose].concat();
    let Some(mut first) = Cluster::start_with(tempfile::tempdir().unwrap(), 0, &flags) else {
        return;
    };
    let holder = |cluster: &Cluster, lease: &str| {
        cluster.until(
            &["get", "lease", lease, "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"],
            |it| it.contains('_'),
        )
    };
    let led = LEASES.map(|it| holder(&first, it));
    // Its nodes are simulated by the second, which outlives the first.
    let Some(second) = beside(&etcd, &first, 3, &verbose) else { return };
    second.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=5"]);
    second.ok(&["rollout", "status", "deployment", "web", "--timeout=60s"]);
    assert_eq!(pods(&second), 5);
    let created = ["get", "events", "--field-selector", "reason=SuccessfulCreate", "-o", "name"];
    assert_eq!(second.ok(&created).lines().count(), 5, "no pod was made twice");
    for (lease, holder_before) in LEASES.iter().zip(&led) {
        assert!(leads(&first, lease) && !leads(&second, lease), "{lease}");
        assert_eq!(&holder(&second, lease), holder_before);
    }

    first.kill();
    second.ok(&["scale", "deployment", "web", "--replicas=9"]);
    second.ok(&["rollout", "status", "deployment", "web", "--timeout=90s"]);
    assert_eq!(pods(&second), 9);
    for (lease, holder_before) in LEASES.iter().zip(&led) {
        assert!(leads(&second, lease), "{lease}");
        assert_ne!(&holder(&second, lease), holder_before);
    }
    let endpoints = ["get", "endpointslice", "kubernetes", "-o", "jsonpath={.ports[*].port}"];
    let port = second.server().rsplit(':').next().unwrap().to_owned();
    second.until(&endpoints, |it| it == port);

    // Back again, it serves without leading.
    let led = LEASES.map(|it| holder(&second, it));
    first.restart(0);
    assert_eq!(pods(&first), 9);
    first.ok(&["scale", "deployment", "web", "--replicas=4"]);
    first.until(&["get", "pods", "-l", "app=web", "-o", "name"], |it| it.lines().count() == 4);
    assert_eq!(LEASES.map(|it| holder(&first, it)), led);
}

#[test]
fn the_embedded_store_has_one_encoding() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data").display().to_string();
    let check = |media_type: &str, expected: &str| {
        let flags = ["--storage-media-type", media_type, "--node", "none", "--https-port", "0"];
        let said = xebec(&[&["up", "--data-dir", &data][..], &flags].concat());
        assert!(!said.is_ok, "{media_type}");
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    };
    check("application/vnd.kubernetes.protobuf", "needs --datastore-endpoint");
    check("application/yaml", "must be application/vnd.kubernetes.protobuf or application/json");
}
