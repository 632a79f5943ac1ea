//! Manifest in, text out.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use node_api::sandboxes::Dns;
use serde_json::{Value, json};

use super::{dns, hostname, hosts, sandbox_hostname};

fn pod(name: &str, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": []},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|it| it.parse().unwrap()).collect()
}

fn render(dns: Option<Dns>) -> String {
    let Some(dns) = dns else { return "the node's".to_owned() };
    let servers: Vec<String> = dns.servers.iter().map(IpAddr::to_string).collect();
    format!("{} | {} | {}", servers.join(" "), dns.searches.join(" "), dns.options.join(" "))
}

#[test]
fn the_policy_chooses_the_servers() {
    let node = node_api::resolv_conf::parse(
        "nameserver 192.0.2.1\nsearch corp.example\noptions ndots:1\n",
    );
    let check = |spec: Value, expected: &str| {
        let dns = dns(&pod("web", spec.clone()), &ips(&["10.96.0.10"]), "cluster.local", &node);
        assert_eq!(render(dns), expected, "{spec}");
    };
    let cluster = "10.96.0.10 | shop.svc.cluster.local svc.cluster.local cluster.local corp.example \
                   | ndots:5";
    check(json!({}), cluster);
    check(json!({"dnsPolicy": "ClusterFirst"}), cluster);
    check(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), "the node's");
    check(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster);
    check(json!({"dnsPolicy": "Default"}), "the node's");
    let config = json!({
        "nameservers": ["1.2.3.4", "10.96.0.10"], "searches": ["a.example", "cluster.local"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    });
    check(
        json!({"dnsPolicy": "None", "dnsConfig": config}),
        "1.2.3.4 10.96.0.10 | a.example cluster.local | ndots:2 edns0",
    );
    check(
        json!({"dnsPolicy": "Default", "dnsConfig": config}),
        "192.0.2.1 1.2.3.4 10.96.0.10 | corp.example a.example cluster.local | ndots:2 edns0",
    );
    check(
        json!({"dnsConfig": config}),
        "10.96.0.10 1.2.3.4 | shop.svc.cluster.local svc.cluster.local cluster.local corp.example \
         a.example | ndots:2 edns0",
    );
}

#[test]
fn what_resolvers_cannot_take_is_left_out() {
    let config = |nameservers: Vec<&str>, searches: Vec<String>| {
        let config = json!({"nameservers": nameservers, "searches": searches});
        let pod = pod("web", json!({"dnsPolicy": "None", "dnsConfig": config}));
        dns(&pod, &[], "cluster.local", &Dns::default()).unwrap()
    };
    let servers = config(vec!["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"], Vec::new()).servers;
    assert_eq!(servers, ips(&["1.1.1.1", "1.1.1.2", "1.1.1.3"]));
    let many = (0..40).map(|it| format!("d{it}.example")).collect();
    assert_eq!(config(Vec::new(), many).searches.len(), 32);
    let long = (0..20).map(|it| format!("{it}.{}", "x".repeat(200))).collect();
    assert!(config(Vec::new(), long).searches.join(" ").len() <= 2048);
    assert_eq!(config(Vec::new(), vec!["x".repeat(254)]).searches, [""; 0]);
}

#[test]
fn a_cluster_without_dns_uses_the_nodes() {
    assert_eq!(dns(&pod("web", json!({})), &[], "cluster.local", &Dns::default()), None);
}

#[test]
fn the_nodes_file_is_understood() {
    let check = |text: &str, expected: &str| {
        assert_eq!(render(Some(node_api::resolv_conf::parse(text))), expected);
    };
    check("", " |  | ");
    check(
        "# made by hand\nnameserver 192.0.2.1 # first\n nameserver\tfd00::1\nnameserver fe80::1%eth0\n",
        "192.0.2.1 fd00::1 |  | ",
    );
    check(
        "search a b\nsearch c.example. .\noptions ndots:1 edns0\n",
        " | c.example . | ndots:1 edns0",
    );
}

#[test]
fn host_names_follow_the_pod() {
    let check = |name: &str, spec: Value, expected: &str| {
        assert_eq!(hostname(&pod(name, spec), "node-1"), expected);
    };
    check("web-0", json!({}), "web-0");
    check("web-0", json!({"hostname": "db"}), "db");
    check("web-0", json!({"hostname": "db", "hostnameOverride": "x.example"}), "x.example");
    check("web-0", json!({"hostNetwork": true, "hostname": "db"}), "node-1");
    check(&"a".repeat(70), json!({}), &"a".repeat(63));
    let at_the_cut = format!("{}-.{}", "a".repeat(61), "b".repeat(9));
    check(&at_the_cut, json!({}), &"a".repeat(61));
}

#[test]
fn a_host_name_may_have_its_domain() {
    let check = |spec: Value, expected: &str| {
        let result = sandbox_hostname(&pod("web-0", spec), "node-1", "cluster.local");
        assert_eq!(result.unwrap_or_else(|err| err.to_string()), expected);
    };
    check(json!({"subdomain": "web"}), "web-0");
    check(json!({"setHostnameAsFQDN": true}), "web-0");
    check(
        json!({"subdomain": "web", "setHostnameAsFQDN": true}),
        "web-0.web.shop.svc.cluster.local",
    );
    let long = "x".repeat(60);
    check(
        json!({"subdomain": long, "setHostnameAsFQDN": true}),
        &format!(
            "failed to construct FQDN from Pod hostname and cluster domain, FQDN \
             web-0.{long}.shop.svc.cluster.local is too long (64 characters is the max, 89 \
             characters requested)"
        ),
    );
}

#[test]
fn the_hosts_file_reads_as_upstreams() {
    let managed = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
                   ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                   fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
    let aliases =
        json!([{"ip": "1.2.3.4", "hostnames": ["a", "b"]}, {"ip": "::5", "hostnames": ["c"]}]);
    let added = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::5\tc\n";
    let check = |spec: Value, expected: &str| {
        let addresses = ips(&["10.244.0.5", "fd00::5"]);
        let text =
            hosts(&pod("web-0", spec), &addresses, "cluster.local", "127.0.0.1\tlocalhost\n");
        assert_eq!(text, expected);
    };
    check(json!({}), &format!("{managed}10.244.0.5\tweb-0\nfd00::5\tweb-0\n"));
    let name = "web-0.db.shop.svc.cluster.local\tweb-0";
    check(
        json!({"subdomain": "db", "hostAliases": aliases}),
        &format!("{managed}10.244.0.5\t{name}\nfd00::5\t{name}\n{added}"),
    );
    check(
        json!({"hostNetwork": true, "hostAliases": aliases}),
        &format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n{added}"),
    );
}
