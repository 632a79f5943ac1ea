//! Who may do what: users without rights, service accounts with tokens, and strangers.

use std::process::Command;

use crate::cluster::Cluster;

#[test]
fn a_user_without_rights_is_refused_with_upstreams_message() {
    let Some(cluster) = Cluster::start(0) else { return };
    assert_eq!(cluster.ok(&["auth", "can-i", "create", "deployments"]), "yes\n");
    let refused = cluster.refused(&["get", "deployments", "--as=jane"]);
    let expected = r#"deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" in the namespace "default""#;
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(cluster.run(&["auth", "can-i", "list", "pods", "--as=jane"]).stdout, "no\n");
    cluster.ok(&["create", "rolebinding", "jane-views", "--clusterrole=view", "--user=jane"]);
    cluster.ok(&["get", "deployments", "--as=jane"]);
    assert_eq!(cluster.ok(&["auth", "can-i", "list", "pods", "--as=jane"]), "yes\n");
    assert!(cluster.refused(&["get", "secrets", "--as=jane"]).contains("forbidden"));
    let rules = cluster.ok(&["auth", "can-i", "--list", "--as=jane"]);
    assert!(rules.contains("deployments.apps"), "{rules}");
    assert!(cluster.ok(&["auth", "whoami"]).contains("system:masters"));
}

/// Who may write endpoints sends the traffic of a Service wherever they like (CVE-2021-25740).
#[test]
fn those_who_edit_a_namespace_do_not_write_endpoints() {
    let Some(cluster) = Cluster::start(0) else { return };
    for role in ["edit", "admin"] {
        let user = format!("{role}-of-default");
        let (role, subject) = (format!("--clusterrole={role}"), format!("--user={user}"));
        cluster.ok(&["create", "rolebinding", &user, &role, &subject]);
        let who = format!("--as={user}");
        let may = |verb: &str, what: &str| {
            cluster.run(&["auth", "can-i", verb, what, &who]).stdout.trim() == "yes"
        };
        assert!(may("create", "services") && may("get", "endpoints"), "{user}");
        for what in ["endpoints", "endpointslices.discovery.k8s.io"] {
            for verb in ["create", "update", "patch", "delete", "deletecollection"] {
                assert!(!may(verb, what), "{user} may {verb} {what}");
            }
        }
    }
}

#[test]
fn a_service_account_token_is_an_identity() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "serviceaccount", "robot"]);
    cluster.ok(&["create", "role", "reader", "--verb=get,list", "--resource=configmaps"]);
    cluster.ok(&[
        "create",
        "rolebinding",
        "robot-reads",
        "--role=reader",
        "--serviceaccount=default:robot",
    ]);
    let token = cluster.ok(&["create", "token", "robot"]).trim().to_owned();
    let get = |token: &str, path: &str| {
        let output = Command::new("curl")
            .args([
                "-sS",
                "--max-time",
                "20",
                "-w",
                "\n%{http_code}",
                "-H",
                &format!("Authorization: Bearer {token}"),
                "--cacert",
            ])
            .arg(cluster.path("data/pki/ca.crt"))
            .arg(format!("{}{path}", cluster.server()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(get(&token, "/api/v1/namespaces/default/configmaps").ends_with("\n200"));
    let refused = get(&token, "/api/v1/namespaces/default/secrets");
    assert!(
        refused.contains("system:serviceaccount:default:robot") && refused.ends_with("\n403"),
        "{refused}"
    );
    assert!(get("not-a-token", "/api/v1/namespaces").ends_with("\n401"));
    cluster.ok(&["delete", "serviceaccount", "robot"]);
    assert!(
        get(&token, "/api/v1/namespaces/default/configmaps").ends_with("\n401"),
        "a token dies with its account"
    );
}

fn openssl(arguments: &[&str]) {
    assert!(Command::new("openssl").args(arguments).output().unwrap().status.success());
}

/// A cluster that kubeadm made signs with RSA. Its tokens hold here, also when another key signs.
#[test]
fn tokens_hold_while_any_key_that_was_given_verifies_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (key, public) = (path("sa.key"), path("sa.pub"));
    openssl(&["genrsa", "-traditional", "-out", &key, "2048"]);
    openssl(&["rsa", "-in", &key, "-pubout", "-out", &public]);
    let flags = ["--service-account-key-file", &public];
    let Some(mut cluster) = Cluster::start_with(directory, 0, &flags) else { return };
    cluster.stop();
    std::fs::copy(&key, cluster.path("data/pki/service-account.key")).unwrap();
    cluster.restart(0);
    cluster.ok(&["create", "serviceaccount", "robot"]);
    let algorithms = || {
        let keys = cluster.ok(&["get", "--raw", "/openid/v1/jwks"]);
        let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
        let keys = keys["keys"].as_array().unwrap().iter();
        keys.map(|it| it["alg"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(algorithms(), ["RS256"], "one key, though it was given twice");
    let old = cluster.ok(&["create", "token", "robot"]).trim().to_owned();
    let whoami = |cluster: &Cluster, token: &str| {
        let token = format!("--token={token}");
        let server = cluster.server();
        let server = format!("--server={server}");
        let ca = format!("--certificate-authority={}", cluster.path("data/pki/ca.crt").display());
        let nowhere = "--kubeconfig=/dev/null";
        cluster.run(&["auth", "whoami", nowhere, &server, &ca, &token]).is_ok
    };
    assert!(whoami(&cluster, &old));
    cluster.stop();
    std::fs::remove_file(cluster.path("data/pki/service-account.key")).unwrap();
    cluster.restart(0);
    assert!(whoami(&cluster, &old), "the old key verifies");
    let new = cluster.ok(&["create", "token", "robot"]).trim().to_owned();
    assert!(whoami(&cluster, &new), "the new key signs");
    let algorithms = cluster.ok(&["get", "--raw", "/.well-known/openid-configuration"]);
    assert!(algorithms.contains("ES256") && algorithms.contains("RS256"), "{algorithms}");
}

#[test]
fn anonymous_sees_health_and_version_only() {
    let Some(cluster) = Cluster::start(0) else { return };
    let get = |path: &str| {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"])
            .arg(cluster.path("data/pki/ca.crt"))
            .arg(format!("{}{path}", cluster.server()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(get(path), "200", "{path}");
    }
    for path in ["/api/v1/namespaces", "/api", "/openapi/v3", "/apis/apps/v1/deployments"] {
        assert_eq!(get(path), "403", "{path}");
    }
}
