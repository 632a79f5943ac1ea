//! Names, virtual addresses and node ports, over TCP and UDP, from the node, from pods and from a
//! neighbor.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, deployment, pod};
use crate::host::NODE;

/// Asks until every one of `count` pods has answered; bounded.
fn all_answer(count: usize, mut ask: impl FnMut() -> String) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for _ in 0..200 {
        names.insert(ask().trim().to_owned());
        if names.len() == count {
            return names;
        }
    }
    panic!("only {names:?} answered, expected {count}");
}

#[test]
fn a_deployment_answers_on_its_names_and_addresses() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=3"]);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080", "--type=NodePort"]);
    cluster.ok(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    let names =
        cluster.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"]);
    let names: BTreeSet<String> = names.split_whitespace().map(str::to_owned).collect();
    let service = cluster.json(&["get", "service", "web"]);
    let cluster_ip = service["spec"]["clusterIP"].as_str().unwrap();
    let node_port = &service["spec"]["ports"][0]["nodePort"];

    for url in [
        format!("http://{cluster_ip}/"),
        format!("http://{NODE}:{node_port}/"),
        format!("http://127.0.0.1:{node_port}/"),
    ] {
        assert_eq!(all_answer(3, || cluster.curl(&url)), names, "{url}");
    }
    let outside = format!("http://{NODE}:{node_port}/");
    let ask = || cluster.host.on_neighbor(&["curl", "-sS", "--max-time", "10", &outside]);
    assert_eq!(all_answer(3, ask), names);

    let first = names.first().unwrap();
    for name in ["web.default.svc.cluster.local", "web.default", "web"] {
        let found = cluster.exec(first, &["dns", name]);
        assert!(found.contains(cluster_ip), "{name}: {found}");
        let url = format!("http://{name}/");
        assert_eq!(all_answer(3, || cluster.exec(first, &["get", &url])), names, "{url}");
    }
    let pointer = cluster.exec(first, &["dns", cluster_ip]);
    assert!(pointer.contains("web.default.svc.cluster.local"), "{pointer}");

    // A headless Service gives the pods' own addresses.
    let addresses =
        cluster.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"]);
    cluster.ok(&["expose", "deploy", "web", "--name=pods", "--port=8080", "--cluster-ip=None"]);
    cluster.until(&["exec", first, "--", "dns", "pods", "--type", "A"], |it| {
        addresses.split_whitespace().all(|address| it.contains(address))
    });
}

#[test]
fn a_load_balancer_has_the_nodes_address_and_answers_there() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    let expose = ["expose", "deploy", "web", "--port=8088", "--target-port=8080"];
    cluster.ok(&[&expose[..], &["--type=LoadBalancer"]].concat());
    cluster.ok(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    let address = ["get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"];
    cluster.until(&address, |it| it == NODE);
    let url = format!("http://{NODE}:8088/");
    assert_eq!(all_answer(2, || cluster.curl(&url)).len(), 2);
    let ask = || cluster.host.on_neighbor(&["curl", "-sS", "--max-time", "10", &url]);
    assert_eq!(all_answer(2, ask).len(), 2);
    // The port is taken: the next one waits, and says for whom.
    cluster.ok(&[&expose[..], &["--type=LoadBalancer", "--name=late"]].concat());
    let taken = "is taken by Service default/web";
    cluster.until(&["describe", "service", "late"], |it| it.contains(taken));
    cluster.ok(&["delete", "service", "web"]);
    cluster.until(&address.map(|it| if it == "web" { "late" } else { it }), |it| it == NODE);
    assert_eq!(all_answer(2, || cluster.curl(&url)).len(), 2);
}

#[test]
fn udp_works_and_follows_its_endpoints() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("echo.yaml", &pod("echo", "[echo, udp, --port, '9000', --name]", ""));
    cluster.wait_ready("app=echo", 1);
    cluster.apply(
        "service.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: echo}, spec: {selector: {app: echo}, \
         ports: [{port: 9, targetPort: 9000, protocol: UDP}]}}",
    );
    let address = cluster.field(&["service", "echo"], ".spec.clusterIP");
    // One socket, one source port: what conntrack remembers must go when the endpoint goes.
    let script = "import socket,sys\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('',33333)); s.settimeout(0.5)\n\
        for i in range(60):\n\
        \x20 s.sendto(b'hello',(sys.argv[1],9))\n\
        \x20 try: print(s.recv(100).decode()); sys.exit(0)\n\
        \x20 except (TimeoutError, ConnectionRefusedError): pass\n\
        sys.exit(1)";
    let ask = || cluster.host.on_node(&["python3", "-c", script, &address]);
    assert_eq!(ask().trim(), "echo hello");
    cluster.ok(&["delete", "pod", "echo"]);
    let other = pod("echo-2", "[echo, udp, --port, '9000', --name]", "")
        .replace("app: echo-2", "app: echo");
    cluster.apply("other.yaml", &other);
    cluster.wait_ready("app=echo", 1);
    assert_eq!(ask().trim(), "echo-2 hello");
}

#[test]
fn a_service_without_endpoints_refuses_at_once() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.ok(&["create", "service", "clusterip", "nobody", "--tcp=80:8080"]);
    let address = cluster.field(&["service", "nobody"], ".spec.clusterIP");
    let mut last = String::new();
    for _ in 0..100 {
        let output = cluster
            .host
            .command("curl")
            .args(["-sS", "--max-time", "20", &format!("http://{address}/")])
            .output()
            .unwrap();
        last = String::from_utf8_lossy(&output.stderr).into_owned();
        // 7: refused; 28 would be a timeout.
        if output.status.code() == Some(7) {
            return;
        }
    }
    panic!("never refused: {last}");
}

#[test]
fn a_client_stays_with_one_pod_when_the_service_asks_for_it() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &deployment("web", 3, ""));
    cluster.wait_ready("app=web", 3);
    cluster.apply(
        "service.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, \
         sessionAffinity: ClientIP, ports: [{port: 80, targetPort: 8080}]}}",
    );
    let url = format!("http://{}/", cluster.field(&["service", "web"], ".spec.clusterIP"));
    cluster.wait_served("web", 3);
    let first = cluster.curl(&url);
    for _ in 0..20 {
        assert_eq!(cluster.curl(&url), first);
    }
}

#[test]
fn pods_reach_the_api_with_their_token() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("client.yaml", &pod("client", "[sleep]", ""));
    cluster.wait_ready("app=client", 1);
    let folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    let token = cluster.exec("client", &["cat", &format!("{folder}/token")]);
    assert_eq!(token.split('.').count(), 3, "{token}");
    assert_eq!(cluster.exec("client", &["cat", &format!("{folder}/namespace")]), "default");
    let host = cluster.exec("client", &["env"]);
    assert!(host.contains("KUBERNETES_SERVICE_HOST=10.96.0.1"), "{host}");
    let authority = cluster.exec("client", &["cat", &format!("{folder}/ca.crt")]);
    let authority = cluster.file("ca.crt", &authority);
    let answer = cluster.host.on_node(&[
        "curl",
        "-sS",
        "--max-time",
        "10",
        "--cacert",
        &authority,
        "-H",
        &format!("Authorization: Bearer {}", token.trim()),
        "https://10.96.0.1/api/v1/namespaces/default/pods",
    ]);
    assert!(answer.contains("system:serviceaccount:default:default"), "{answer}");
}

#[test]
fn cluster_info_names_only_what_answers() {
    let Some(cluster) = Cluster::start() else { return };
    let said = cluster.ok(&["cluster-info"]);
    assert!(said.contains("Kubernetes control plane"), "{said}");
    let server = cluster.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let urls: Vec<&str> = said.split(&server).skip(1).collect();
    assert!(!urls.is_empty(), "{said}");
    for rest in urls {
        // Up to the end of the line, or to what colors it.
        let path: String = rest.chars().take_while(|it| it.is_ascii_graphic()).collect();
        cluster.ok(&["get", "--raw", if path.is_empty() { "/" } else { &path }]);
    }
}
