//! The commands of ours that ask a cluster: `xebec admit` and `xebec policy check`.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::cluster::Cluster;

const POLICY: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-latest.example.com}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE, UPDATE], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}
  validations:
  - expression: \"!has(object.data) || !('image' in object.data) || object.data.image != 'latest'\"
    message: images have versions
";

const BINDING: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: no-latest.example.com, validationActions: [Deny]}
";

fn map(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{image: {image}}}\n"
    )
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, image: i}}]\n"
    )
}

/// Code, standard output and standard error.
fn xebec(cluster: &Cluster, arguments: &[&str]) -> (i32, String, String) {
    ended(command(cluster, arguments).stdin(Stdio::null()).output().unwrap())
}

fn command(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xebec"));
    command.args(arguments).env("KUBECONFIG", cluster.path("data/kubeconfig"));
    command
}

fn ended(output: Output) -> (i32, String, String) {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn admission_is_explained_for_every_object_of_a_file() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.until(&["get", "serviceaccount", "default", "-o", "name"], |it| it.contains("default"));
    // What a plugin changes is a difference; the namespace is that of the flag.
    let file = cluster.file("pod.yaml", &pod("web"));
    let (code, out, err) = xebec(&cluster, &["admit", "-f", &file]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("pod/web in default: CREATE would be allowed\n"), "{out}");
    assert!(out.contains("+ spec.serviceAccountName: \"default\""), "{out}");
    assert!(cluster.refused(&["get", "pod", "web"]).contains("NotFound"), "nothing is stored");
    let (code, out, err) = xebec(&cluster, &["admit", "-f", &file, "-n", "nowhere"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("refused: 404") && out.contains("what helps: create the name"), "{out}");
    assert!(err.contains("1 of 1 objects would be refused"), "{err}");

    // A policy, by standard input, on what is there already.
    cluster.ok(&["create", "-f", &cluster.file("m.yaml", &map("m", "v1"))]);
    let policy = cluster.file("policy.yaml", &format!("{POLICY}---\n{BINDING}"));
    cluster.ok(&["create", "-f", &policy]);
    let both = format!("{}---\n{}", map("m", "latest"), map("other", "v2"));
    let mut child = command(&cluster, &["admit", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(both.as_bytes()).unwrap();
    let (code, out, err) = ended(child.wait_with_output().unwrap());
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("configmap/m in default: UPDATE would be refused"), "{out}{err}");
    assert!(out.contains("configmap/other in default: CREATE would be allowed"), "{out}");
    assert!(out.contains("policy no-latest.example.com, binding everywhere: "), "{out}");
    assert!(out.contains("! spec.validations[0].expression (cost "), "{out}");
    assert!(out.contains("images have versions"), "{out}");
    let kept = cluster.json(&["get", "configmap", "m"]);
    assert_eq!(kept["data"]["image"], "v1");

    // For programs.
    let file = cluster.file("m.yaml", &map("m", "latest"));
    let (code, out, _) = xebec(&cluster, &["admit", "-f", &file, "-o", "json"]);
    let outcomes: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &outcomes[0]["report"]["verdict"]), (1, &Value::from("Refused")));
    let delete = ["admit", "-f", &file, "--operation", "delete"];
    let (code, out, _) = xebec(&cluster, &delete);
    assert!(code == 0 && out.contains("configmap/m in default: DELETE would be allowed"), "{out}");
    // Somebody who may not.
    let (code, out, _) = xebec(&cluster, &["admit", "-f", &file, "--as", "jane"]);
    assert_eq!(code, 1);
    assert!(out.contains("refused before admission") && out.contains("\"jane\" cannot"), "{out}");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let Some(cluster) = Cluster::start(0) else { return };
    let refused = |arguments: &[&str]| {
        let (code, out, err) = xebec(&cluster, arguments);
        assert_eq!(code, 1, "{arguments:?}: {out}{err}");
        format!("{out}{err}")
    };
    let file = cluster.file("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n");
    let said = refused(&["admit", "-f", &file]);
    assert!(said.contains("bad.yaml") && said.contains("line "), "{said}");
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Boat\n";
    let said = refused(&["admit", "-f", &cluster.file("boat.yaml", text)]);
    assert!(said.contains("line 5: the server has no kind Boat in v1"), "{said}");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndate: {a: b}\n";
    let said = refused(&["admit", "-f", &cluster.file("field.yaml", text)]);
    assert!(said.contains("unknown field \"date\""), "{said}");
    let said = refused(&["admit", "-f", &file, "--kubeconfig", "/nonexistent"]);
    assert!(said.contains("line "), "the file comes first: {said}");
    let bad = POLICY.replace("object.data.image", "object.data.");
    let said = refused(&["policy", "check", "-f", &cluster.file("policy.yaml", &bad)]);
    assert!(said.contains("line 1") && said.contains("spec.validations[0].expression"), "{said}");
}

#[test]
fn a_policy_is_tried_on_what_is_there_and_on_what_was_written() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.until(&["get", "namespace", "default", "-o", "name"], |it| it.contains("default"));
    for (name, image) in [("bad", "latest"), ("good", "v1"), ("was-bad", "latest")] {
        cluster.ok(&["create", "-f", &cluster.file("m.yaml", &map(name, image))]);
    }
    cluster.ok(&["apply", "-f", &cluster.file("m.yaml", &map("was-bad", "v2"))]);
    let policy = cluster.file("policy.yaml", POLICY);
    let check = ["policy", "check", "-f", &policy, "-n", "default"];
    let (code, out, err) = xebec(&cluster, &check);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("default     configmap/bad   now"), "{out}");
    assert!(out.contains("no-latest.example.com: validations[0]   images have versions"), "{out}");
    assert!(!out.contains("was-bad") && !out.contains("configmap/good"), "{out}");
    assert!(out.contains("1 of 4 objects would be refused"), "with kube-root-ca.crt: {out}");
    assert!(out.contains("no binding in the file"), "{out}");

    // What it was before is in the history.
    let (code, out, err) =
        xebec(&cluster, &[&check[..], &["--since", "24h", "-o", "json"]].concat());
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1, "{out}{err}");
    let writes: Vec<(&str, &str)> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it.get("write").is_some())
        .map(|it| (it["name"].as_str().unwrap(), it["write"]["operation"].as_str().unwrap()))
        .collect();
    assert_eq!(writes, [("bad", "CREATE"), ("was-bad", "CREATE")], "{out}");
    assert_eq!((&found["objectsRefused"], &found["writesRefused"]), (&1.into(), &2.into()));
    assert!(found["writesChecked"].as_u64() >= Some(4), "{out}");
    assert!(out.contains("the API tells the history of configmaps from revision"), "{out}");
    // Bounded in what is shown, not in what is counted.
    let (_, out, _) = xebec(&cluster, &[&check[..], &["--since", "24h", "--limit", "1"]].concat());
    assert!(out.contains("and 2 more (see --limit)"), "{out}");

    // Nothing to refuse.
    let fine = cluster.file("fine.yaml", &POLICY.replace("'latest'", "'never'"));
    let (code, out, err) = xebec(&cluster, &["policy", "check", "-f", &fine, "-n", "default"]);
    assert_eq!(code, 0, "{out}{err}");
    // Who made a write is not known, and that is said.
    let asks = POLICY.replace("object.data.image != 'latest'", "request.userInfo.username == 'x'");
    let asks = cluster.file("asks.yaml", &asks);
    let (_, out, _) = xebec(&cluster, &["policy", "check", "-f", &asks, "-n", "default"]);
    assert!(out.contains("who made a write is not kept"), "{out}");
    // Whoever may not read cannot check.
    let (code, _, err) = xebec(&cluster, &[&check[..], &["--as", "jane"]].concat());
    assert!(code == 1 && err.contains("forbidden"), "{err}");
}

#[test]
fn rules_levels_and_changes_are_tried_before_they_are_enforced() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.until(&["get", "serviceaccount", "default", "-o", "name"], |it| it.contains("default"));
    let crd = |rule: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: boats.example.com}}\nspec:\n  group: example.com\n  scope: Namespaced\n  \
             names: {{plural: boats, singular: boat, kind: Boat, listKind: BoatList}}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        \
             type: object\n        properties:\n          spec:\n            type: object\n            \
             properties: {{masts: {{type: integer}}}}\n{rule}"
        )
    };
    cluster.ok(&["create", "-f", &cluster.file("crd.yaml", &crd(""))]);
    for (name, masts) in [("brig", 2), ("raft", 0)] {
        let boat = format!(
            "apiVersion: example.com/v1\nkind: Boat\nmetadata: {{name: {name}}}\nspec: {{masts: {masts}}}\n"
        );
        let file = cluster.file("boat.yaml", &boat);
        cluster.until(&["apply", "-f", &file], |it| {
            it.contains("created") || it.contains("unchanged")
        });
    }
    let rule = "            x-kubernetes-validations:\n            - {rule: self.masts > 0, message: a boat sails}\n";
    let stricter = cluster.file("stricter.yaml", &crd(rule));
    let (code, out, err) = xebec(&cluster, &["policy", "check", "-f", &stricter, "--since", "1h"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("default     boat/raft") && out.contains("a boat sails"), "{out}");
    assert!(out.contains("1 of 2 objects would be refused"), "{out}");
    assert!(out.contains("1 of 2 writes would have been refused"), "{out}");
    // A policy for custom resources.
    let policy = POLICY
        .replace("apiGroups: ['']", "apiGroups: [example.com]")
        .replace("configmaps", "boats")
        .replace(
            "!has(object.data) || !('image' in object.data) || object.data.image != 'latest'",
            "object.spec.masts < 2",
        );
    let policy = cluster.file("boats.yaml", &policy);
    let (code, out, err) = xebec(&cluster, &["policy", "check", "-f", &policy]);
    assert!(code == 1 && out.contains("boat/brig") && !out.contains("boat/raft"), "{out}{err}");

    // Pod Security.
    cluster.ok(&["create", "-f", &cluster.file("pod.yaml", &pod("web"))]);
    let level = |level: &str| {
        xebec(&cluster, &["policy", "check", "--pod-security", level, "-n", "default"])
    };
    let (code, out, err) = level("restricted");
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("pod/web") && out.contains("allowPrivilegeEscalation != false"), "{out}");
    let (code, out, err) = level("baseline:v1.30");
    assert_eq!(code, 0, "{out}{err}");

    // A mutating policy changes, and refuses nothing.
    let mutating = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\n\
        metadata: {name: label}\nspec:\n  reinvocationPolicy: Never\n  matchConstraints:\n    resourceRules:\n    \
        - {operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}\n  mutations:\n  \
        - patchType: ApplyConfiguration\n    applyConfiguration:\n      expression: \"Object{metadata: Object.metadata{labels: {'a': 'b'}}}\"\n";
    let file = cluster.file("mutating.yaml", mutating);
    let (code, out, err) = xebec(&cluster, &["policy", "check", "-f", &file, "-n", "default"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("would change metadata.labels"), "{out}");
}

/// Answers every request with the version of another server.
fn upstream() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let body = r#"{"gitVersion": "v1.36.4"}"#;
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

#[test]
fn a_server_that_does_not_explain_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let server = upstream();
    let kubeconfig = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
    );
    std::fs::write(path("kubeconfig"), kubeconfig).unwrap();
    std::fs::write(path("m.yaml"), map("m", "v1")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(["admit", "-f", &path("m.yaml"), "--kubeconfig", &path("kubeconfig")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (code, out, err) = ended(output);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("does not explain admission") && err.contains("v1.36.4"), "{err}");
}
