//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};
use stdx::Family;

use super::{Service, complete_families, needs_cluster_ip, needs_node_port, set_cluster_ips};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

fn plain() -> Value {
    service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}))
}

/// As the server stores it once everything is allocated.
fn stored(spec: Value) -> Service {
    let mut service = created::<Service>(service(spec));
    if needs_cluster_ip(&service) {
        set_cluster_ips(&mut service, vec!["10.0.0.1".to_owned()]);
    }
    assert!(complete_families(&mut service, None, &[Family::V4]).is_empty());
    if needs_node_port(&service) {
        let ports = service.spec.as_mut().unwrap().ports.iter_mut().flatten();
        ports.zip(30000..).for_each(|(port, number)| port.node_port = Some(number));
    }
    service
}

fn updated(stored: &Service, spec: Value) -> Value {
    let mut object = defaulted::<Service>(service(spec));
    object.prepare_update(stored, Part::Main);
    serde_json::from_slice(&object.encode()).unwrap()
}

#[test]
fn a_minimal_service_gets_every_default() {
    check_created::<Service>(
        plain(),
        "/spec",
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "selector": {"app": "web"},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        }),
    );
    check_created::<Service>(plain(), "/status", json!({"loadBalancer": {}}));
    let balanced = service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    check_created::<Service>(balanced.clone(), "/spec/externalTrafficPolicy", json!("Cluster"));
    check_created::<Service>(balanced, "/spec/allocateLoadBalancerNodePorts", json!(true));
}

#[test]
fn the_singular_address_makes_the_plural() {
    let headless = service(json!({"clusterIP": "None"}));
    check_created::<Service>(headless, "/spec/clusterIPs", json!(["None"]));
}

#[test]
fn problems_are_found() {
    check::<Service>(plain(), &[]);
    check::<Service>(service(json!({})), &["spec.ports: Required value"]);
    check::<Service>(service(json!({"clusterIP": "None"})), &[]);
    check::<Service>(
        service(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]})),
        &[
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ],
    );
    check::<Service>(
        service(json!({"type": "ExternalName"})),
        &["spec.externalName: Required value"],
    );
    check::<Service>(
        service(json!({"ports": [{"port": 80}, {"port": 80}]})),
        &[
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Required value",
            "spec.ports[1]: Duplicate value: {\"port\":80,\"protocol\":\"TCP\"}",
        ],
    );
    check::<Service>(
        service(json!({"ports": [{"port": 80, "nodePort": 30000}]})),
        &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    );
    check::<Service>(
        service(json!({"ports": [{"port": 80}], "externalIPs": ["None"]})),
        &[
            "spec.externalIPs[0]: Invalid value: \"None\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ],
    );
    check::<Service>(
        service(json!({"ports": [{"port": 80}], "externalIPs": ["127.0.0.1"]})),
        &[
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ],
    );
    check::<Service>(
        service(
            json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}),
        ),
        &["spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`"],
    );
}

#[test]
fn what_was_allocated_stays_when_a_manifest_is_applied_again() {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let old = stored(spec.clone());
    let new = updated(&old, spec.clone());
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30000);
    check_update(&old, service(spec), Part::Main, &[]);
}

#[test]
fn an_address_never_changes() {
    let old = stored(json!({"ports": [{"port": 80}]}));
    check_update(
        &old,
        service(json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.9"})),
        Part::Main,
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.9\"]: may not change once set"],
    );
}

#[test]
fn a_change_of_type_drops_what_no_longer_applies() {
    let old = stored(json!({"type": "NodePort", "ports": [{"port": 80}]}));
    let patched = json!({
        "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30000}],
    });
    let new = updated(&old, patched.clone());
    assert_eq!(new["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(new["spec"]["externalTrafficPolicy"], Value::Null);
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
    check_update(&old, service(patched), Part::Main, &[]);

    let old = stored(json!({"ports": [{"port": 80}]}));
    let patched = json!({
        "type": "ExternalName", "externalName": "example.com", "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80}],
    });
    assert_eq!(updated(&old, patched.clone())["spec"]["clusterIPs"], Value::Null);
    check_update(&old, service(patched), Part::Main, &[]);
}

#[test]
fn a_status_write_keeps_the_spec() {
    let old = stored(json!({"ports": [{"port": 80}]}));
    let mut object = defaulted::<Service>(service(json!({"ports": [{"port": 81}]})));
    object.prepare_update(&old, Part::Status);
    assert_eq!(object.spec, old.spec);
}

#[test]
fn a_headless_service_without_selector_has_both_families() {
    let check = |spec: Value, policy: &str, families: &[&str]| {
        let service = stored(spec).spec.unwrap();
        assert_eq!(service.ip_family_policy.as_deref(), Some(policy));
        assert_eq!(service.ip_families.unwrap(), families);
    };
    check(json!({"ports": [{"port": 80}]}), "SingleStack", &["IPv4"]);
    check(json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack", &["IPv4"]);
    check(json!({"clusterIP": "None"}), "RequireDualStack", &["IPv4", "IPv6"]);
}

#[test]
fn rows_show_addresses_and_ports() {
    let now = "2026-01-01T00:01:00Z";
    check_row::<Service>(
        service(json!({
            "type": "NodePort", "clusterIPs": ["10.0.0.1"], "selector": {"app": "web"},
            "ports": [{"port": 80, "nodePort": 30000}, {"port": 53, "protocol": "UDP"}],
        })),
        now,
        json!(["web", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP,53/UDP", "60s", "app=web"]),
    );
    check_row::<Service>(
        service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]})),
        now,
        json!(["web", "LoadBalancer", "<none>", "<pending>", "80/TCP", "60s", "<none>"]),
    );
}

/// What a Service asks for, in a cluster whose Services have these families, after `old`: its
/// policy, families and addresses, or what is wrong.
fn families(configured: &[Family], old: Option<&Service>, spec: Value) -> String {
    let mut object = defaulted::<Service>(service(spec));
    match old {
        Some(old) => object.prepare_update(old, Part::Main),
        None => object.prepare_create(),
    }
    let errors = complete_families(&mut object, old, configured);
    if !errors.is_empty() {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        return texts.join("; ");
    }
    let spec = object.spec.unwrap();
    let text = |it: Option<Vec<String>>| it.unwrap_or_default().join(",");
    let policy = spec.ip_family_policy.unwrap_or_default();
    format!("{policy} {} {}", text(spec.ip_families), text(spec.cluster_ips)).trim().to_owned()
}

const V4: &[Family] = &[Family::V4];
const V6: &[Family] = &[Family::V6];
const V4_V6: &[Family] = &[Family::V4, Family::V6];
const V6_V4: &[Family] = &[Family::V6, Family::V4];

/// With one port and a selector, unless it says otherwise.
fn with(more: Value) -> Value {
    let mut spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn a_new_service_has_the_families_that_it_asks_for_and_the_cluster_has() {
    let check = |configured: &[Family], spec: Value, expected: &str| {
        assert_eq!(families(configured, None, with(spec.clone())), expected, "{spec}");
    };
    let policy = |policy: &str| json!({"ipFamilyPolicy": policy});
    check(V4, json!({}), "SingleStack IPv4");
    check(V6, json!({}), "SingleStack IPv6");
    check(V4_V6, json!({}), "SingleStack IPv4");
    check(V6_V4, json!({}), "SingleStack IPv6");
    check(V4, policy("PreferDualStack"), "PreferDualStack IPv4");
    check(V4_V6, policy("PreferDualStack"), "PreferDualStack IPv4,IPv6");
    check(V6_V4, policy("RequireDualStack"), "RequireDualStack IPv6,IPv4");
    check(V4_V6, json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6");
    let second = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]});
    check(V4_V6, second, "PreferDualStack IPv6,IPv4");
    check(V4_V6, json!({"clusterIP": "fd00::9"}), "SingleStack IPv6 fd00::9");
    let both = json!({
        "ipFamilyPolicy": "RequireDualStack", "clusterIP": "fd00::9",
        "clusterIPs": ["fd00::9", "10.0.0.9"],
    });
    check(V4_V6, both, "RequireDualStack IPv6,IPv4 fd00::9,10.0.0.9");
    check(V4_V6, json!({"type": "ExternalName", "externalName": "a.example"}), "");
}

#[test]
fn families_that_cannot_be_are_refused() {
    let check = |configured: &[Family], spec: Value, expected: &str| {
        assert_eq!(families(configured, None, with(spec.clone())), expected, "{spec}");
    };
    check(
        V4,
        json!({"ipFamilyPolicy": "RequireDualStack"}),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
    );
    check(
        V4,
        json!({"ipFamilies": ["IPv6"]}),
        "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
    );
    check(
        V4,
        json!({"clusterIP": "fd00::9"}),
        "spec.clusterIPs[0]: Invalid value: [\"fd00::9\"]: IPv6 is not configured on this cluster",
    );
    check(
        V4_V6,
        json!({"ipFamilies": ["IPv4", "IPv6"]}),
        "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    );
    check(
        V4_V6,
        json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00::9"]}),
        "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
    );
    check(
        V4_V6,
        json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv6"]}),
        "spec.clusterIPs[0]: Invalid value: \"10.0.0.9\": expected an IPv6 value as indicated by `ipFamilies[0]`",
    );
    check(
        V4_V6,
        json!({"ipFamilies": ["IPv5"]}),
        "spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
    );
}

#[test]
fn headless_services_have_families_too() {
    let check = |configured: &[Family], spec: Value, expected: &str| {
        let mut spec = with(spec);
        spec["clusterIP"] = json!("None");
        assert_eq!(families(configured, None, spec.clone()), expected, "{spec}");
    };
    check(V4_V6, json!({}), "SingleStack IPv4 None");
    check(V4_V6, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6 None");
    check(V4, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4 None");
    // Without selector the cluster's families are no bound.
    let open = |more: Value| {
        let mut spec = json!({"selector": null});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    check(V6, open(json!({})), "RequireDualStack IPv6,IPv4 None");
    check(V4, open(json!({"ipFamilyPolicy": "SingleStack"})), "SingleStack IPv4 None");
    check(V4, open(json!({"ipFamilies": ["IPv6"]})), "RequireDualStack IPv6,IPv4 None");
}

#[test]
fn a_service_gets_and_loses_its_second_family_as_its_policy_says() {
    let old = |policy: &str, addresses: &[&str]| {
        let mut service = defaulted::<Service>(service(with(json!({"ipFamilyPolicy": policy}))));
        let spec = service.spec.as_mut().unwrap();
        spec.ip_families =
            Some(addresses.iter().map(|it| Family::of(it.parse().unwrap()).to_string()).collect());
        set_cluster_ips(&mut service, addresses.iter().map(|it| (*it).to_owned()).collect());
        service
    };
    let single = old("SingleStack", &["10.0.0.1"]);
    let both = old("PreferDualStack", &["10.0.0.1", "fd00::1"]);
    let check = |old: &Service, spec: Value, expected: &str| {
        assert_eq!(families(V4_V6, Some(old), with(spec.clone())), expected, "{spec}");
    };
    let policy = |policy: &str| json!({"ipFamilyPolicy": policy});
    check(&single, json!({}), "SingleStack IPv4 10.0.0.1");
    // The second address is still to be allocated.
    check(&single, policy("PreferDualStack"), "PreferDualStack IPv4,IPv6 10.0.0.1");
    check(&single, policy("RequireDualStack"), "RequireDualStack IPv4,IPv6 10.0.0.1");
    check(&both, json!({}), "PreferDualStack IPv4,IPv6 10.0.0.1,fd00::1");
    check(&both, policy("SingleStack"), "SingleStack IPv4 10.0.0.1");
    check(
        &both,
        json!({"ipFamilies": ["IPv4"], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
        "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the secondary cluster IP; \
         spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the secondary IP family",
    );
    // What prefers two families keeps what it has when the cluster gets a second one, or loses it.
    let alone = old("PreferDualStack", &["10.0.0.1"]);
    check(&alone, policy("PreferDualStack"), "PreferDualStack IPv4 10.0.0.1");
    let kept = families(V4, Some(&both), with(json!({})));
    assert_eq!(kept, "PreferDualStack IPv4,IPv6 10.0.0.1,fd00::1");
}

#[test]
fn only_a_balanced_service_has_an_ingress() {
    let status = |kind: &str, ingress: Value| {
        let mut manifest = service(json!({"type": kind, "ports": [{"port": 80}]}));
        manifest["status"] = json!({"loadBalancer": {"ingress": ingress}});
        manifest
    };
    let check = |kind: &str, ingress: Value, expected: &[&str]| {
        let stored = stored(json!({"type": kind, "ports": [{"port": 80}]}));
        check_update(&stored, status(kind, ingress), Part::Status, expected);
    };
    check("LoadBalancer", json!([{"hostname": "a.example.org"}]), &[]);
    check(
        "ClusterIP",
        json!([{"hostname": "a"}]),
        &[
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ],
    );
    check(
        "LoadBalancer",
        json!([{"hostname": "10.0.0.1", "ipMode": "VIP"}, {"ip": "x", "ipMode": "Odd"}]),
        &[
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            "status.loadBalancer.ingress[1].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "status.loadBalancer.ingress[1].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
        ],
    );
}

#[test]
fn what_does_nothing_or_not_for_long_is_said() {
    let check = |type_: &str, fields: Value, expected: &[&str]| {
        let mut spec = json!({"type": type_, "ports": [{"port": 80}]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let meta = json!({"name": "web", "namespace": "default"});
        let manifest =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec});
        assert_eq!(created::<Service>(manifest).warnings(), expected);
    };
    check("ClusterIP", json!({}), &[]);
    let old = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
    check("ClusterIP", json!({"externalIPs": ["1.2.3.4"]}), &[old]);
    check(
        "ClusterIP",
        json!({"clusterIP": "None", "clusterIPs": ["None"], "externalIPs": ["1.2.3.4"],
               "sessionAffinity": "ClientIP", "loadBalancerIP": "1.2.3.4"}),
        &[
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ],
    );
    check(
        "ExternalName",
        json!({"externalName": "example.com", "externalIPs": ["1.2.3.4"]}),
        &["spec.externalIPs is ignored when spec.type is \"ExternalName\""],
    );
    check(
        "LoadBalancer",
        json!({"externalName": "example.com", "loadBalancerIP": "FD00::1",
               "loadBalancerSourceRanges": ["10.0.0.1/8"], "trafficDistribution": "PreferClose"}),
        &[
            "spec.loadBalancerIP: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
            "spec.loadBalancerSourceRanges[0]: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ],
    );
}

#[test]
fn annotations_that_mean_something_are_checked() {
    let annotated = |type_: &str, annotations: Value| {
        let mut manifest = service(with(json!({"type": type_})));
        manifest["metadata"]["annotations"] = annotations;
        manifest
    };
    let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let ranges = |type_: &str, it: &str| annotated(type_, json!({key: it}));
    let path = format!("metadata.annotations[{key}]");
    for taken in ["", "10.0.0.0/8", " 10.0.0.0/8 , fd00::/8 "] {
        check::<Service>(ranges("LoadBalancer", taken), &[]);
    }
    let alone = format!("{path}: Forbidden: may only be used when `type` is 'LoadBalancer'");
    check::<Service>(ranges("ClusterIP", "10.0.0.0/8"), &[&alone]);
    let refused = |range: &str, why: &str| format!("{path}: Invalid value: {range:?}: {why}");
    check::<Service>(
        ranges("LoadBalancer", "10.0.0.0, 10.0.0.1/8,"),
        &[
            &refused("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            &refused("10.0.0.1/8", "must not have bits set beyond the prefix length"),
            &refused("", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ],
    );
    // The field comes first.
    let mut both = ranges("LoadBalancer", "no range");
    both["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
    check::<Service>(both, &[]);
    let (mode, hints) =
        ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints");
    let topology = |a: &str, b: &str| annotated("ClusterIP", json!({mode: a, hints: b}));
    check::<Service>(topology("Auto", "Auto"), &[]);
    let differing = format!(
        "metadata.annotations[{mode}]: Invalid value: \"Auto\": must match annotations[{hints}] when both are specified"
    );
    check::<Service>(topology("Auto", "auto"), &[&differing]);
}

#[test]
fn what_was_taken_once_may_stay() {
    let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let balanced = |annotation: &str, ranges: Value, ips: Value| {
        let mut manifest = service(with(json!({"type": "LoadBalancer"})));
        manifest["metadata"]["annotations"] = json!({key: annotation});
        manifest["spec"]["loadBalancerSourceRanges"] = ranges;
        manifest["spec"]["externalIPs"] = ips;
        manifest
    };
    let old = |manifest: &Value| {
        let mut object = stored(manifest["spec"].clone());
        object.metadata = defaulted::<Service>(manifest.clone()).metadata;
        object
    };
    let manifest = balanced("no range", json!([]), json!(["010.0.0.1"]));
    check_update(&old(&manifest), manifest.clone(), Part::Main, &[]);
    let manifest = balanced("", json!([" 10.0.0.1/8 "]), json!([]));
    check_update(&old(&manifest), manifest.clone(), Part::Main, &[]);
    let more = balanced("", json!(["10.0.0.1/8", "10.0.0.2/8"]), json!([]));
    check_update(
        &old(&manifest),
        more,
        Part::Main,
        &[
            "spec.LoadBalancerSourceRanges[1]: Invalid value: \"10.0.0.2/8\": must not have bits set beyond the prefix length",
        ],
    );
}
