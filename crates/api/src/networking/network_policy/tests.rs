//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::NetworkPolicy;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn policy(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn from(peer: Value) -> Value {
    policy(json!({"ingress": [{"from": [peer]}]}))
}

fn port(port: Value) -> Value {
    policy(json!({"egress": [{"ports": [port]}]}))
}

#[test]
fn a_policy_is_of_what_comes_in_and_of_what_goes_out_if_it_says_so() {
    let types = |spec: Value, expected: Value| {
        check_created::<NetworkPolicy>(policy(spec), "/spec/policyTypes", expected);
    };
    types(json!({}), json!(["Ingress"]));
    types(json!({"egress": []}), json!(["Ingress"]));
    types(json!({"egress": [{}]}), json!(["Ingress", "Egress"]));
    types(json!({"egress": [{}], "policyTypes": ["Egress"]}), json!(["Egress"]));
    check_created::<NetworkPolicy>(policy(json!({})), "/spec/podSelector", json!({}));
    check_created::<NetworkPolicy>(
        port(json!({"port": 53})),
        "/spec/egress/0/ports/0/protocol",
        json!("TCP"),
    );
}

#[test]
fn types_are_two() {
    check::<NetworkPolicy>(
        policy(json!({"policyTypes": ["Sideways"]})),
        &[
            "spec.policyTypes[0]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\"",
        ],
    );
    check::<NetworkPolicy>(
        policy(json!({"policyTypes": ["Ingress", "Egress", "Ingress"]})),
        &[
            "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Ingress\"]: may not specify more than two policyTypes",
        ],
    );
}

#[test]
fn a_port_has_a_protocol_and_may_be_the_first_of_a_range() {
    check::<NetworkPolicy>(port(json!({"port": 1, "endPort": 2, "protocol": "SCTP"})), &[]);
    check::<NetworkPolicy>(port(json!({"port": "http"})), &[]);
    let at = "spec.egress[0].ports[0]";
    check::<NetworkPolicy>(
        port(json!({"port": 0, "protocol": "ICMP"})),
        &[
            &format!(
                "{at}.protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\""
            ),
            &format!("{at}.port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ],
    );
    check::<NetworkPolicy>(
        port(json!({"port": 9, "endPort": 8})),
        &[&format!("{at}.endPort: Invalid value: 9: must be greater than or equal to `port`")],
    );
    check::<NetworkPolicy>(
        port(json!({"endPort": 8})),
        &[&format!(
            "{at}.endPort: Invalid value: 8: may not be specified when `port` is not specified"
        )],
    );
    check::<NetworkPolicy>(
        port(json!({"port": "http", "endPort": 8})),
        &[&format!(
            "{at}.endPort: Invalid value: 8: may not be specified when `port` is non-numeric"
        )],
    );
}

#[test]
fn a_peer_is_selected_or_a_range() {
    check::<NetworkPolicy>(from(json!({"podSelector": {}, "namespaceSelector": {}})), &[]);
    let at = "spec.ingress[0].from[0]";
    check::<NetworkPolicy>(
        from(json!({})),
        &[&format!("{at}: Required value: must specify a peer")],
    );
    check::<NetworkPolicy>(
        from(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
        &[&format!("{at}: Forbidden: may not specify both ipBlock and another peer")],
    );
    check::<NetworkPolicy>(
        from(
            json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
        ),
        &[&format!(
            "{at}.namespaceSelector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator"
        )],
    );
}

#[test]
fn exceptions_are_inside_the_range() {
    let block =
        |cidr: &str, except: &str| from(json!({"ipBlock": {"cidr": cidr, "except": [except]}}));
    let at = "spec.ingress[0].from[0].ipBlock";
    check::<NetworkPolicy>(block("10.0.0.0/8", "10.1.0.0/16"), &[]);
    for except in ["10.0.0.0/8", "11.0.0.0/16", "fd00::/64"] {
        check::<NetworkPolicy>(
            block("10.0.0.0/8", except),
            &[&format!(
                "{at}.except[0]: Invalid value: {except:?}: must be a strict subset of `cidr`"
            )],
        );
    }
    check::<NetworkPolicy>(block("", "a"), &[&format!("{at}.cidr: Required value")]);
    check::<NetworkPolicy>(
        block("all", "a"),
        &[&format!(
            "{at}.cidr: Invalid value: \"all\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )],
    );
}

#[test]
fn ranges_that_were_never_checked_may_stay_wherever_they_stand() {
    let block = |cidr: &str| json!({"ipBlock": {"cidr": cidr}});
    let stored = created::<NetworkPolicy>(from(block("10.0.0.1/8")));
    let moved = policy(json!({"egress": [{"to": [block("10.0.0.1/8")]}]}));
    check_update(&stored, moved, Part::Main, &[]);
    check_update(
        &stored,
        from(block("10.0.0.2/8")),
        Part::Main,
        &[
            "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.2/8\": must not have bits set beyond the prefix length",
        ],
    );
    assert!(created::<NetworkPolicy>(from(block("10.0.0.0/8"))).is_new_generation(&stored));
    assert!(!stored.is_new_generation(&stored.clone()));
}

#[test]
fn values_of_selectors_that_were_never_checked_may_stay() {
    let of = |value: &str| {
        let expression = json!({"key": "a", "operator": "In", "values": [value]});
        policy(json!({"podSelector": {"matchExpressions": [expression]}}))
    };
    let stored = created::<NetworkPolicy>(of("no label"));
    check_update(&stored, of("none either"), Part::Main, &[]);
    let mut errors = apimachinery::FieldErrors::new();
    let fresh = created::<NetworkPolicy>(of("a"));
    stored.validate_update(&fresh, Part::Main, &mut errors);
    let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("spec.podSelector.matchExpressions[0].values[0]: Invalid value")
    );
}

#[test]
fn whoever_writes_one_is_told_of_odd_ranges() {
    assert!(created::<NetworkPolicy>(policy(json!({}))).warnings().is_empty());
    let odd = json!({"ipBlock": {"cidr": "10.0.0.1/8", "except": ["FD00::/64"]}});
    let spec = json!({"egress": [{"to": [odd]}]});
    assert_eq!(
        created::<NetworkPolicy>(policy(spec)).warnings(),
        [
            "spec.egress[0].to[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            "spec.egress[0].to[0].ipBlock.except[0]: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
        ]
    );
}

#[test]
fn columns_show_whom_it_is_about() {
    let row = |selector: Value, cell: &str| {
        check_row::<NetworkPolicy>(
            json!({
                "metadata": {"name": "web", "creationTimestamp": "2024-01-02T03:04:05Z"},
                "spec": {"podSelector": selector},
            }),
            "2024-01-02T03:05:05Z",
            json!(["web", cell, "60s"]),
        );
    };
    row(json!({}), "<none>");
    row(json!({"matchLabels": {"a": "b"}}), "a=b");
}
