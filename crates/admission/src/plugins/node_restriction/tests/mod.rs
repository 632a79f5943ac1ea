//! A write by node-1 in, refusal out: upstream's rules, row by row, and every field of the
//! metadata.

mod certificates;
mod metadata;
mod references;

use std::future::ready;

use api::authentication::TokenRequest;
use api::coordination::Lease;
use api::core::{Node, Pod};
use api::object::Dynamic;
use api::policy::Eviction;
use api::{ApiObject, Resource};
use apimachinery::User;
use authz::{Attributes, Decision};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::NodeRestriction;
use crate::attributes::Operation::{self, Create, Delete, Update};
use crate::authorizer::Authorizer;
use crate::chain::{Phase, Plugin as _};
use crate::plugins::fixture::{Case, Objects, decode, now};

/// What anybody may do beyond the rules: have tokens of `robot` for `given`.
struct Given;

impl Authorizer for Given {
    fn decide<'a>(&'a self, user: &'a User, asked: &'a Attributes) -> BoxFuture<'a, Decision> {
        const VERB: &str = "request-serviceaccounts-token-audience";
        let given = Attributes::resource(VERB, "", "given").within("ns", "robot");
        let reason = String::new();
        let is_given = user.name == "system:node:node-1" && *asked == given;
        let decision =
            if is_given { Decision::Allow { reason } } else { Decision::NoOpinion { reason } };
        Box::pin(ready(decision))
    }
}

/// Two nodes, with a pod each; the pod of the first mounts a token for `vault` and one for the API.
fn objects() -> Objects {
    let node = |name: &str| json!({"metadata": {"name": name, "uid": format!("{name}-uid")}});
    let pod = |name: &str, node: &str| {
        json!({
            "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid")},
            "spec": {"nodeName": node, "containers": [], "volumes": [{"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"path": "a", "audience": "vault"}},
                {"serviceAccountToken": {"path": "b"}},
            ]}}]},
        })
    };
    Objects::default()
        .with("nodes", &node("node-1"))
        .with("nodes", &node("node-2"))
        .with("pods", &pod("own", "node-1"))
        .with("pods", &pod("other", "node-2"))
}

fn admit(
    user: &str,
    (operation, resource, namespace, name): (Operation, &str, &str, &str),
    object: Option<&dyn ApiObject>,
    old: Option<&dyn ApiObject>,
) -> String {
    let user = User::new(user, &["system:nodes"]);
    let case = Case { operation, resource, namespace, name, user: &user };
    let outcome = case.with((&objects(), &Given), (object, old), |context| {
        match NodeRestriction.handles(Phase::Mutate, &context.request) {
            true => now(NodeRestriction.admit(context)),
            false => Ok(()),
        }
    });
    outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned())
}

/// As the server asks: a creation has its name in the object alone.
fn said<T: Resource>(
    (operation, resource): (Operation, &str),
    object: Option<&Value>,
    old: Option<&Value>,
) -> String {
    let meta = &object.or(old).unwrap()["metadata"];
    let namespace = meta["namespace"].as_str().unwrap_or("");
    let name = if operation == Create { "" } else { meta["name"].as_str().unwrap() };
    let (new, old) = (object.map(decode::<T>), old.map(decode::<T>));
    admit(
        "system:node:node-1",
        (operation, resource, namespace, name),
        new.as_ref().map(|it| it as &dyn ApiObject),
        old.as_ref().map(|it| it as &dyn ApiObject),
    )
}

fn check<T: Resource>(
    what: (Operation, &str),
    object: Option<&Value>,
    old: Option<&Value>,
    expected: &str,
) {
    let said = said::<T>(what, object, old);
    assert!(said.contains(expected), "{what:?} {object:?} {old:?}: {said} has no {expected}");
}

/// `value` with the field at a pointer set.
fn with(value: &Value, pointer: &str, field: &Value) -> Value {
    let mut value = value.clone();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[last] = field.clone();
    value
}

fn pod(node: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": node, "containers": []}})
}

fn mirror() -> Value {
    let meta = json!({
        "name": "p", "namespace": "ns",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1-uid", "controller": true},
        ],
    });
    with(&pod("node-1"), "/metadata", &meta)
}

#[test]
fn a_node_creates_mirrors_of_its_own_pods() {
    let at = (Create, "/pods");
    check::<Pod>(at, Some(&mirror()), None, "ok");
    check::<Pod>(at, Some(&pod("node-1")), None, "node \"node-1\" can only create mirror pods");
    let rows = [
        (
            "/spec/nodeName",
            json!("node-2"),
            "can only create pods with spec.nodeName set to itself",
        ),
        ("/spec/nodeName", json!(null), "can only create pods with spec.nodeName set to itself"),
        ("/metadata/annotations", json!({"a": "b"}), "can only create mirror pods"),
        ("/metadata/ownerReferences", json!([]), "with an owner reference set to itself"),
        (
            "/metadata/ownerReferences/0/apiVersion",
            json!("apps/v1"),
            "with an owner reference set to itself",
        ),
        ("/metadata/ownerReferences/0/kind", json!("Pod"), "with an owner reference set to itself"),
        (
            "/metadata/ownerReferences/0/name",
            json!("node-2"),
            "with an owner reference set to itself",
        ),
        (
            "/metadata/ownerReferences/0/controller",
            json!(false),
            "with a controller owner reference",
        ),
        (
            "/metadata/ownerReferences/0/blockOwnerDeletion",
            json!(true),
            "must not set blockOwnerDeletion",
        ),
        (
            "/metadata/ownerReferences/0/uid",
            json!("x"),
            "node node-1 UID mismatch: expected x got node-1-uid",
        ),
    ];
    for (pointer, value, expected) in rows {
        check::<Pod>(at, Some(&with(&mirror(), pointer, &value)), None, expected);
    }
    let owner = mirror()["metadata"]["ownerReferences"][0].clone();
    let two = with(&mirror(), "/metadata/ownerReferences", &json!([owner, owner]));
    check::<Pod>(at, Some(&two), None, "with a single owner reference set to itself");
}

/// Every kind of object that a pod can refer to, by every field.
#[test]
fn a_mirror_refers_to_nothing_in_the_api() {
    let refused = |pointer: &str, value: &Value, what: &str| {
        let expected = format!("node \"node-1\" can not create pods that reference {what}");
        let pod = with(&mirror(), pointer, value);
        check::<Pod>((Create, "/pods"), Some(&pod), None, &expected);
    };
    refused("/spec/serviceAccountName", &json!("robot"), "serviceaccounts");
    refused("/spec/imagePullSecrets", &json!([{"name": "x"}]), "secrets");
    refused("/spec/resourceClaims", &json!([{"name": "x"}]), "resourceclaims");
    let secret = json!([{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]);
    let variable = json!([{"name": "c", "env": [{"name": "e", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]}]);
    let config = json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "x"}}]}]);
    for containers in ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"] {
        refused(containers, &secret, "secrets");
        refused(containers, &variable, "secrets");
        refused(containers, &config, "configmaps");
    }
    let volume = |kind: &str, source: &Value, what: &str| {
        refused("/spec/volumes", &json!([{"name": "v", kind: source}]), what);
    };
    volume("secret", &json!({"secretName": "x"}), "secrets");
    volume("secret", &json!({}), "secrets (via secret volumes)");
    volume("configMap", &json!({"name": "x"}), "configmaps");
    volume("configMap", &json!({}), "configmaps (via configmap volumes)");
    volume("csi", &json!({"driver": "d"}), "csidrivers (via CSI volumes)");
    volume(
        "glusterfs",
        &json!({"endpoints": "e", "path": "p"}),
        "endpoints (via glusterFS volumes)",
    );
    volume("persistentVolumeClaim", &json!({"claimName": "x"}), "persistentvolumeclaims");
    volume("ephemeral", &json!({}), "persistentvolumeclaims (via ephemeral volumes)");
    volume("azureFile", &json!({"secretName": "x", "shareName": "s"}), "secrets");
    volume("flexVolume", &json!({"driver": "d", "secretRef": {"name": "x"}}), "secrets");
    let sources = [
        ("secret", json!({}), "secrets (via projected volumes)"),
        ("configMap", json!({}), "configmaps (via projected volumes)"),
        ("serviceAccountToken", json!({"path": "p"}), "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", json!({"path": "p"}), "clustertrustbundles"),
        ("podCertificate", json!({"signerName": "s", "keyType": "k"}), "podcertificates"),
    ];
    for (kind, source, what) in sources {
        volume("projected", &json!({"sources": [{kind: source}]}), what);
        volume("projected", &json!({"sources": [{"downwardAPI": {}}, {kind: source}]}), what);
    }
    volume("projected", &json!({"sources": [{}]}), "an unknown source (projected volume \"v\")");
    refused("/spec/volumes", &json!([{"name": "v"}]), "an unknown volume type (volume \"v\")");
    let harmless = json!([
        {"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/x"}}, {"name": "c", "downwardAPI": {}},
        {"name": "d", "projected": {"sources": [{"downwardAPI": {}}]}},
    ]);
    let pod = with(&mirror(), "/spec/volumes", &harmless);
    check::<Pod>((Create, "/pods"), Some(&pod), None, "ok");
}

/// A volume type that comes with a new version of the API is refused until somebody has looked at
/// it.
#[test]
fn every_type_of_volume_is_known() {
    let volume = api::schema("io.k8s.api.core.v1.Volume").resolve();
    for kind in volume.properties.keys().filter(|it| *it != "name") {
        let pod = with(&mirror(), "/spec/volumes", &json!([{"name": "v", kind: {}}]));
        let said = said::<Pod>((Create, "/pods"), Some(&pod), None);
        assert!(!said.contains("unknown volume type"), "{kind}: {said}");
    }
}

#[test]
fn a_node_deletes_evicts_and_reports_on_its_own_pods() {
    let (own, other) = (pod("node-1"), pod("node-2"));
    check::<Pod>((Delete, "/pods"), None, Some(&own), "ok");
    check::<Pod>(
        (Delete, "/pods"),
        None,
        Some(&other),
        "can only delete pods with spec.nodeName set to itself",
    );
    check::<Pod>(
        (Update, "/pods"),
        Some(&own),
        Some(&own),
        "unexpected operation \"UPDATE\", node \"node-1\" can only create and delete mirror pods",
    );
    let status = (Update, "/pods/status");
    check::<Pod>(status, Some(&own), Some(&own), "ok");
    check::<Pod>(status, Some(&own), Some(&other), "can only update pod status");
    check::<Pod>((Create, "/pods/status"), Some(&own), None, "unexpected operation \"CREATE\"");
    let own = with(&own, "/status", &json!({}));
    let rows = [
        ("/metadata/labels", json!({"a": "b"}), "cannot update labels through pod status"),
        (
            "/status/resourceClaimStatuses",
            json!([{"name": "x"}]),
            "cannot update resource claim statues",
        ),
        (
            "/status/extendedResourceClaimStatus",
            json!({"resourceClaimName": "x"}),
            "cannot update extended resource claim status",
        ),
        (
            "/status/nodeAllocatableResourceClaimStatuses",
            json!([{"resourceClaimName": "x"}]),
            "cannot update node allocatable resource claim statuses",
        ),
        ("/status/phase", json!("Running"), "ok"),
        ("/metadata/annotations", json!({"a": "b"}), "ok"),
    ];
    for (pointer, value, expected) in rows {
        let changed = with(&own, pointer, &value);
        check::<Pod>(status, Some(&changed), Some(&own), expected);
        check::<Pod>(status, Some(&own), Some(&changed), expected);
    }
    for other in ["binding", "ephemeralcontainers", "resize", "exec"] {
        let expected = format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        );
        check::<Pod>((Update, &format!("/pods/{other}")), Some(&own), Some(&own), &expected);
    }
    let evict = |name: &str, expected: &str| {
        let eviction: Eviction = decode(&json!({"metadata": {"name": name, "namespace": "ns"}}));
        let at = (Create, "/pods/eviction", "ns", name);
        let said = admit("system:node:node-1", at, Some(&eviction), None);
        assert!(said.contains(expected), "{said}");
    };
    evict("own", "ok");
    evict("other", "node node-1 can only evict pods with spec.nodeName set to itself");
    evict("gone", "pods \"gone\" not found");
}

#[test]
fn a_node_writes_its_own_node() {
    let node = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let (own, other) = (node("node-1"), node("node-2"));
    let refusal = "node \"node-1\" is not allowed to modify node \"node-2\"";
    check::<Node>((Create, "/nodes"), Some(&own), None, "ok");
    check::<Node>((Create, "/nodes"), Some(&other), None, refusal);
    check::<Node>((Update, "/nodes"), Some(&other), Some(&other), refusal);
    check::<Node>((Update, "/nodes/status"), Some(&other), Some(&other), refusal);
    check::<Node>((Delete, "/nodes"), None, Some(&other), refusal);
    let source =
        json!({"configMap": {"name": "x", "namespace": "ns", "uid": "u", "kubeletConfigKey": "k"}});
    let rows = [
        (
            "/spec/taints",
            json!([{"key": "a", "effect": "NoSchedule"}]),
            "ok",
            "is not allowed to modify taints",
        ),
        (
            "/spec/configSource",
            source,
            "with a non-nil configSource",
            "to a new non-nil configSource",
        ),
        ("/spec/unschedulable", json!(true), "ok", "ok"),
        ("/spec/podCIDR", json!("10.0.0.0/24"), "ok", "ok"),
    ];
    for (pointer, value, on_create, on_update) in rows {
        let changed = with(&own, pointer, &value);
        check::<Node>((Create, "/nodes"), Some(&changed), None, on_create);
        for resource in ["/nodes", "/nodes/status"] {
            check::<Node>((Update, resource), Some(&changed), Some(&own), on_update);
        }
    }
    let tainted = with(&own, "/spec/taints", &json!([{"key": "a", "effect": "NoSchedule"}]));
    check::<Node>(
        (Update, "/nodes"),
        Some(&own),
        Some(&tainted),
        "is not allowed to modify taints",
    );
}

#[test]
fn labels_that_steer_pods_are_not_the_nodes_to_touch() {
    let rows = [
        ("app", true),
        ("example.com/a", true),
        ("kubernetes.io/hostname", true),
        ("kubernetes.io/os", true),
        ("kubernetes.io/arch", true),
        ("topology.kubernetes.io/zone", true),
        ("topology.kubernetes.io/region", true),
        ("node.kubernetes.io/instance-type", true),
        ("beta.kubernetes.io/os", true),
        ("beta.kubernetes.io/arch", true),
        ("beta.kubernetes.io/instance-type", true),
        ("failure-domain.beta.kubernetes.io/zone", true),
        ("failure-domain.beta.kubernetes.io/region", true),
        ("node.kubernetes.io/anything", true),
        ("x.node.kubernetes.io/anything", true),
        ("kubelet.kubernetes.io/anything", true),
        ("node-restriction.kubernetes.io/a", false),
        ("x.node-restriction.kubernetes.io/a", false),
        ("node-role.kubernetes.io/control-plane", false),
        ("kubernetes.io/role", false),
        ("kubernetes.io/a", false),
        ("x.kubernetes.io/a", false),
        ("k8s.io/a", false),
        ("x.k8s.io/a", false),
        ("notkubernetes.io/a", true),
        ("xnode-restriction.kubernetes.io/a", false),
        ("topology.kubernetes.io/other", false),
    ];
    for (label, is_allowed) in rows {
        let bare = json!({"metadata": {"name": "node-1"}});
        let node = |value: &str| json!({"metadata": {"name": "node-1", "labels": {label: value}}});
        let on = |text: &str| if is_allowed { "ok".to_owned() } else { format!("{text}: {label}") };
        let (set, modify) =
            (on("not allowed to set the following labels"), on("is not allowed to modify labels"));
        check::<Node>((Create, "/nodes"), Some(&node("a")), None, &set);
        for resource in ["/nodes", "/nodes/status"] {
            let at = (Update, resource);
            check::<Node>(at, Some(&node("a")), Some(&bare), &modify);
            check::<Node>(at, Some(&node("a")), Some(&node("b")), &modify);
            check::<Node>(at, Some(&bare), Some(&node("b")), &modify);
            check::<Node>(at, Some(&node("a")), Some(&node("a")), "ok");
        }
    }
}

#[test]
fn a_node_writes_its_own_lease() {
    let lease =
        |namespace: &str, name: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    for operation in [Create, Update] {
        let at = (operation, "coordination.k8s.io/leases");
        check::<Lease>(at, Some(&lease("kube-node-lease", "node-1")), None, "ok");
        check::<Lease>(
            at,
            Some(&lease("kube-node-lease", "node-2")),
            None,
            "same name as the requesting node",
        );
        let elsewhere = lease("kube-system", "node-1");
        check::<Lease>(at, Some(&elsewhere), None, "\"kube-node-lease\" system namespace");
    }
    let delete = (Delete, "coordination.k8s.io/leases");
    check::<Lease>(delete, None, Some(&lease("kube-node-lease", "node-1")), "ok");
    check::<Lease>(delete, None, Some(&lease("kube-node-lease", "node-2")), "same name");
}

#[test]
fn a_node_gets_the_tokens_that_its_pods_mount() {
    let check = |bound: &Value, audiences: &Value, expected: &str| {
        let spec = json!({"boundObjectRef": bound, "audiences": audiences});
        let request: TokenRequest = decode(&json!({"metadata": {}, "spec": spec}));
        let at = (Create, "/serviceaccounts/token", "ns", "robot");
        let said = admit("system:node:node-1", at, Some(&request), None);
        assert!(said.contains(expected), "{bound} {audiences}: {said} has no {expected}");
    };
    let own = json!({"apiVersion": "v1", "kind": "Pod", "name": "own", "uid": "own-uid"});
    check(&own, &json!([]), "ok");
    check(&own, &json!(["vault"]), "ok");
    check(&own, &json!(["given"]), "ok");
    check(
        &own,
        &json!(["else"]),
        "system:node:node-1 is not authorized to request tokens for audience \"else\"",
    );
    check(&own, &json!(["vault", "given"]), "node may only request 0 or 1 audiences");
    let unbound = "node requested token not bound to a pod";
    check(&json!(null), &json!([]), unbound);
    check(&with(&own, "/kind", &json!("Secret")), &json!([]), unbound);
    check(&with(&own, "/kind", &json!("Node")), &json!([]), unbound);
    check(&with(&own, "/apiVersion", &json!("v2")), &json!([]), unbound);
    check(&with(&own, "/name", &json!("")), &json!([]), unbound);
    check(&with(&own, "/uid", &json!(null)), &json!([]), "with a pod binding without a uid");
    check(&with(&own, "/uid", &json!("")), &json!([]), "with a pod binding without a uid");
    check(
        &with(&own, "/uid", &json!("x")),
        &json!([]),
        "the UID in the bound object reference (x) does not match",
    );
    check(&with(&own, "/name", &json!("gone")), &json!([]), "pods \"gone\" not found");
    let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "other-uid"});
    check(&other, &json!([]), "bound to a pod scheduled on a different node");
}

/// For kinds that are not served yet.
fn check_to_come(
    (operation, resource): (Operation, &str),
    new: Option<&Value>,
    old: Option<&Value>,
    expected: &str,
) {
    let decode = |it: &Value| Dynamic::from_value(it.clone()).unwrap();
    let (new, old) = (new.map(decode), old.map(decode));
    let named = new.as_ref().or(old.as_ref()).unwrap().metadata.name.clone().unwrap();
    let name = if operation == Create { "" } else { named.as_str() };
    let said = admit(
        "system:node:node-1",
        (operation, resource, "", name),
        new.as_ref().map(|it| it as &dyn ApiObject),
        old.as_ref().map(|it| it as &dyn ApiObject),
    );
    assert!(said.contains(expected), "{operation:?} {resource}: {said} has no {expected}");
}

#[test]
fn a_node_writes_its_own_csi_node_and_slices() {
    let check = check_to_come;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let (csi, refusal) = ("storage.k8s.io/csinodes", "can only access CSINode with the same name");
    check((Create, csi), Some(&named("node-1")), None, "ok");
    check((Create, csi), Some(&named("node-2")), None, refusal);
    check((Update, csi), Some(&named("node-2")), None, refusal);
    let status = "storage.k8s.io/csinodes/status";
    check((Update, status), Some(&named("node-1")), None, "is disabled");
    let slice = |node: &str| json!({"metadata": {"name": "s"}, "spec": {"nodeName": node}});
    let slices = "resource.k8s.io/resourceslices";
    let refusal = |verb: &str| format!("can only {verb} ResourceSlice with the same NodeName");
    check((Create, slices), Some(&slice("node-1")), None, "ok");
    check((Create, slices), Some(&slice("node-2")), None, &refusal("create"));
    check((Create, slices), Some(&named("s")), None, &refusal("create"));
    check((Delete, slices), None, Some(&slice("node-1")), "ok");
    check((Delete, slices), None, Some(&slice("node-2")), &refusal("delete"));
}

#[test]
fn of_a_claim_a_node_says_how_large_it_is() {
    let check = check_to_come;
    let claim = |storage: &str| json!({"metadata": {"name": "c"}, "status": {"capacity": {"storage": storage}, "phase": "Bound"}});
    let (claims, status) = ("/persistentvolumeclaims", "/persistentvolumeclaims/status");
    check((Update, claims), Some(&claim("1")), Some(&claim("1")), "may only update PVC status");
    check((Create, claims), Some(&claim("1")), None, "may only update PVC status");
    check((Update, status), Some(&claim("2")), Some(&claim("1")), "ok");
    let refusal = "is not allowed to update fields other than";
    let moved = with(&claim("1"), "/status/phase", &json!("Lost"));
    check((Update, status), Some(&moved), Some(&claim("1")), refusal);
    let labelled = with(&claim("1"), "/metadata/labels", &json!({"a": "b"}));
    check((Update, status), Some(&labelled), Some(&claim("1")), refusal);
}

#[test]
fn a_user_of_no_node_in_particular_writes_nothing() {
    let check = |user: &str, expected: &str| {
        let lease: Lease = decode(&json!({"metadata": {"name": "x", "namespace": "y"}}));
        let at = (Create, "coordination.k8s.io/leases", "y", "");
        let said = admit(user, at, Some(&lease), None);
        assert!(said.contains(expected), "{said}");
    };
    check("system:node:", "could not determine node from user \"system:node:\"");
    check("system:node:node-1", "system namespace");
    check("alice", "ok");
}
