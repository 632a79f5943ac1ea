//! Every case of upstream's suite of network policies, in our words: namespaces x, y and z, pods a,
//! b and c, ports 80 and 81, asked by their Services, across two nodes.

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use network::policy::model::Protocol::{self, Sctp, Tcp, Udp};
use serde_json::{Value, json};

use crate::places::Cluster;
use crate::probes::{Way, check, serve};

type Expected<'a> = &'a dyn Fn(&ObjectKey, &ObjectKey, u16) -> bool;

/// One cluster for many cases.
struct Matrix {
    cluster: Cluster,
    n_cases: std::cell::Cell<usize>,
}

fn is(pod: &ObjectKey, namespace: &str, name: &str) -> bool {
    pod.namespace == namespace && pod.name == name
}

fn pod(name: &str) -> Value {
    json!({"matchLabels": {"pod": name}})
}

fn ns(name: &str) -> Value {
    json!({"matchLabels": {"ns": name}})
}

fn pods_in(names: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "pod", "operator": "In", "values": names}]})
}

fn ns_in(key: &str, names: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": names}]})
}

/// Of a in x, coming in.
fn into_a(rules: Value) -> Value {
    json!({"podSelector": pod("a"), "policyTypes": ["Ingress"], "ingress": rules})
}

fn out_of_a(rules: Value) -> Value {
    json!({"podSelector": pod("a"), "policyTypes": ["Egress"], "egress": rules})
}

impl Matrix {
    fn start() -> Option<Self> {
        let cluster = Cluster::start()?;
        serve(&cluster);
        Some(Self { cluster, n_cases: std::cell::Cell::new(0) })
    }

    /// Policies of x, then who is answered.
    fn case(&self, what: &str, policies: &[Value], expected: Expected<'_>) {
        self.case_of(what, (Tcp, Way::Service), policies, expected);
    }

    fn case_of(&self, what: &str, by: (Protocol, Way), policies: &[Value], expected: Expected<'_>) {
        self.cluster.reset();
        self.set(policies);
        self.check(what, by, expected);
    }

    fn set(&self, policies: &[Value]) {
        for (index, spec) in policies.iter().enumerate() {
            self.cluster.set_policy("x", &format!("policy-{index}"), Some(spec.clone()));
        }
        self.cluster.tell();
    }

    fn check(&self, what: &str, by: (Protocol, Way), expected: Expected<'_>) {
        check(&self.cluster, what, by, expected);
        self.n_cases.set(self.n_cases.get() + 1);
    }

    fn address(&self, namespace: &str, name: &str) -> String {
        self.cluster.places[&ObjectKey::new(namespace, name)].addresses[0].to_string()
    }
}

/// Only the first of them are asked of; everybody else answers.
fn only(to: &ObjectKey, target: (&str, &str), allowed: bool) -> bool {
    !is(to, target.0, target.1) || allowed
}

#[test]
fn who_comes_in() {
    let Some(matrix) = Matrix::start() else { return };
    matrix.case("no policy", &[], &|_, _, _| true);
    assert!(!matrix.cluster.has_tables(), "without policies there are no tables");
    matrix.case("nobody comes in", &[json!({})], &|_, to, _| to.namespace != "x");
    let both = json!({"policyTypes": ["Ingress", "Egress"]});
    matrix.case("nobody comes in or goes out", &[both], &|from, to, _| {
        from.namespace != "x" && to.namespace != "x"
    });
    let own = into_a(json!([{"from": [{"podSelector": pod("b")}]}]));
    matrix.case("a pod of the own namespace", &[own], &|from, to, _| {
        only(to, ("x", "a"), is(from, "x", "b"))
    });
    let target = into_a(json!([{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]));
    matrix.case("all to one, none to others", &[json!({}), target], &|_, to, _| {
        to.namespace != "x" || to.name == "a"
    });
    let all = into_a(json!([{"from": [{"namespaceSelector": {}}]}]));
    matrix.case("all namespaces", &[all], &|_, _, _| true);
    let of_y = into_a(json!([{"from": [{"namespaceSelector": ns("y")}]}]));
    matrix.case("another namespace", std::slice::from_ref(&of_y), &|from, to, _| {
        only(to, ("x", "a"), from.namespace == "y")
    });
    let some = into_a(json!([{"from": [{"podSelector": pods_in(&["b"])}]}]));
    matrix.case("expressions on pods", &[some], &|from, to, _| {
        only(to, ("x", "a"), is(from, "x", "b"))
    });
    let some = into_a(json!([{"from": [{"namespaceSelector": ns_in("ns", &["y"])}]}]));
    matrix.case("expressions on namespaces", &[some], &|from, to, _| {
        only(to, ("x", "a"), from.namespace == "y")
    });
    let name = ns_in("kubernetes.io/metadata.name", &["y"]);
    let some = into_a(json!([{"from": [{"namespaceSelector": name}]}]));
    matrix.case("a namespace by its name", &[some], &|from, to, _| {
        only(to, ("x", "a"), from.namespace == "y")
    });
    let either = json!([{"from": [{"podSelector": pod("b")}, {"namespaceSelector": ns("y")}]}]);
    matrix.case("a pod or a namespace", &[into_a(either)], &|from, to, _| {
        only(to, ("x", "a"), is(from, "x", "b") || from.namespace == "y")
    });
    let both = json!([{"from": [{"podSelector": pod("b"), "namespaceSelector": ns("y")}]}]);
    matrix.case("a pod of a namespace", &[into_a(both.clone())], &|from, to, _| {
        only(to, ("x", "a"), is(from, "y", "b"))
    });
    let several = json!([{"from": [{"podSelector": pods_in(&["b", "c"]),
        "namespaceSelector": ns_in("ns", &["y", "z"])}]}]);
    matrix.case("several pods of several namespaces", &[into_a(several)], &|from, to, _| {
        only(to, ("x", "a"), from.namespace != "x" && from.name != "a")
    });
    let any = into_a(json!([{"from": [{"podSelector": pod("b")}, {"podSelector": pod("c")}]}]));
    matrix.case("any of two pods", &[any], &|from, to, _| {
        only(to, ("x", "a"), from.namespace == "x" && from.name != "a")
    });
    matrix.case("one pod elsewhere", &[json!({}), into_a(both)], &|from, to, _| {
        to.namespace != "x" || (to.name == "a" && is(from, "y", "b"))
    });
    let own = json!({"ingress": [{"from": [{"podSelector": {}}]}]});
    matrix.case("nobody of other namespaces", &[own], &|from, to, _| {
        to.namespace != "x" || from.namespace == "x"
    });
}

#[test]
fn by_which_ports() {
    let Some(matrix) = Matrix::start() else { return };
    let port = |port: Value| json!([{"from": [{"namespaceSelector": ns("y")}], "ports": [{"port": port}]}]);
    matrix.case("a number", &[into_a(port(json!(81)))], &|from, to, port| {
        only(to, ("x", "a"), from.namespace == "y" && port == 81)
    });
    let of = |number: u16| into_a(port(json!(number)));
    matrix.case("one after the other, on the same pods", &[of(81), of(80)], &|from, to, _| {
        only(to, ("x", "a"), from.namespace == "y")
    });
    let all = json!({"ingress": [{}]});
    matrix.case("all", std::slice::from_ref(&all), &|_, _, _| true);
    matrix.case("all beside none", &[json!({}), all], &|_, _, _| true);
    let named = json!([{"ports": [{"port": "serve-81-tcp"}]}]);
    matrix.case("a name", &[into_a(named)], &|_, to, port| only(to, ("x", "a"), port == 81));
    let named = into_a(port(json!("serve-80-tcp")));
    matrix.case("a name, from a namespace", &[named], &|from, to, port| {
        only(to, ("x", "a"), from.namespace == "y" && port == 80)
    });
    let named = out_of_a(json!([{"ports": [{"port": "serve-80-tcp"}]}]));
    matrix.case("a name, going out", &[named], &|from, _, port| !is(from, "x", "a") || port == 80);
    let range = into_a(json!([{"ports": [{"port": 81, "endPort": 90}]}]));
    matrix.case("a range", &[range], &|_, to, port| only(to, ("x", "a"), port == 81));
    let protocol = into_a(json!([{"ports": [{"protocol": "TCP"}]}]));
    matrix.case("any of a protocol", &[protocol], &|_, _, _| true);
    let udp = into_a(json!([{"ports": [{"protocol": "UDP", "port": 80}]}]));
    matrix.case("UDP is not TCP", &[udp], &|_, to, _| !is(to, "x", "a"));
    let sctp = into_a(json!([{"ports": [{"protocol": "SCTP", "port": 80}]}]));
    matrix.case("SCTP alone isolates", std::slice::from_ref(&sctp), &|_, to, _| !is(to, "x", "a"));
    let tcp = into_a(json!([{"ports": [{"port": 81}]}]));
    matrix.case("SCTP is not taken for TCP", &[sctp, tcp], &|_, to, port| {
        only(to, ("x", "a"), port == 81)
    });
}

#[test]
fn who_goes_out() {
    let Some(matrix) = Matrix::start() else { return };
    matrix.case("a pod to nobody", &[out_of_a(json!([]))], &|from, _, _| !is(from, "x", "a"));
    let none = json!({"policyTypes": ["Egress"]});
    matrix.case("a namespace to nobody", std::slice::from_ref(&none), &|from, _, _| {
        from.namespace != "x"
    });
    let both = json!({
        "podSelector": pod("a"), "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": pod("b")}]}],
        "egress": [{"ports": [{"port": 80}]}],
    });
    matrix.case("in and out at once", &[both], &|from, to, port| {
        only(to, ("x", "a"), is(from, "x", "b")) && (!is(from, "x", "a") || port == 80)
    });
    // The server allows it, the client may not.
    matrix.cluster.reset();
    let of_x = json!({"ingress": [{"from": [{"namespaceSelector": ns("x")}]}]});
    matrix.cluster.set_policy("y", "allows", Some(of_x));
    matrix.set(&[out_of_a(json!([]))]);
    matrix.check("the client may not", (Tcp, Way::Service), &|from, to, _| {
        !is(from, "x", "a") && (to.namespace != "y" || from.namespace == "x")
    });
    let peer = json!([{"to": [{"podSelector": pod("a"), "namespaceSelector": ns("y")}]}]);
    matrix.case("a pod of another namespace", &[out_of_a(peer)], &|from, to, _| {
        !is(from, "x", "a") || is(to, "y", "a")
    });
    let all = json!({"policyTypes": ["Egress"], "egress": [{}]});
    matrix.case("all beside none", &[none, all], &|_, _, _| true);
    let block = |cidr: String, except: &[String]| json!([{"to": [{"ipBlock": {"cidr": cidr, "except": except}}]}]);
    let target = matrix.address("y", "b");
    let one = format!("{target}/32");
    let range = "10.244.2.0/24".to_owned();
    let spec = out_of_a(block(range.clone(), &[]));
    matrix.case("a range", &[spec], &|from, to, _| !is(from, "x", "a") || to.name == "b");
    let without = out_of_a(block(range, std::slice::from_ref(&one)));
    matrix.case("a range without one", std::slice::from_ref(&without), &|from, to, _| {
        !is(from, "x", "a") || (to.name == "b" && to.namespace != "y")
    });
    let with = out_of_a(block(one, &[]));
    matrix.case("what one leaves out, another allows", &[without, with], &|from, to, _| {
        !is(from, "x", "a") || to.name == "b"
    });
    let into = into_a(json!([{"from": [{"podSelector": pod("b")}]}]));
    let out = out_of_a(json!([{"to": [{"podSelector": pod("c")}]}]));
    matrix.case("each direction for itself", &[into, out], &|from, to, _| {
        only(to, ("x", "a"), is(from, "x", "b")) && (!is(from, "x", "a") || is(to, "x", "c"))
    });
}

#[test]
fn what_changes() {
    let Some(matrix) = Matrix::start() else { return };
    let by = (Tcp, Way::Service);
    let cluster = &matrix.cluster;
    cluster.reset();
    let none: Expected<'_> = &|_, to, _| to.namespace != "x";
    matrix.set(&[json!({})]);
    matrix.check("a policy", by, none);
    matrix.set(&[json!({"ingress": [{"ports": [{"port": 81}]}]})]);
    matrix.check("is updated", by, &|_, to, port| to.namespace != "x" || port == 81);
    cluster.set_policy("x", "policy-0", None);
    cluster.tell();
    matrix.check("and deleted", by, &|_, _, _| true);
    assert!(!cluster.has_tables(), "the last policy took the tables along");

    let labeled = json!({"matchLabels": {"ns2": "updated"}});
    matrix.set(&[into_a(json!([{"from": [{"namespaceSelector": labeled}]}]))]);
    matrix.check("no namespace has the label", by, &|_, to, _| !is(to, "x", "a"));
    cluster.set_namespace("y", json!({"ns": "y", "ns2": "updated"}));
    cluster.tell();
    matrix.check("one gets it", by, &|from, to, _| only(to, ("x", "a"), from.namespace == "y"));
    cluster.reset();
    let labeled = json!({"matchLabels": {"pod2": "updated"}});
    matrix.set(&[into_a(json!([{"from": [{"podSelector": labeled}]}]))]);
    matrix.check("no pod has the label", by, &|_, to, _| !is(to, "x", "a"));
    cluster.label("x", "b", &[("pod", "b"), ("pod2", "updated")]);
    cluster.tell();
    matrix.check("one gets it", by, &|from, to, _| only(to, ("x", "a"), is(from, "x", "b")));
    cluster.reset();
    matrix.set(&[json!({"podSelector": {"matchLabels": {"target": "isolated"}}})]);
    matrix.check("no subject has the label", by, &|_, _, _| true);
    cluster.label("x", "a", &[("pod", "a"), ("target", "isolated")]);
    cluster.tell();
    matrix.check("one gets it", by, &|_, to, _| !is(to, "x", "a"));
    cluster.label("x", "a", &[("pod", "a")]);
    cluster.tell();
    matrix.check("and loses it", by, &|_, _, _| true);
}

/// The three that upstream asks of every protocol.
fn basics(matrix: &Matrix, by: (Protocol, Way)) {
    let (protocol, _) = by;
    matrix.case_of("nobody comes in", by, &[json!({})], &|_, to, _| to.namespace != "x");
    let one = json!([{"from": [{"podSelector": pod("b"), "namespaceSelector": ns("y")}]}]);
    matrix.case_of("one pod elsewhere", by, &[json!({}), into_a(one)], &|from, to, _| {
        to.namespace != "x" || (to.name == "a" && is(from, "y", "b"))
    });
    let port = json!([{"ports": [{"port": 81, "protocol": protocol.to_string()}]}]);
    matrix.case_of("a port", by, &[into_a(port)], &|_, to, port| only(to, ("x", "a"), port == 81));
}

#[test]
fn udp_and_ipv6_are_no_different() {
    let Some(matrix) = Matrix::start() else { return };
    basics(&matrix, (Udp, Way::Service));
    basics(&matrix, (Udp, Way::Ipv6));
    basics(&matrix, (Tcp, Way::Ipv4));
    basics(&matrix, (Tcp, Way::Ipv6));
    let block = json!([{"to": [{"ipBlock": {"cidr": "fd00:10:244:2::/64"}}]}]);
    let by = (Tcp, Way::Ipv6);
    matrix.case_of("a range of IPv6", by, &[out_of_a(block)], &|from, to, _| {
        !is(from, "x", "a") || to.name == "b"
    });
}

#[test]
fn sctp_is_judged_by_its_ports() {
    let Some(matrix) = Matrix::start() else { return };
    let cluster = &matrix.cluster;
    let place = |namespace: &str, name: &str| &cluster.places[&ObjectKey::new(namespace, name)];
    let (a, b, c) = (place("x", "a"), place("x", "b"), place("y", "b"));
    if !crate::probes::has_sctp(&a.namespace) {
        println!("SKIPPED: SCTP associations: this kernel has none; bare packets are sent instead");
    }
    let heard = |from: &NetworkNamespace, port: u16| crate::probes::sctp_is_heard(from, a, port);
    let check = |what: &str, policies: &[Value], expected: [(bool, bool); 2]| {
        cluster.reset();
        matrix.set(policies);
        let found = [(&b.namespace), (&c.namespace)].map(|it| (heard(it, 80), heard(it, 81)));
        assert_eq!(found, expected, "{what}");
    };
    check("no policy", &[], [(true, true); 2]);
    check("nobody comes in", &[json!({})], [(false, false); 2]);
    let one = json!([{"from": [{"podSelector": pod("b"), "namespaceSelector": ns("y")}]}]);
    check("one pod elsewhere", &[into_a(one)], [(false, false), (true, true)]);
    let port = json!([{"ports": [{"port": 81, "protocol": "SCTP"}]}]);
    check("a port", &[into_a(port)], [(false, true); 2]);
    let tcp = json!([{"ports": [{"port": 81, "protocol": "TCP"}]}]);
    check("of TCP", &[into_a(tcp)], [(false, false); 2]);
    let _ = Sctp;
}
