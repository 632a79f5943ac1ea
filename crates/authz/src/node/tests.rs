//! A request by node-1 in, yes or no out.

use std::sync::Arc;

use api::{Lookup, Meta, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use serde_json::json;

use super::NodeAuthorizer;
use crate::attributes::Attributes;
use crate::authorizer::Authorizer;
use crate::rbac::Rbac;

/// Pods only.
struct Pods(Vec<Arc<Stored>>);

impl Lookup for Pods {
    fn find(&self, _: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.0.iter().find(|it| it.meta.key == *key).cloned()
    }

    fn list(&self, _: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let within = |it: &&Arc<Stored>| namespace.is_none_or(|ns| it.meta.key.namespace == ns);
        self.0.iter().filter(within).cloned().collect()
    }
}

fn authorizer() -> Authorizer {
    let pod = |name: &str, node: &str| {
        let pod = json!({
            "metadata": {"namespace": "ns", "name": name},
            "spec": {
                "nodeName": node,
                "serviceAccountName": format!("{name}-account"),
                "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": format!("{name}-env")}}]}],
                "volumes": [{"name": "v", "configMap": {"name": format!("{name}-config")}}],
            },
        });
        let meta = Meta {
            key: ObjectKey::new("ns", name),
            fields: vec![("spec.nodeName".into(), node.to_owned())],
            ..Meta::default()
        };
        Arc::new(Stored::new(meta, pod.to_string().into_bytes().into()))
    };
    let pods = Pods(vec![pod("own", "node-1"), pod("other", "node-2")]);
    Authorizer::new(Arc::new(Rbac::new()), NodeAuthorizer::new(Arc::new(pods)))
}

/// `verb group/resource[/subresource] namespace/name`
fn check(request: &str, fields: &[(&str, &str)], expected: bool) {
    let words: Vec<&str> = request.split(' ').collect();
    let (group, resource) = words[1].split_once('/').unwrap();
    let (namespace, name) = words[2].split_once('/').unwrap();
    let mut attributes = Attributes::resource(words[0], group, resource).within(namespace, name);
    attributes.fields = fields.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
    let user = User::new("system:node:node-1", &["system:nodes", "system:authenticated"]);
    assert_eq!(authorizer().decide(&user, &attributes).is_allowed(), expected, "{request}");
}

#[test]
fn a_node_touches_its_own_node_and_lease() {
    for (verb, part) in [("get", ""), ("update", ""), ("patch", "/status")] {
        check(&format!("{verb} /nodes{part} /node-1"), &[], true);
        check(&format!("{verb} /nodes{part} /node-2"), &[], false);
    }
    check("create /nodes /", &[], true);
    check("list /nodes /", &[], false);
    check("list /nodes /", &[("metadata.name", "node-1")], true);
    check("delete /nodes /node-1", &[], false);
    check("update coordination.k8s.io/leases kube-node-lease/node-1", &[], true);
    check("create coordination.k8s.io/leases kube-node-lease/", &[], true);
    check("update coordination.k8s.io/leases kube-node-lease/node-2", &[], false);
    check("get coordination.k8s.io/leases kube-system/node-1", &[], false);
}

#[test]
fn a_node_touches_pods_that_are_bound_to_it() {
    check("list /pods /", &[("spec.nodeName", "node-1")], true);
    check("watch /pods /", &[("spec.nodeName", "node-1")], true);
    check("list /pods /", &[("spec.nodeName", "node-2")], false);
    check("watch /pods /", &[], false);
    for (verb, part) in [("get", ""), ("delete", ""), ("patch", "/status"), ("create", "/eviction")]
    {
        check(&format!("{verb} /pods{part} ns/own"), &[], true);
        check(&format!("{verb} /pods{part} ns/other"), &[], false);
    }
    check("get /pods ns/gone", &[], false);
    check("delete /pods ns/gone", &[], true);
    check("update /pods ns/own", &[], false);
}

#[test]
fn a_node_reads_what_its_pods_refer_to() {
    check("get /secrets ns/own-env", &[], true);
    check("get /secrets ns/other-env", &[], false);
    check("get /configmaps ns/own-config", &[], true);
    check("get /configmaps ns/other-config", &[], false);
    check("list /secrets ns/", &[], false);
    check("create /serviceaccounts/token ns/own-account", &[], true);
    check("create /serviceaccounts/token ns/other-account", &[], false);
    check("get /persistentvolumes /x", &[], false);
    check("get resource.k8s.io/resourceclaims ns/x", &[], false);
    check("create /events ns/", &[], true);
    check("list /services /", &[], true);
    check("create /services ns/", &[], false);
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
