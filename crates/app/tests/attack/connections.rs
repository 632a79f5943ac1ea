//! Connections that say nothing do not keep others out, however many they are: not even where
//! descriptors are few.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustls::pki_types::ServerName;

use crate::control_plane::Cluster;
use crate::host::NODE;
use crate::{cluster, host::Host};

/// What is left to the server, together with what it has open already.
const DESCRIPTORS: u64 = 200;
const SILENT: usize = 400;

fn limit_descriptors(pid: u32) {
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// Speaks TLS, and no more.
fn greet(cluster: &Cluster, address: &str) -> Option<TcpStream> {
    let authority = std::fs::read_to_string(cluster.path("data/pki/ca.crt")).unwrap();
    let tls = authn::pki::client_config(&authority, None).unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(tls), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).ok()?;
    }
    Some(stream)
}

#[test]
fn silent_connections_do_not_silence_the_api_server() {
    let Some(cluster) = Cluster::start(0) else { return };
    limit_descriptors(cluster.pid());
    let server = cluster.server();
    let address = server.strip_prefix("https://").unwrap();
    // Somebody who works is not disturbed.
    let mut watch = cluster.command(&["get", "configmaps", "--watch", "-o", "name"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = watch.stdout.take().unwrap();
    let mut first = [0; 10];
    lines.read_exact(&mut first).unwrap();
    let mut silent = Vec::new();
    for round in 0..SILENT {
        let mut stream = TcpStream::connect(address).unwrap();
        if round % 2 == 0 {
            // The beginning of a greeting.
            let _ = stream.write_all(&[0x16, 3, 1, 1, 0]);
        }
        silent.push(stream);
    }
    cluster.ok(&["get", "namespaces"]);
    for _ in 0..SILENT / 2 {
        silent.extend(greet(&cluster, address));
    }
    cluster.ok(&["create", "configmap", "made-under-siege"]);
    cluster.ok(&["get", "configmap", "made-under-siege"]);
    let mut seen = String::new();
    let mut letter = [0; 1];
    while !seen.contains("made-under-siege") && lines.read(&mut letter).unwrap() > 0 {
        seen.push(char::from(letter[0]));
    }
    assert!(seen.contains("made-under-siege"), "the watch was closed: {seen}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Holds connections open in the node's network until it is ended.
struct Siege(Child);

impl Siege {
    fn begin(host: &Host, address: &str, port: u16) -> Self {
        let script = format!(
            "for i in $(seq {SILENT}); do exec {{fd}}<>/dev/tcp/{address}/{port} || break; done; echo there; read"
        );
        let mut command = host.command("bash");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut said = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Self(child)
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn silent_connections_do_not_silence_the_kubelet_or_dns() {
    let Some(cluster) = cluster::Cluster::prepare() else { return };
    // From the start: each server takes its share of what there is.
    let mut up = cluster.host.command("prlimit");
    up.arg("--nofile=400:400").arg(env!("CARGO_BIN_EXE_xebec"));
    up.args(["up", "--detach", "--node-name", "node-a", "--cgroup-root", &cluster.host.cgroup]);
    up.arg("--data-dir").arg(cluster.data()).env("KUBECONFIG", cluster.path("user-kubeconfig"));
    up.env("XEBEC_REGISTRY", cluster.path("clusters"));
    let output = up.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster.apply("pod.yaml", &cluster::pod("talker", "[sleep]", ""));
    cluster.wait_ready("app=talker", 1);
    let sieges = [(NODE, 10250), ("10.244.0.1", 53), ("127.0.0.1", 6443), ("10.244.0.1", 6443)];
    let _sieges = sieges.map(|(address, port)| Siege::begin(&cluster.host, address, port));
    cluster.ok(&["get", "nodes"]);
    assert_eq!(cluster.exec("talker", &["cat", "/etc/hostname"]).trim(), "talker");
    assert_eq!(cluster.ok(&["logs", "talker"]), "");
    let found = cluster.exec("talker", &["dns", "--tcp", "kubernetes.default.svc.cluster.local"]);
    assert!(found.contains("10.96.0.1"), "{found}");
    cluster.ok(&["create", "configmap", "made-under-siege"]);
}
