//! Client certificates that people make with openssl: who is taken for whom, and what the log says
//! of those who are refused.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cluster::{Cluster, Ran};

fn openssl(cluster: &Cluster, words: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(words)
        .current_dir(cluster.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A key and a request for a certificate: `name.key` and `name.csr`.
fn request(cluster: &Cluster, name: &str, subject: &str, key: &[&str]) {
    let (key_file, csr) = (format!("{name}.key"), format!("{name}.csr"));
    openssl(cluster, &[&["genpkey", "-out", &key_file], key].concat());
    openssl(cluster, &["req", "-new", "-key", &key_file, "-subj", subject, "-out", &csr]);
}

const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

/// `name.crt` for `name.csr`, by an authority whose files begin so; with more flags.
fn sign(cluster: &Cluster, name: &str, authority: &str, flags: &[&str]) {
    let (csr, crt) = (format!("{name}.csr"), format!("{name}.crt"));
    let (ca, ca_key) = (format!("{authority}.crt"), format!("{authority}.key"));
    let words = ["x509", "-req", "-in", &csr, "-out", &crt, "-CA", &ca, "-CAkey", &ca_key];
    openssl(cluster, &[&words[..], &["-CAcreateserial"], flags].concat());
}

const OURS: &str = "data/pki/ca";

/// kubectl with this certificate and nothing else.
fn kubectl(cluster: &Cluster, name: &str, words: &[&str]) -> Ran {
    let text = |path: PathBuf| path.display().to_string();
    let own = [
        "--server",
        &cluster.server(),
        "--certificate-authority",
        &text(cluster.path("data/pki/ca.crt")),
        "--client-certificate",
        &text(cluster.path(&format!("{name}.crt"))),
        "--client-key",
        &text(cluster.path(&format!("{name}.key"))),
    ];
    let mut command = cluster.command(&[&own[..], words].concat());
    let output = command.env("KUBECONFIG", "/dev/null").output().unwrap();
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        is_ok: output.status.success(),
    }
}

const WHO: &[&str] =
    &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"];

/// A line of the log names a client and the reason. The client may be told before the log is.
fn check_logged(cluster: &Cluster, reason: &str) {
    let is_it =
        |line: &str| line.contains("TLS handshake error from 127.0.0.1:") && line.contains(reason);
    for _ in 0..200 {
        if cluster.log().lines().any(is_it) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no {reason:?} in\n{}", cluster.log());
}

fn check_refused(cluster: &Cluster, name: &str, reason: &str) {
    let ran = kubectl(cluster, name, WHO);
    assert!(!ran.is_ok, "{name}: {}", ran.stdout);
    check_logged(cluster, reason);
}

#[test]
fn certificates_without_extensions_are_taken_and_refusals_are_logged() {
    let Some(cluster) = Cluster::start(0) else { return };
    for (name, key) in [("jane", P256), ("joe", RSA)] {
        request(&cluster, name, &format!("/O=team-a/O=team-b/CN={name}"), key);
        sign(&cluster, name, OURS, &["-days", "1"]);
        let file = format!("{name}.crt");
        let shown = openssl(&cluster, &["x509", "-in", &file, "-noout", "-text"]);
        assert!(shown.contains("Version: 1 (0x0)"), "{shown}");
        let ran = kubectl(&cluster, name, WHO);
        let expected = format!(r#"{name} ["team-a","team-b","system:authenticated"]"#);
        assert_eq!(ran.stdout, expected, "{}{}", ran.stderr, cluster.log());
    }
    // And in TLS 1.2.
    let text = cluster.curl(
        "/version",
        &[
            "--tls-max",
            "1.2",
            "--cert",
            &path(&cluster, "jane.crt"),
            "--key",
            &path(&cluster, "jane.key"),
        ],
    );
    assert!(text.contains("gitVersion"), "{text}");
    assert!(!cluster.log().contains("TLS handshake error"), "{}", cluster.log());

    // Who has rights as a group has them.
    let binding = ["create", "clusterrolebinding", "a", "--clusterrole=view", "--group=team-a"];
    cluster.ok(&binding);
    assert!(kubectl(&cluster, "jane", &["get", "pods"]).is_ok);

    sign(&cluster, "jane", OURS, &["-days", "-1"]);
    check_refused(&cluster, "jane", "certificate expired");

    let other = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "other.key"];
    openssl(&cluster, &[&other[..], &["-out", "other.crt", "-subj", "/CN=other"]].concat());
    sign(&cluster, "jane", "other", &["-days", "1"]);
    check_refused(&cluster, "jane", "UnknownIssuer");
    // One that goes by our name.
    openssl(&cluster, &[&other[..], &["-out", "other.crt", "-subj", "/CN=xebec"]].concat());
    sign(&cluster, "joe", "other", &["-days", "1"]);
    check_refused(&cluster, "joe", "BadSignature");

    cluster.file("server.ext", "extendedKeyUsage=serverAuth\n");
    sign(&cluster, "jane", OURS, &["-days", "1", "-extfile", "server.ext"]);
    check_refused(&cluster, "jane", "does not allow extended key usage for client authentication");
    cluster.file("client.ext", "extendedKeyUsage=clientAuth\n");
    sign(&cluster, "jane", OURS, &["-days", "1", "-extfile", "client.ext"]);
    assert!(kubectl(&cluster, "jane", &["get", "pods"]).is_ok);

    // SHA-1 proves nothing any more.
    sign(&cluster, "joe", OURS, &["-days", "1", "-sha1"]);
    check_refused(&cluster, "joe", "UnsupportedSignatureAlgorithm");
}

fn path(cluster: &Cluster, name: &str) -> String {
    cluster.path(name).display().to_string()
}

/// Asks the cluster for a certificate, for `name.csr`.
fn ask(cluster: &Cluster, name: &str, usage: &str) {
    let csr = std::fs::read(cluster.path(&format!("{name}.csr"))).unwrap();
    let request = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\n\
         metadata: {{name: {name}}}\nspec:\n  signerName: kubernetes.io/kube-apiserver-client\n  \
         expirationSeconds: 86400\n  usages: [{usage}]\n  request: {}\n",
        STANDARD.encode(csr)
    );
    cluster.ok(&["create", "-f", &cluster.file(&format!("{name}.yaml"), &request)]);
}

#[test]
fn what_a_person_approves_is_signed_and_logs_in() {
    let Some(cluster) = Cluster::start(0) else { return };
    for (name, key) in [("jane", P256), ("joe", RSA)] {
        request(&cluster, name, &format!("/O=team-a/O=team-b/CN={name}"), key);
        ask(&cluster, name, "client auth");
        let shown = cluster.ok(&["get", "csr", name, "--no-headers"]);
        assert!(shown.contains("Pending"), "{shown}");
        cluster.ok(&["certificate", "approve", name]);
        let issued = |it: &str| it.contains("Approved,Issued");
        cluster.until(&["get", "csr", name, "--no-headers"], issued);
        let pem = cluster.ok(&["get", "csr", name, "-o", "jsonpath={.status.certificate}"]);
        let pem = String::from_utf8(STANDARD.decode(pem).unwrap()).unwrap();
        let file = cluster.file(&format!("{name}.crt"), &pem);
        let ran = kubectl(&cluster, name, WHO);
        let expected = format!(r#"{name} ["team-a","team-b","system:authenticated"]"#);
        assert_eq!(ran.stdout, expected, "{}{}", ran.stderr, cluster.log());
        // As others read it.
        let verified = openssl(&cluster, &["verify", "-CAfile", &format!("{OURS}.crt"), &file]);
        assert!(verified.contains("OK"), "{verified}");
        let text = openssl(&cluster, &["x509", "-in", &file, "-noout", "-text"]);
        assert!(text.contains("TLS Web Client Authentication"), "{text}");
        assert!(text.contains("CA:FALSE"), "{text}");
    }
    // What its signer does not take is said.
    request(&cluster, "web", "/CN=web", P256);
    ask(&cluster, "web", "server auth");
    cluster.ok(&["certificate", "approve", "web"]);
    let failed = |it: &str| it.contains("SignerValidationFailure");
    let reasons = "jsonpath={.status.conditions[*].reason}: {.status.conditions[*].message}";
    let said = cluster.until(&["get", "csr", "web", "-o", reasons], failed);
    assert!(said.contains("invalid usage for client certificate: server auth"), "{said}");
}
