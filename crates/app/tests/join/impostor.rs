//! Somebody with the certificates of the cluster who says what a test wants: openssl, with files for
//! answers.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::host::NODE;
use crate::joined::Machine;

const PORT: u16 = 7443;
const CLUSTER_INFO: &str = "api/v1/namespaces/kube-public/configmaps/cluster-info";

pub(crate) struct Impostor(Child);

impl Impostor {
    /// On the machine of the cluster. `date` is what its clock says; empty: nothing.
    pub(crate) fn start(machine: &Machine, version: &str, date: &str) -> Self {
        let cluster = &machine.cluster;
        let folder = cluster.path("impostor");
        let _ = std::fs::remove_dir_all(&folder);
        let info = cluster.ok(&["get", "--raw", &format!("/{CLUSTER_INFO}")]);
        let version = format!(r#"{{"major":"1","minor":"0","gitVersion":"{version}"}}"#);
        for (path, body) in [(CLUSTER_INFO, info.as_str()), ("version", &version)] {
            let date = if date.is_empty() { String::new() } else { format!("Date: {date}\r\n") };
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\n{date}Content-Length: {length}\r\n");
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{head}Connection: close\r\n\r\n{body}")).unwrap();
        }
        certify(machine, &folder);
        let mut command = cluster.host.command("openssl");
        command
            .args(["s_server", "-quiet", "-HTTP", "-cert", "own.crt", "-key", "own.key"])
            .args(["-accept", &PORT.to_string()])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let impostor = Self(command.spawn().unwrap());
        let connect = format!("exec 3<>/dev/tcp/{NODE}/{PORT}");
        let is_there = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut bash = cluster.host.command("bash");
            bash.args(["-c", &connect]).output().unwrap().status.success()
        });
        assert!(is_there, "openssl does not listen");
        impostor
    }

    pub(crate) fn place(&self) -> String {
        format!("{NODE}:{PORT}")
    }
}

/// By the authority of the cluster.
fn certify(machine: &Machine, folder: &Path) {
    let pki = machine.cluster.path("data/pki");
    let openssl = |words: &[&str]| {
        let mut command = Command::new("openssl");
        let output = command.args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let (authority, key) = (pki.join("ca.crt"), pki.join("ca.key"));
    let (authority, key) = (authority.to_str().unwrap(), key.to_str().unwrap());
    std::fs::write(folder.join("san"), format!("subjectAltName=IP:{NODE}")).unwrap();
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let files = ["-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=kube-apiserver"];
    openssl(&[&["req", "-new"], &ec[..], &files].concat());
    let signing = ["-CA", authority, "-CAkey", key, "-CAcreateserial", "-CAserial", "serial"];
    let own = ["-in", "own.csr", "-out", "own.crt", "-days", "1", "-extfile", "san"];
    openssl(&[&["x509", "-req"], &signing[..], &own].concat());
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
