//! Somebody holds the key of a node: it gets what that node's pods need, and no more.

use std::process::{Command, Stdio};

use authn::pki::Authority;
use stdx::World;

use crate::control_plane::Cluster;
use crate::user::Answer;

/// curl with the certificate of the user `system:node:<name>`.
struct Node {
    arguments: Vec<String>,
    server: String,
}

impl Node {
    fn new(cluster: &Cluster, name: &str) -> Self {
        let pki = cluster.path("data/pki");
        let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
        let authority = Authority::load(&read("ca.crt"), &read("ca.key")).unwrap();
        let World { clock, random } = World::system();
        let user = format!("system:node:{name}");
        let identity =
            authority.issue_client(&user, &["system:nodes"], clock.now(), &random).unwrap();
        let certificate = cluster.file(&format!("{name}.crt"), &identity.certificate_pem);
        let key = cluster.file(&format!("{name}.key"), &identity.private_key_pem);
        let authority = pki.join("ca.crt").display().to_string();
        let arguments = ["--cacert", &authority, "--cert", &certificate, "--key", &key];
        Self { arguments: arguments.map(str::to_owned).to_vec(), server: cluster.server() }
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", "-X", method])
            .args(&self.arguments)
            .args(["-H", &format!("Content-Type: {kind}"), "-d", body])
            .arg(format!("{}{path}", self.server))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (body, code) = text.rsplit_once('\n').unwrap();
        Answer { code: code.parse().unwrap(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> u16 {
        self.send("GET", path, "application/json", "").code
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, "application/json", body)
    }

    fn patch(&self, path: &str, body: &str) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", body)
    }
}

fn refused(answer: &Answer, expected: &str) {
    assert_eq!(answer.code, 403, "{answer:?}");
    assert!(answer.body.contains(expected), "{answer:?} has no {expected}");
}

/// Two nodes, a pod and a Secret for each, and what is nobody's.
fn cluster() -> Option<(Cluster, Node)> {
    let cluster = Cluster::start(0)?;
    let node = Node::new(&cluster, "taken");
    let reserved = r#"{"metadata": {"name": "taken", "labels": {"node-role.kubernetes.io/control-plane": ""}}}"#;
    refused(&node.post("/api/v1/nodes", reserved), "is not allowed to set the following labels");
    refused(
        &node.post("/api/v1/nodes", r#"{"metadata": {"name": "other"}}"#),
        "is not allowed to modify node",
    );
    let plain = r#"{"metadata": {"name": "taken", "labels": {"kubernetes.io/hostname": "taken"}}}"#;
    assert_eq!(node.post("/api/v1/nodes", plain).code, 201);
    cluster.ok(&["label", "node", "taken", "node-restriction.kubernetes.io/pool=plain"]);
    let pod = |name: &str, node: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: mine}}, spec: {{nodeName: {node}, \
             serviceAccountName: robot, containers: [{{name: c, image: x, envFrom: [{{secretRef: {{name: {name}}}}}]}}]}}}}\n"
        )
    };
    cluster.ok(&["create", "namespace", "mine"]);
    cluster.ok(&["create", "serviceaccount", "robot", "-n", "mine"]);
    cluster.ok(&["create", "serviceaccount", "treasurer", "-n", "mine"]);
    for name in ["own", "other", "treasure"] {
        cluster.ok(&["create", "secret", "generic", name, "-n", "mine"]);
    }
    let manifest = format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: other}}}}\n{}{}",
        pod("own", "taken"),
        pod("other", "other")
    );
    let path = cluster.file("pods.yaml", &manifest);
    cluster.ok(&["apply", "-f", &path]);
    Some((cluster, node))
}

const ALLOWED: &[&str] = &[
    "/api/v1/nodes/taken",
    "/api/v1/nodes?fieldSelector=metadata.name=taken",
    "/api/v1/pods?fieldSelector=spec.nodeName=taken",
    "/api/v1/namespaces/mine/pods/own",
    "/api/v1/namespaces/mine/secrets/own",
    "/api/v1/namespaces/mine/serviceaccounts/robot",
    "/api/v1/services",
];

const FORBIDDEN: &[&str] = &[
    "/api/v1/nodes",
    "/api/v1/nodes/other",
    "/api/v1/nodes/other?fieldSelector=metadata.name=taken",
    "/api/v1/pods",
    "/api/v1/pods?fieldSelector=spec.nodeName=other",
    "/api/v1/namespaces/mine/pods/other",
    "/api/v1/namespaces/mine/pods/other?fieldSelector=spec.nodeName=taken",
    "/api/v1/secrets",
    "/api/v1/namespaces/mine/secrets",
    "/api/v1/namespaces/mine/secrets/other",
    "/api/v1/namespaces/mine/secrets/treasure",
    "/api/v1/namespaces/mine/secrets/treasure?fieldSelector=metadata.name=own",
    "/api/v1/namespaces/mine/serviceaccounts/treasurer",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/taken",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

#[test]
fn a_node_reads_and_writes_what_is_its_own() {
    let Some((cluster, node)) = cluster() else { return };
    for path in ALLOWED {
        assert_eq!(node.get(path), 200, "{path}");
    }
    for path in FORBIDDEN {
        assert_eq!(node.get(path), 403, "{path}");
    }
    // Its own Node, but not where pods go by it, nor what it belongs to.
    let own = "/api/v1/nodes/taken";
    let owner = r#"{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}]}}"#;
    let role = r#"{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}"#;
    let pool = r#"{"metadata": {"labels": {"node-restriction.kubernetes.io/pool": null}}}"#;
    let taints = r#"{"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}"#;
    for path in [own, "/api/v1/nodes/taken/status"] {
        refused(&node.patch(path, owner), "is not allowed to modify ownerReferences");
        refused(
            &node.patch(path, role),
            "is not allowed to modify labels: node-role.kubernetes.io/control-plane",
        );
        refused(
            &node.patch(path, pool),
            "is not allowed to modify labels: node-restriction.kubernetes.io/pool",
        );
        refused(&node.patch(path, taints), "is not allowed to modify taints");
        assert_eq!(node.patch(path, r#"{"metadata": {"annotations": {"a": "b"}}}"#).code, 200);
    }
    refused(&node.patch("/api/v1/nodes/other/status", "{}"), "is not allowed to modify node");
    refused(&node.send("DELETE", own, "application/json", ""), "cannot delete resource");
    let evict = r#"{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other", "namespace": "mine"}}"#;
    refused(
        &node.post("/api/v1/namespaces/mine/pods/other/eviction", evict),
        "can only evict pods",
    );
    refused(
        &node.send("DELETE", "/api/v1/namespaces/mine/pods/other", "application/json", ""),
        "can only delete pods",
    );
    refused(
        &node.patch("/api/v1/namespaces/mine/pods/other/status", "{}"),
        "can only update pod status",
    );
    refused(&node.patch("/api/v1/namespaces/mine/pods/own", "{}"), "cannot patch resource");
    assert_eq!(
        cluster.json(&["get", "node", "taken"])["metadata"]["labels"]["node-restriction.kubernetes.io/pool"],
        "plain"
    );
}

/// A pod that the node made up named a Secret, and so the node might read it.
#[test]
fn a_node_makes_up_no_pod_that_opens_a_secret() {
    let Some((cluster, node)) = cluster() else { return };
    let uid =
        cluster.json(&["get", "node", "taken"])["metadata"]["uid"].as_str().unwrap().to_owned();
    let mirror = |uid: &str, spec: &str| {
        format!(
            r#"{{"metadata": {{"name": "made-up", "annotations": {{"kubernetes.io/config.mirror": "x"}}, "ownerReferences":
            [{{"apiVersion": "v1", "kind": "Node", "name": "taken", "uid": "{uid}", "controller": true}}]}},
            "spec": {{"nodeName": "taken", "containers": [{{"name": "c", "image": "x"}}]{spec}}}}}"#
        )
    };
    let pods = "/api/v1/namespaces/mine/pods";
    let post = |spec: &str| node.post(pods, &mirror(&uid, spec));
    refused(
        &post(r#", "volumes": [{"name": "v", "secret": {"secretName": "treasure"}}]"#),
        "secrets",
    );
    refused(&post(r#", "imagePullSecrets": [{"name": "treasure"}]"#), "secrets");
    refused(&post(r#", "serviceAccountName": "treasurer""#), "service accounts");
    let token = r#", "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}]"#;
    refused(&post(token), "ServiceAccountToken volume projections");
    refused(
        &post(
            r#", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "treasure"}}]"#,
        ),
        "persistentvolumeclaims",
    );
    refused(&node.post(pods, &mirror("0", "")), "UID mismatch");
    let plain = r#"{"metadata": {"name": "made-up"}, "spec": {"nodeName": "taken", "containers": [{"name": "c", "image": "x"}]}}"#;
    refused(&node.post(pods, plain), "can only create mirror pods");
    assert_eq!(post("").code, 201);
    assert_eq!(node.get("/api/v1/namespaces/mine/secrets/treasure"), 403);
}

#[test]
fn a_node_gets_tokens_for_its_pods_alone() {
    let Some((cluster, node)) = cluster() else { return };
    let uid = |pod: &str| {
        let pod = cluster.json(&["get", "pod", pod, "-n", "mine"]);
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let ask = |account: &str, bound: &str, audiences: &str| {
        let body =
            format!(r#"{{"spec": {{"audiences": [{audiences}], "boundObjectRef": {bound}}}}}"#);
        node.post(&format!("/api/v1/namespaces/mine/serviceaccounts/{account}/token"), &body)
    };
    let pod = |name: &str, uid: &str| {
        format!(r#"{{"apiVersion": "v1", "kind": "Pod", "name": "{name}", "uid": "{uid}"}}"#)
    };
    let own = pod("own", &uid("own"));
    assert_eq!(ask("robot", &own, "").code, 201);
    refused(&ask("robot", "null", ""), "not bound to a pod");
    refused(&ask("robot", &pod("own", ""), ""), "without a uid");
    refused(&ask("robot", &pod("other", &uid("other")), ""), "scheduled on a different node");
    refused(
        &ask("robot", &own, r#""https://vault""#),
        "is not authorized to request tokens for audience",
    );
    refused(&ask("robot", &own, r#""a", "b""#), "node may only request 0 or 1 audiences");
    refused(&ask("treasurer", &own, ""), "no relationship found");
}
