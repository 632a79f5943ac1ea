//! `--feature-gates` and `--runtime-config`.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::cluster::Cluster;
use super::page::Page;
use super::process::{Process, get};

/// What a command that must not start says, and its exit code. Nothing may be made.
fn refused(command: &str, flag: &str) -> (String, Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut xebec = Command::new(env!("CARGO_BIN_EXE_xebec"));
    xebec.args([command, flag]).env("HOME", directory.path());
    match command {
        "up" | "apiserver" => xebec.arg("--data-dir").arg(&data),
        _ => xebec.arg("--kubeconfig").arg(directory.path().join("none")),
    };
    let output = xebec.output().unwrap();
    assert!(!data.exists(), "nothing is made");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn a_gate_that_is_not_there_is_refused_with_the_one_that_is_meant() {
    for command in ["up", "apiserver", "controller-manager", "scheduler"] {
        let check = |flag: &str, expected: &str| {
            let (said, code) = refused(command, flag);
            assert!(said.contains(expected), "{command} {flag}: {said}");
            assert_eq!(code, Some(64), "{said}");
        };
        check("--feature-gates=Nope=true", "unrecognized feature gate: Nope");
        let meant = "unrecognized feature gate: WatchLsit (did you mean WatchList?)";
        check("--feature-gates=WatchLsit=true", meant);
        check(
            "--feature-gates=AnyVolumeDataSource=false",
            "cannot set feature gate AnyVolumeDataSource to false, feature is locked to true",
        );
        check("--feature-gates=AllAlpha=true", "cannot set AllAlpha to true");
    }
}

#[test]
fn a_runtime_config_that_cannot_be_is_refused() {
    for command in ["up", "apiserver"] {
        let (said, _) = refused(command, "--runtime-config=example.com/v1=true");
        assert!(said.contains("--runtime-config: unknown api groups example.com/v1"), "{said}");
        let (said, _) = refused(command, "--runtime-config=v1=false");
        assert!(said.contains("cannot be disabled: xebec itself needs it"), "{said}");
    }
}

#[test]
fn a_gate_has_an_effect() {
    let flags = ["--feature-gates=APIResponseCompression=false"];
    let Some(cluster) = Cluster::start_with(tempfile::tempdir().unwrap(), 0, &flags) else {
        return;
    };
    // More than what is worth compressing.
    let manifest = cluster.file("large", &"x".repeat(200_000));
    cluster.ok(&["create", "configmap", "large", &format!("--from-file={manifest}")]);
    let path = "/api/v1/namespaces/default/configmaps/large";
    let head = cluster.curl(path, &["-H", "Accept-Encoding: gzip", "-D", "-", "-o", "/dev/null"]);
    assert!(!head.to_ascii_lowercase().contains("content-encoding"), "{head}");
    let page = Page::parse(&cluster.ok(&["get", "--raw", "/metrics"]));
    let gate = [("name", "APIResponseCompression")];
    assert_eq!(page.value("kubernetes_feature_enabled", &gate), 0.0);
}

#[test]
fn what_is_disabled_is_not_served() {
    let directory = tempfile::tempdir().unwrap();
    let port = test_ports::reserve().to_string();
    let server = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(["apiserver", "--bind-address=127.0.0.1", "--secure-port", &port])
        .args(["--runtime-config=apps/v1/replicasets=false", "--data-dir"])
        .arg(directory.path().join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Process(server.unwrap());
    let pki = |file: &str| directory.path().join("data/pki").join(file).display().to_string();
    let admin = || [("--cert", pki("admin.crt")), ("--key", pki("admin.key"))];
    let served = (0..300).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let [(cert, cert_file), (key, key_file)] = admin();
        let (code, said) = get(&port, "/apis/apps/v1", &[cert, &cert_file, key, &key_file]);
        (code == "200").then_some(said)
    });
    let served = served.expect("it serves");
    assert!(served.contains("\"deployments\""), "{served}");
    assert!(!served.contains("\"replicasets\""), "{served}");
}
