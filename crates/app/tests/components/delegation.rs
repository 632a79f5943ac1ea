//! Whom a component believes, and whom it lets in: as the cluster publishes it, or as files say.

use crate::control_plane::{Component, ControlPlane};
use crate::process::get;

fn scheduler(plane: &ControlPlane, flags: &[&str]) -> (Component, String) {
    let (port, kubeconfig) =
        (test_ports::reserve().to_string(), plane.data("scheduler.kubeconfig"));
    let own = ["--bind-address=127.0.0.1", "--leader-elect=false", "--kubeconfig", &kubeconfig];
    let component = plane.spawn("scheduler", &[&own, flags, &["--secure-port", &port]].concat());
    plane.until_said(|| get(&port, "/healthz", &[]).1, |it| it == "ok");
    (component, port)
}

/// With the certificate of this name.
fn ask(plane: &ControlPlane, port: &str, name: &str, headers: &[&str]) -> (String, String) {
    let (cert, key) =
        (plane.data(&format!("pki/{name}.crt")), plane.data(&format!("pki/{name}.key")));
    let mut arguments = vec!["--cert", &cert, "--key", &key];
    headers.iter().for_each(|it| arguments.extend(["-H", it]));
    get(port, "/metrics", &arguments)
}

const PROXY: &str = "front-proxy-client";

fn check_everybody(plane: &ControlPlane, port: &str) {
    let check = |name: &str, headers: &[&str], expected: &str, named: &str| {
        let (code, said) = ask(plane, port, name, headers);
        assert_eq!(code, expected, "{name} {headers:?}: {said}");
        assert!(said.contains(named), "{name} {headers:?}: {said}");
    };
    check("admin", &[], "200", "process_open_fds");
    // A user's certificate speaks for nobody else, and a proxy's for itself not at all.
    check("admin", &["X-Remote-User: jane"], "200", "process_open_fds");
    check(PROXY, &[], "401", "Unauthorized");
    check(PROXY, &["X-Remote-User: jane"], "403", "for user \"jane\"");
    let masters = ["X-Remote-User: jane", "X-Remote-Group: system:masters"];
    check(PROXY, &masters, "200", "process_open_fds");
    let monitoring = ["X-Remote-User: jane", "X-Remote-Group: system:monitoring"];
    check(PROXY, &monitoring, "200", "process_open_fds");
    let (code, said) = get(port, "/metrics", &["-H", "X-Remote-User: jane"]);
    assert!(code == "403" && said.contains("system:anonymous"), "{code} {said}");
}

#[test]
fn what_the_cluster_publishes_is_believed_and_followed() {
    let Some(plane) = ControlPlane::start() else { return };
    let (mut scheduler, port) = scheduler(&plane, &[]);
    check_everybody(&plane, &port);
    let bob = || ask(&plane, &port, PROXY, &["X-Other-User: bob"]).1;
    assert_eq!(bob(), "Unauthorized");
    let names = r#"{"data":{"requestheader-username-headers":"[\"X-Other-User\"]"}}"#;
    let map = ["configmap", "extension-apiserver-authentication", "-n", "kube-system"];
    plane.run(&[&["patch"], &map[..], &["--type=merge", "-p", names]].concat());
    plane.until_said(bob, |it| it.contains("for user \"bob\""));
    scheduler.stop();
}

#[test]
fn files_say_whom_to_believe_where_they_are_given() {
    let Some(plane) = ControlPlane::start() else { return };
    let (clients, proxies) = (plane.data("pki/ca.crt"), plane.data("pki/front-proxy-ca.crt"));
    let flags = [
        "--authentication-skip-lookup",
        "--client-ca-file",
        &clients,
        "--requestheader-client-ca-file",
        &proxies,
        "--requestheader-allowed-names=front-proxy-client",
    ];
    let (mut both, port) = scheduler(&plane, &flags);
    check_everybody(&plane, &port);
    both.stop();

    let (mut nobody, port) = scheduler(&plane, &["--authentication-skip-lookup"]);
    assert_ne!(ask(&plane, &port, "admin", &[]).0, "200", "no authority was named");
    nobody.stop();

    let others = [&flags[..5], &["--requestheader-allowed-names=somebody-else"]].concat();
    let (mut others, port) = scheduler(&plane, &others);
    assert_eq!(ask(&plane, &port, PROXY, &["X-Remote-User: jane"]).0, "401");
    others.stop();
}

#[test]
fn paths_can_be_opened_and_tls_narrowed() {
    let Some(plane) = ControlPlane::start() else { return };
    let directory = plane.path("certificates").display().to_string();
    let flags = [
        "--authorization-always-allow-paths=/metrics*,healthz",
        "--tls-min-version=VersionTLS13",
        "--disable-http2-serving",
        "--cert-dir",
        &directory,
    ];
    let (mut narrow, port) = scheduler(&plane, &flags);
    assert_eq!(get(&port, "/metrics/slis", &[]).0, "200");
    assert_eq!(get(&port, "/configz", &[]).0, "403");
    assert_eq!(get(&port, "/healthz", &["--tls-max", "1.2"]).0, "000");
    let version = get(&port, "/healthz", &["-w", "%{http_version}\n%{http_code}"]).1;
    assert!(version.ends_with("1.1"), "{version}");
    assert!(plane.path("certificates/kube-scheduler.crt").exists());
    narrow.stop();

    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let (mut one, port) = scheduler(&plane, &["--tls-cipher-suites", suite]);
    let with = |suite: &str| get(&port, "/healthz", &["--tls-max", "1.2", "--ciphers", suite]).0;
    assert_eq!(with("ECDHE-ECDSA-AES256-GCM-SHA384"), "200");
    assert_eq!(with("ECDHE-ECDSA-AES128-GCM-SHA256"), "000");
    one.stop();
}
