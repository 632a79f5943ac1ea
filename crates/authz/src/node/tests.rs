//! A request by node-1 in, yes or no out.

use std::sync::Arc;

use api::{Lookup, Meta, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use features::Gates;
use serde_json::{Value, json};

use super::NodeAuthorizer;
use crate::attributes::Attributes;
use crate::authorizer::Authorizer;
use crate::rbac::Rbac;

/// By resource.
struct Objects(Vec<(&'static str, Arc<Stored>)>);

impl Lookup for Objects {
    fn find(&self, of: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        let is_it = |it: &&(&str, Arc<Stored>)| it.0 == of.resource && it.1.meta.key == *key;
        self.0.iter().find(is_it).map(|it| it.1.clone())
    }

    fn list(&self, of: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let is_within = |it: &Stored| namespace.is_none_or(|ns| it.meta.key.namespace == ns);
        let all = self.0.iter().filter(|it| it.0 == of.resource && is_within(&it.1));
        all.map(|it| it.1.clone()).collect()
    }
}

/// Of the claims of pods, with a Secret each, and on nodes.
fn volumes() -> Vec<(&'static str, Arc<Stored>)> {
    let stored = |name: &str, object: Value| {
        let meta = Meta { key: ObjectKey::cluster(name), ..Meta::default() };
        Arc::new(Stored::new(meta, object.to_string().into_bytes().into()))
    };
    let volume = |name: &str, claim: &str| {
        let secret = |of: &str| json!({"namespace": "keys", "name": format!("{name}-{of}")});
        let spec = json!({
            "claimRef": {"namespace": "ns", "name": claim},
            "csi": {
                "driver": "d", "volumeHandle": "h",
                "nodeStageSecretRef": secret("key"), "controllerPublishSecretRef": secret("other"),
            },
        });
        let metadata = json!({"name": name});
        ("persistentvolumes", stored(name, json!({"metadata": metadata, "spec": spec})))
    };
    let attachment = |name: &str, node: &str| {
        let spec = json!({"attacher": "d", "nodeName": node, "source": {}});
        let metadata = json!({"name": name});
        ("volumeattachments", stored(name, json!({"metadata": metadata, "spec": spec})))
    };
    vec![
        volume("own-volume", "own-claim"),
        volume("other-volume", "other-claim"),
        volume("mirror-volume", "mirror-claim"),
        attachment("own-attachment", "node-1"),
        attachment("other-attachment", "node-2"),
    ]
}

fn authorizer() -> Authorizer {
    let pod = |name: &str, node: &str, annotations: Value| {
        let named = |what: &str| json!({"name": format!("{name}-{what}")});
        let pod = json!({
            "metadata": {"namespace": "ns", "name": name, "annotations": annotations},
            "spec": {
                "nodeName": node,
                "serviceAccountName": format!("{name}-account"),
                "containers": [{"name": "c", "envFrom": [{"secretRef": named("env")}]}],
                "volumes": [
                    {"name": "v", "configMap": named("config")},
                    {"name": "w", "persistentVolumeClaim": {"claimName": format!("{name}-claim")}},
                    {"name": "x", "ephemeral": {}},
                ],
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": format!("{name}-gpu")},
                    {"name": "b", "resourceClaimTemplateName": format!("{name}-template")},
                ],
            },
            "status": {"resourceClaimStatuses": [
                {"name": "b", "resourceClaimName": format!("{name}-made")},
                {"name": "c", "resourceClaimName": format!("{name}-stray")},
            ]},
        });
        let meta = Meta {
            key: ObjectKey::new("ns", name),
            fields: [("spec.nodeName", node)].into(),
            ..Meta::default()
        };
        Arc::new(Stored::new(meta, pod.to_string().into_bytes().into()))
    };
    let slice = |name: &str, node: &str| {
        let slice = json!({
            "metadata": {"name": name},
            "spec": {
                "driver": "d", "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            },
        });
        let meta = Meta { key: ObjectKey::cluster(name), ..Meta::default() };
        Arc::new(Stored::new(meta, slice.to_string().into_bytes().into()))
    };
    let mut objects = volumes();
    objects.extend([
        ("resourceslices", slice("own-slice", "node-1")),
        ("resourceslices", slice("other-slice", "node-2")),
        ("pods", pod("own", "node-1", json!({}))),
        ("pods", pod("other", "node-2", json!({}))),
        ("pods", pod("mirror", "node-1", json!({"kubernetes.io/config.mirror": "x"}))),
    ]);
    Authorizer::new(
        Arc::new(Rbac::new()),
        NodeAuthorizer::new(Arc::new(Objects(objects)), &Gates::default()),
    )
}

/// What node-1 asks, as `verb group/resource[/subresource] namespace/name [field=value]`, and the
/// answer: `yes`, or why not. Upstream's table, row by row.
const TABLE: &[(&str, &str)] = &[
    // Nodes: reads by name; writes are NodeRestriction's.
    ("get /nodes /node-1", "yes"),
    ("list /nodes /node-1", "yes"),
    ("watch /nodes /node-1", "yes"),
    ("get /nodes /node-2", "node 'node-1' cannot read 'node-2', only its own Node object"),
    ("watch /nodes /node-2", "node 'node-1' cannot read 'node-2', only its own Node object"),
    ("list /nodes /", "node 'node-1' cannot read all nodes, only its own Node object"),
    (
        "get /nodes /node-2 metadata.name=node-1",
        "node 'node-1' cannot read 'node-2', only its own Node object",
    ),
    ("create /nodes /", "yes"),
    ("update /nodes /node-1", "yes"),
    ("patch /nodes /node-1", "yes"),
    ("update /nodes/status /node-1", "yes"),
    ("patch /nodes/status /node-1", "yes"),
    ("get /nodes/status /node-1", ""),
    ("delete /nodes /node-1", ""),
    ("deletecollection /nodes /", ""),
    ("get /nodes/proxy /node-1", ""),
    ("create /nodes/proxy /node-1", ""),
    // Pods: reads of its own; writes are NodeRestriction's.
    ("get /pods ns/own", "yes"),
    ("get /pods ns/mirror", "yes"),
    ("get /pods ns/other", "no relationship found between node 'node-1' and this object"),
    ("get /pods ns/gone", "no relationship found between node 'node-1' and this object"),
    ("get /pods/log ns/own", ""),
    ("list /pods / spec.nodeName=node-1", "yes"),
    ("watch /pods / spec.nodeName=node-1", "yes"),
    ("list /pods ns/ spec.nodeName=node-1", "yes"),
    (
        "list /pods / spec.nodeName=node-2",
        "can only list/watch pods with spec.nodeName field selector",
    ),
    ("watch /pods /", "can only list/watch pods with spec.nodeName field selector"),
    ("list /pods ns/own", "yes"),
    ("watch /pods ns/own", "yes"),
    ("watch /pods ns/other", "no relationship found between node 'node-1' and this object"),
    (
        "get /pods ns/other spec.nodeName=node-1",
        "no relationship found between node 'node-1' and this object",
    ),
    ("create /pods ns/", "yes"),
    ("delete /pods ns/own", "yes"),
    ("deletecollection /pods ns/", ""),
    ("update /pods ns/own", ""),
    ("patch /pods ns/own", ""),
    ("update /pods/status ns/own", "yes"),
    ("patch /pods/status ns/own", "yes"),
    ("get /pods/status ns/own", ""),
    ("create /pods/eviction ns/own", "yes"),
    ("update /pods/eviction ns/own", ""),
    ("create /pods/binding ns/own", ""),
    ("create /pods/exec ns/own", ""),
    ("patch /pods/ephemeralcontainers ns/own", ""),
    ("patch /pods/resize ns/own", ""),
    ("create /bindings ns/", ""),
    // What its pods refer to.
    ("get /secrets ns/own-env", "yes"),
    ("list /secrets ns/own-env", "yes"),
    ("watch /secrets ns/own-env", "yes"),
    ("get /secrets ns/other-env", "no relationship found between node 'node-1' and this object"),
    ("get /secrets ns/mirror-env", "no relationship found between node 'node-1' and this object"),
    ("get /secrets ns/own-config", "no relationship found between node 'node-1' and this object"),
    ("get /secrets else/own-env", "no relationship found between node 'node-1' and this object"),
    ("list /secrets ns/", "No Object name found"),
    ("watch /secrets /own-env", "can only read namespaced object of this type"),
    ("get /secrets/x ns/own-env", "cannot read subresource"),
    ("create /secrets ns/", "can only read resources of this type"),
    ("update /secrets ns/own-env", "can only read resources of this type"),
    ("delete /secrets ns/own-env", "can only read resources of this type"),
    ("deletecollection /secrets ns/", "can only read resources of this type"),
    ("get /configmaps ns/own-config", "yes"),
    ("watch /configmaps ns/own-config", "yes"),
    (
        "get /configmaps ns/other-config",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get /configmaps ns/mirror-config",
        "no relationship found between node 'node-1' and this object",
    ),
    ("patch /configmaps ns/own-config", "can only read resources of this type"),
    ("get /persistentvolumeclaims ns/own-claim", "yes"),
    ("get /persistentvolumeclaims ns/own-x", "yes"),
    (
        "get /persistentvolumeclaims ns/other-claim",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get /persistentvolumeclaims ns/mirror-claim",
        "no relationship found between node 'node-1' and this object",
    ),
    ("list /persistentvolumeclaims ns/", "can only get individual resources of this type"),
    (
        "update /persistentvolumeclaims ns/own-claim",
        "can only get individual resources of this type",
    ),
    ("update /persistentvolumeclaims/status ns/own-claim", "yes"),
    ("patch /persistentvolumeclaims/status ns/own-claim", "yes"),
    ("get /persistentvolumeclaims/status ns/own-claim", "can only get/update/patch this type"),
    (
        "patch /persistentvolumeclaims/status ns/other-claim",
        "no relationship found between node 'node-1' and this object",
    ),
    ("get /persistentvolumes /own-volume", "yes"),
    (
        "get /persistentvolumes /other-volume",
        "no relationship found between node 'node-1' and this object",
    ),
    ("get resource.k8s.io/resourceclaims ns/own-gpu", "yes"),
    ("get resource.k8s.io/resourceclaims ns/own-made", "yes"),
    (
        "get /persistentvolumes /mirror-volume",
        "no relationship found between node 'node-1' and this object",
    ),
    ("get /persistentvolumes /x", "no relationship found between node 'node-1' and this object"),
    ("list /persistentvolumes /", "can only get individual resources of this type"),
    ("get /secrets keys/own-volume-key", "yes"),
    (
        "get /secrets keys/own-volume-other",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get /secrets keys/other-volume-key",
        "no relationship found between node 'node-1' and this object",
    ),
    ("get storage.k8s.io/volumeattachments /own-attachment", "yes"),
    (
        "get storage.k8s.io/volumeattachments /other-attachment",
        "no relationship found between node 'node-1' and this object",
    ),
    ("list storage.k8s.io/volumeattachments /", "can only get individual resources of this type"),
    (
        "get resource.k8s.io/resourceclaims ns/own-stray",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get resource.k8s.io/resourceclaims ns/other-gpu",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get resource.k8s.io/resourceclaims ns/mirror-gpu",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "update resource.k8s.io/resourceclaims ns/own-gpu",
        "can only get individual resources of this type",
    ),
    // Its pods' accounts.
    ("get /serviceaccounts ns/own-account", "yes"),
    (
        "get /serviceaccounts ns/other-account",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get /serviceaccounts ns/mirror-account",
        "no relationship found between node 'node-1' and this object",
    ),
    ("list /serviceaccounts ns/", "can only create tokens for individual service accounts"),
    (
        "create /serviceaccounts ns/own-account",
        "can only create token subresource of serviceaccount",
    ),
    ("create /serviceaccounts/token ns/own-account", "yes"),
    (
        "create /serviceaccounts/token ns/other-account",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "create /serviceaccounts/token ns/mirror-account",
        "no relationship found between node 'node-1' and this object",
    ),
    ("create /serviceaccounts/token ns/", "can only create tokens for individual service accounts"),
    (
        "update /serviceaccounts/token ns/own-account",
        "can only create tokens for individual service accounts",
    ),
    // Its lease.
    ("get coordination.k8s.io/leases kube-node-lease/node-1", "yes"),
    ("create coordination.k8s.io/leases kube-node-lease/", "yes"),
    ("update coordination.k8s.io/leases kube-node-lease/node-1", "yes"),
    ("patch coordination.k8s.io/leases kube-node-lease/node-1", "yes"),
    ("delete coordination.k8s.io/leases kube-node-lease/node-1", "yes"),
    (
        "get coordination.k8s.io/leases kube-node-lease/node-2",
        "can only access node lease with the same name as the requesting node",
    ),
    (
        "get coordination.k8s.io/leases kube-system/node-1",
        "can only access leases in the \"kube-node-lease\" system namespace",
    ),
    (
        "create coordination.k8s.io/leases kube-system/",
        "can only access leases in the \"kube-node-lease\" system namespace",
    ),
    (
        "list coordination.k8s.io/leases kube-node-lease/",
        "can only get, create, update, patch, or delete a node lease",
    ),
    (
        "watch coordination.k8s.io/leases kube-node-lease/node-1",
        "can only get, create, update, patch, or delete a node lease",
    ),
    (
        "deletecollection coordination.k8s.io/leases kube-node-lease/",
        "can only get, create, update, patch, or delete a node lease",
    ),
    // What storage and devices will need.
    ("get storage.k8s.io/csinodes /node-1", "yes"),
    ("create storage.k8s.io/csinodes /", "yes"),
    (
        "delete storage.k8s.io/csinodes /node-2",
        "can only access CSINode with the same name as the requesting node",
    ),
    ("list storage.k8s.io/csinodes /", "can only get, create, update, patch, or delete a CSINode"),
    ("get storage.k8s.io/csinodes/status /node-1", "cannot authorize CSINode subresources"),
    ("create resource.k8s.io/resourceslices /", "yes"),
    ("list resource.k8s.io/resourceslices / spec.nodeName=node-1", "yes"),
    ("deletecollection resource.k8s.io/resourceslices / spec.nodeName=node-1", "yes"),
    (
        "deletecollection resource.k8s.io/resourceslices / spec.nodeName=node-2",
        "can only list/watch/deletecollection resourceslices with nodeName field selector",
    ),
    (
        "watch resource.k8s.io/resourceslices /",
        "can only list/watch/deletecollection resourceslices with nodeName field selector",
    ),
    ("get resource.k8s.io/resourceslices /own-slice", "yes"),
    ("update resource.k8s.io/resourceslices /own-slice", "yes"),
    ("delete resource.k8s.io/resourceslices /own-slice", "yes"),
    (
        "delete resource.k8s.io/resourceslices /other-slice",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "get resource.k8s.io/resourceslices /x",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "update resource.k8s.io/resourceslices /x",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "update resource.k8s.io/resourceslices/status /x",
        "cannot authorize ResourceSlice subresources",
    ),
    ("create certificates.k8s.io/podcertificaterequests ns/", "yes"),
    ("watch certificates.k8s.io/podcertificaterequests / spec.nodeName=node-1", "yes"),
    (
        "list certificates.k8s.io/podcertificaterequests /",
        "can only list/watch podcertificaterequests with nodeName field selector",
    ),
    (
        "get certificates.k8s.io/podcertificaterequests ns/x",
        "no relationship found between node 'node-1' and this object",
    ),
    (
        "delete certificates.k8s.io/podcertificaterequests ns/x",
        "nodes may not delete podcertificaterequests",
    ),
    (
        "update certificates.k8s.io/podcertificaterequests/status ns/x",
        "nodes may not access the status subresource of PodCertificateRequests",
    ),
    // What every node may do.
    ("create /events ns/", "yes"),
    ("list /services /", "yes"),
    ("create /services ns/", ""),
    ("create authentication.k8s.io/tokenreviews /", "yes"),
    ("create authorization.k8s.io/subjectaccessreviews /", "yes"),
    ("create certificates.k8s.io/certificatesigningrequests /", "yes"),
    ("list node.k8s.io/runtimeclasses /", "yes"),
    ("list storage.k8s.io/csidrivers /", "yes"),
    ("list rbac.authorization.k8s.io/clusterroles /", ""),
    // Their gate is off.
    ("list certificates.k8s.io/clustertrustbundles /", ""),
    ("list /namespaces /", ""),
    ("list apps/deployments /", ""),
];

#[test]
fn every_row_of_the_table_holds() {
    let authorizer = authorizer();
    let user = User::new("system:node:node-1", &["system:nodes", "system:authenticated"]);
    for (request, expected) in TABLE {
        let words: Vec<&str> = request.split(' ').collect();
        let (group, resource) = words[1].split_once('/').unwrap();
        let (namespace, name) = words[2].split_once('/').unwrap();
        let mut attributes =
            Attributes::resource(words[0], group, resource).within(namespace, name);
        let field = words.get(3).and_then(|it| it.split_once('='));
        attributes.fields = field.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
        let decision = authorizer.decide(&user, &attributes);
        let said = if decision.is_allowed() { "yes" } else { decision.reason() };
        assert_eq!(said, *expected, "{request}");
    }
}

#[test]
fn only_the_user_of_one_node_is_a_node() {
    let check = |name: &str, groups: &[&str], expected: &str| {
        let attributes = Attributes::resource("get", "", "nodes").within("", "node-1");
        let decision = authorizer().decide(&User::new(name, groups), &attributes);
        let said = if decision.is_allowed() { "yes" } else { decision.reason() };
        assert_eq!(said, expected, "{name} {groups:?}");
    };
    check("system:node:node-1", &["system:nodes"], "yes");
    check("system:node:node-1", &[], "");
    check("node-1", &["system:nodes"], "");
    check("system:node:", &["system:nodes"], "unknown node for user \"system:node:\"");
}

#[test]
fn refusals_read_as_clients_expect() {
    let authorizer = authorizer();
    let check = |attributes: Attributes, expected: &str| {
        let refusal = authorizer.authorize(&User::new("u", &[]), attributes).unwrap_err();
        let err = ApiError::from(refusal);
        assert_eq!((err.code(), err.message()), (403, expected));
    };
    check(
        Attributes::resource("get", "apps", "deployments").within("ns", "x"),
        r#"deployments.apps "x" is forbidden: User "u" cannot get resource "deployments" in API group "apps" in the namespace "ns""#,
    );
    check(
        Attributes::resource("list", "", "nodes"),
        r#"nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope"#,
    );
    check(Attributes::path("get", "/x"), r#"forbidden: User "u" cannot get path "/x""#);
    let masters = User::new("admin", &["system:masters"]);
    assert!(authorizer.authorize(&masters, Attributes::path("get", "/x")).is_ok());
}
