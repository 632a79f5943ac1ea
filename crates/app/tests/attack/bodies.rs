//! Bodies: nobody makes the server read one that they may not send, and no body ends it, whatever
//! it nests or repeats.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::{Value, json};

use crate::control_plane::Cluster;
use crate::user::User;

const MAPS: &str = "/api/v1/namespaces/mine/configmaps";

/// Somebody without a token asks whether the body is wanted before sending it: the code, and how
/// many bytes were sent.
fn offer(cluster: &Cluster, body: &str, more: &[&OsStr]) -> String {
    let output = Command::new("curl")
        .args(["-sS", "--http1.1", "-o", "/dev/null", "-w", "%{http_code} %{size_upload}"])
        .args(["--max-time", "60", "--expect100-timeout", "50", "-H", "Expect: 100-continue"])
        .args(["-H", "Content-Type: application/yaml", "--data-binary"])
        .arg(format!("@{}", cluster.file("body", body)))
        .arg("--cacert")
        .arg(cluster.path("data/pki/ca.crt"))
        .args(more)
        .arg(format!("{}{MAPS}", cluster.server()))
        .output()
        .unwrap();
    let (text, errors) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    String::from_utf8_lossy(&text).into_owned() + &errors
}

fn alias_bomb() -> String {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
    }
    bomb
}

#[test]
fn a_body_is_read_from_those_who_may_send_it_and_taken_within_bounds() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: [""], resources: [configmaps], verbs: [create, get, patch]}"#;
    let user = User::new(&cluster, "mine", "mallory", &[rule]);
    // Not a byte is asked for.
    assert_eq!(offer(&cluster, &alias_bomb(), &[]), "403 0");
    let token = [OsStr::new("-H"), OsStr::new("Authorization: Bearer x.y.z")];
    assert_eq!(offer(&cluster, &alias_bomb(), &token), "401 0");
    // Who may send a bomb is told that it is one.
    let yaml = ["-X", "POST", "-H", "Content-Type: application/yaml", "--data-binary"];
    let bomb = user.curl(MAPS, &[&yaml[..], &[&alias_bomb()]].concat());
    assert_eq!(bomb.code, 400, "{}", bomb.body);

    assert_eq!(user.post(MAPS, r#"{"metadata": {"name": "a"}, "data": {"a": "1"}}"#).code, 201);
    let patch = |kind: &str, body: &Value| {
        let kind = format!("Content-Type: application/{kind}");
        let body = format!("@{}", cluster.file("patch", &body.to_string()));
        let path = format!("{MAPS}/a?fieldManager=mallory");
        user.curl(&path, &["-X", "PATCH", "-H", &kind, "--data-binary", &body]).code
    };
    // This once took the stack, and with it the process.
    let copy = json!({"op": "copy", "from": "/data", "path": "/data/a"});
    assert_eq!(patch("json-patch+json", &Value::Array(vec![copy; 1_000])), 422);
    let nested = (0..126).fold(json!(1), |inner, _| json!({"a": inner}));
    for kind in ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": nested});
        assert_eq!(patch(kind, &object), 400, "{kind}");
    }
    let deep = format!("@{}", cluster.file("deep", &"[".repeat(3_000_000)));
    for kind in ["json", "yaml"] {
        let kind = format!("Content-Type: application/{kind}");
        let refused = user.curl(MAPS, &["-X", "POST", "-H", &kind, "--data-binary", &deep]);
        assert_eq!(refused.code, 400, "{}", refused.body);
    }
    assert_eq!(user.curl(&format!("{MAPS}/a"), &[]).code, 200);
}

#[test]
fn what_is_too_large_or_too_far_is_refused_and_ends_nothing() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rules = [
        r#"{apiGroups: [""], resources: [configmaps], verbs: [create, list, watch]}"#,
        r#"{apiGroups: [apps], resources: [deployments], verbs: [create]}"#,
    ];
    let user = User::new(&cluster, "mine", "mallory", &rules);
    let deployment = json!({
        "metadata": {"name": "large"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "c", "args": ["x".repeat(2_800_000)]}]},
            },
        },
    });
    let body = format!("@{}", cluster.file("large", &deployment.to_string()));
    let json = ["-X", "POST", "-H", "Content-Type: application/json", "--data-binary", &body];
    let large = user.curl("/apis/apps/v1/namespaces/mine/deployments", &json);
    assert_eq!(large.code, 413, "{}", large.body);
    assert!(large.body.contains("etcdserver: request is too large"), "{}", large.body);

    // Cut in the middle of a letter, once.
    let name = format!(r#"{{"metadata": {{"generateName": "a{}"}}}}"#, "ä".repeat(40));
    let name = user.post(MAPS, &name);
    assert_eq!(name.code, 422, "{}", name.body);
    let list = |query: &str| user.curl(&format!("{MAPS}?{query}"), &[]).code;
    assert_eq!(list(&format!("watch=1&timeoutSeconds={}", u64::MAX)), 400);
    assert_eq!(list(&format!("limit={}", u64::MAX)), 400);
    assert_eq!(list("watch=1&timeoutSeconds=1"), 200);
    assert!(!cluster.log().contains("panicked"), "{}", cluster.log());
}
