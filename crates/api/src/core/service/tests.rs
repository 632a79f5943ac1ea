//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

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
    complete_families(&mut service, "IPv4");
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

#[test]
fn a_load_balancer_that_nobody_makes_says_so() {
    let warnings = |spec: Value| created::<Service>(service(spec)).warnings();
    let ports = json!([{"port": 80}]);
    assert_eq!(
        warnings(json!({"type": "LoadBalancer", "ports": ports})),
        [
            "spec.type: no load balancer controller runs in this cluster: the external IP stays <pending> until you install one; the cluster IP and node ports work"
        ]
    );
    let none = Vec::<String>::new();
    assert_eq!(warnings(json!({"type": "NodePort", "ports": ports})), none);
    let class = "example.com/balancer";
    assert_eq!(
        warnings(json!({"type": "LoadBalancer", "loadBalancerClass": class, "ports": ports})),
        none
    );
    let mut served = created::<Service>(service(json!({"type": "LoadBalancer", "ports": ports})));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    served.status = serde_json::from_value(status).unwrap();
    assert_eq!(served.warnings(), none, "somebody has made one");
}
