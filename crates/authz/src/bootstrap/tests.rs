//! What a new cluster starts with, and how it is brought back.

use features::Gates;
use k8s_openapi::api::rbac::v1::{ClusterRole, Subject};

use super::{AUTOUPDATE, GATED, objects, reconcile};
use crate::attributes::Attributes;
use crate::cover;
use crate::rule;

fn role(name: &str) -> ClusterRole {
    let roles = objects(&Gates::default()).cluster_roles;
    roles.into_iter().find(|it| it.metadata.name.as_deref() == Some(name)).unwrap()
}

#[test]
fn every_object_of_the_table_is_there() {
    let objects = objects(&Gates::default());
    let counts = [
        objects.cluster_roles.len(),
        objects.cluster_role_bindings.len(),
        objects.roles.len(),
        objects.role_bindings.len(),
    ];
    // Upstream's own, its controllers', the one of cluster DNS that upstream's installers add, the
    // one of metrics-server, the one of the pod network, and those of nodes that join.
    assert_eq!(counts, [31 + 38 + 1 + 1 + 1 + 2, 12 + 38 + 1 + 1 + 5, 7 + 1, 7 + 1]);
    let rules: usize = objects.cluster_roles.iter().flat_map(|it| &it.rules).map(Vec::len).sum();
    assert!(rules > 300, "{rules}");
}

#[test]
fn nothing_is_there_twice_whatever_gates_are_on() {
    let all: Vec<String> = GATED.iter().map(|it| format!("{}=true", it.0.name())).collect();
    let objects = objects(&Gates::parse(&all.join(",")).unwrap());
    let roles = objects.cluster_roles.iter().map(|it| ("role", it.metadata.name.clone()));
    let bindings = objects.cluster_role_bindings.iter();
    let bindings = bindings.map(|it| ("binding", it.metadata.name.clone()));
    let mut names: Vec<_> = roles.chain(bindings).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn nodes_and_service_accounts_read_trust_bundles_while_the_gate_is_on() {
    let (off, on) = (Gates::default(), Gates::parse("ClusterTrustBundle=true").unwrap());
    let attributes = Attributes::resource("watch", "certificates.k8s.io", "clustertrustbundles");
    let may_read = |gates: &Gates, name: &str| {
        let roles = objects(gates).cluster_roles.into_iter();
        let mut rules = roles
            .filter(|it| it.metadata.name.as_deref() == Some(name))
            .flat_map(|it| it.rules.unwrap_or_default());
        rules.any(|it| rule::allows(&it, &attributes))
    };
    let discovery = "system:cluster-trust-bundle-discovery";
    for name in ["system:node", discovery] {
        assert!(!may_read(&off, name) && may_read(&on, name), "{name}");
    }
    let bindings = objects(&on).cluster_role_bindings;
    let bound = bindings.iter().find(|it| it.role_ref.name == discovery).unwrap();
    let subjects: Vec<&str> = bound.subjects.iter().flatten().map(|it| it.name.as_str()).collect();
    assert_eq!(subjects, ["system:serviceaccounts"]);
    // And of the controller that publishes one.
    assert_eq!(objects(&off).cluster_role_bindings.len() + 2, bindings.len());
}

#[test]
fn who_has_a_bootstrap_token_asks_for_a_certificate_and_nothing_else() {
    let objects = objects(&Gates::default());
    let is_meant = |subjects: &Option<Vec<Subject>>| {
        subjects.iter().flatten().any(|it| it.name.starts_with("system:bootstrappers"))
    };
    let bindings = objects.cluster_role_bindings.iter().filter(|it| is_meant(&it.subjects));
    let roles: Vec<&str> = bindings.map(|it| it.role_ref.name.as_str()).collect();
    assert_eq!(
        roles,
        [
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            "system:node-bootstrapper"
        ]
    );
    assert!(!objects.role_bindings.iter().any(|it| is_meant(&it.subjects)));
}

#[test]
fn the_pod_network_reads_where_pods_are_and_what_policies_say_and_writes_nothing() {
    let rules = role("xebec:network").rules.unwrap();
    let allows = |verb: &str, group: &str, resource: &str| {
        let attributes = Attributes::resource(verb, group, resource);
        rules.iter().any(|it| rule::allows(it, &attributes))
    };
    for verb in ["get", "list", "watch"] {
        for resource in ["namespaces", "nodes", "pods"] {
            assert!(allows(verb, "", resource), "{verb} {resource}");
        }
        assert!(allows(verb, "networking.k8s.io", "networkpolicies"), "{verb}");
        assert!(allows(verb, "policy.networking.k8s.io", "clusternetworkpolicies"), "{verb}");
        assert!(allows(verb, "discovery.k8s.io", "endpointslices"), "{verb}");
    }
    assert!(!allows("get", "", "secrets") && !allows("get", "", "nodes/proxy"));
    assert!(!allows("update", "", "nodes") && !allows("delete", "", "pods"));
    let bindings = objects(&Gates::default()).cluster_role_bindings;
    let bound = bindings.iter().find(|it| it.role_ref.name == "xebec:network").unwrap();
    let [subject] = bound.subjects.as_deref().unwrap() else { panic!("{bound:?}") };
    assert_eq!((subject.kind.as_str(), subject.name.as_str()), ("User", "xebec:network"));
}

#[test]
fn aggregated_roles_contain_what_they_aggregate() {
    let allows = |name: &str, verb: &str, resource: &str| {
        let attributes = Attributes::resource(verb, "", resource).within("ns", "x");
        role(name).rules.unwrap().iter().any(|it| rule::allows(it, &attributes))
    };
    assert!(allows("view", "get", "pods") && !allows("view", "create", "pods"));
    assert!(!allows("view", "get", "secrets"));
    assert!(allows("edit", "create", "pods") && allows("edit", "get", "pods"));
    assert!(allows("admin", "create", "pods") && allows("admin", "get", "services"));
    assert!(role("admin").aggregation_rule.is_some());
    let usage = Attributes::resource("list", "metrics.k8s.io", "pods").within("ns", "x");
    for name in ["view", "edit", "admin"] {
        let rules = role(name).rules.unwrap();
        assert!(rules.iter().any(|it| rule::allows(it, &usage)), "{name}");
    }
}

#[test]
fn missing_rules_come_back_and_additions_stay() {
    let wanted = role("system:node");
    assert_eq!(reconcile(&wanted, &wanted), None);
    let mut changed = wanted.clone();
    let rules = changed.rules.as_mut().unwrap();
    let lost = rules.remove(0);
    let added = role("cluster-admin").rules.unwrap().remove(1);
    rules.push(added.clone());
    let updated = reconcile(&changed, &wanted).unwrap().rules.unwrap();
    assert!(updated.contains(&lost) && updated.contains(&added));
    changed
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(AUTOUPDATE.to_owned(), "false".to_owned());
    assert_eq!(reconcile(&changed, &wanted), None);
}

#[test]
fn nobody_grants_more_than_they_hold() {
    let rules = |name: &str| role(name).rules.unwrap();
    let check = |held: &str, wanted: &str, expected: bool| {
        let missing = cover::missing(&rules(held), &rules(wanted)).unwrap();
        assert_eq!(missing.is_none(), expected, "{held} {wanted}");
    };
    check("cluster-admin", "admin", true);
    check("cluster-admin", "cluster-admin", true);
    check("admin", "edit", true);
    check("edit", "view", true);
    check("view", "edit", false);
    check("admin", "cluster-admin", false);
}
