//! What somebody can do who has a token, or the keys of a node.

use std::process::Stdio;

use crate::cluster::{Ran, ran};
use crate::joined::{Machine, NAME};

impl Machine {
    /// kubectl as somebody else, to the same server.
    pub(crate) fn as_somebody(&self, words: &[&str], credential: &[&str]) -> Ran {
        let ca = self.cluster.path("data/pki/ca.crt").display().to_string();
        let own = ["--server", "https://192.0.2.1:6443", "--certificate-authority", &ca];
        let mut command = self.cluster.command(&[words, &own, credential].concat());
        command.env("KUBECONFIG", "/dev/null");
        ran(command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn xebec_text(&self, words: &[&str]) -> String {
        let ran = ran(self.xebec(words).output().unwrap());
        ran.stdout + &ran.stderr
    }
}

#[test]
fn who_has_a_token_asks_for_certificates_and_does_nothing_else() {
    let Some(machine) = Machine::beside(&["--node", "none"]) else { return };
    let made = machine.token(&["create"]);
    let bare = made.trim().rsplit_once('.').unwrap().0.to_owned();
    let credential = ["--token", bare.as_str()];
    let check = |words: &[&str], is_allowed: bool| {
        let ran = machine.as_somebody(words, &credential);
        assert_eq!(ran.is_ok, is_allowed, "{words:?}: {}{}", ran.stdout, ran.stderr);
    };
    check(&["get", "csr"], true);
    for words in [
        &["get", "nodes"][..],
        &["get", "secrets", "-n", "kube-system"],
        &["get", "pods", "-A"],
        &["get", "configmap", "xebec-cluster", "-n", "kube-system"],
        &["create", "namespace", "mine"],
        &["certificate", "approve", "any"],
    ] {
        check(words, false);
    }
    let whoami = machine.as_somebody(&["auth", "whoami"], &credential).stdout;
    assert!(
        whoami.contains("system:bootstrap:") && whoami.contains("system:bootstrappers"),
        "{whoami}"
    );
    // Ended tokens are nobody's.
    machine.token(&["delete", &bare]);
    check(&["get", "csr"], false);
    // Everybody reads where the cluster is, and no other ConfigMap.
    let nobody = |name: &str| {
        machine.as_somebody(&["get", "configmap", name, "-n", "kube-public"], &["--username", ""])
    };
    assert!(!nobody("other").is_ok);
}

#[test]
fn a_node_asks_for_nobody_elses_certificates() {
    let Some(machine) = Machine::start() else { return };
    let pki = machine.data().join("pki");
    let of = |name: &str| pki.join(name).display().to_string();
    let (certificate, key) = (of("kubelet-client.crt"), of("kubelet-client.key"));
    let credential = ["--client-certificate", &certificate, "--client-key", &key];
    let request = |name: &str, subject: &str, san: &str, signer: &str, usage: &str| {
        let files = (machine.cluster.path("k.pem"), machine.cluster.path("r.pem"));
        let mut openssl = machine.cluster.host.command("openssl");
        openssl.args([
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ]);
        openssl.arg("-keyout").arg(&files.0).arg("-out").arg(&files.1).args(["-subj", subject]);
        if !san.is_empty() {
            openssl.args(["-addext", &format!("subjectAltName={san}")]);
        }
        assert!(openssl.output().unwrap().status.success());
        let mut encode = machine.cluster.host.command("base64");
        let encoded = encode.arg("-w0").arg(&files.1).output().unwrap();
        let encoded = String::from_utf8(encoded.stdout).unwrap();
        let manifest = format!(
            "---\n{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: {name}}}, \
             spec: {{request: {encoded}, signerName: {signer}, usages: [digital signature, {usage}]}}}}"
        );
        let file = machine.cluster.file(&format!("{name}.yaml"), &manifest);
        machine.as_somebody(&["create", "-f", &file], &credential).is_ok
    };
    let (component, serving) = ("xebec.local/node-component", "kubernetes.io/kubelet-serving");
    let own = format!("/O=system:nodes/CN=system:node:{NAME}");
    // In the name of another node, this is refused at once.
    assert!(!request(
        "other",
        "/O=system:nodes/CN=system:node:node-a",
        "DNS:node-a",
        serving,
        "server auth"
    ));
    // For what is not its own, nobody says yes.
    assert!(request("address", &own, "IP:192.0.2.1", serving, "server auth"));
    assert!(request("name", &own, "DNS:kubernetes", serving, "server auth"));
    assert!(request(
        "group",
        "/O=system:masters/CN=system:kube-proxy",
        "",
        component,
        "client auth"
    ));
    assert!(request(
        "node",
        "/O=xebec:node:node-a/CN=system:kube-proxy",
        "",
        component,
        "client auth"
    ));
    let user = format!("/O=xebec:node:{NAME}/CN=system:kube-scheduler");
    assert!(request("user", &user, "", component, "client auth"));
    // And for what is, somebody does: then the others were looked at, too.
    let good = format!("/O=xebec:node:{NAME}/CN=system:kube-proxy");
    assert!(request("good", &good, "", component, "client auth"));
    machine.cluster.until(&["get", "csr", "good"], |it| it.contains("Approved,Issued"));
    for name in ["address", "name", "group", "node", "user"] {
        let said = machine.cluster.ok(&["get", "csr", name, "--no-headers"]);
        assert!(said.contains("Pending"), "{said}");
    }
    // Nor does it read what other nodes are.
    assert!(!machine.as_somebody(&["get", "node", "node-a"], &credential).is_ok);
}
