//! Pods of several nodes of one machine are pods of one cluster.

use std::collections::BTreeSet;

use crate::three::{self, Logs, NAMES};

const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: each}, \
                       spec: {selector: {app: each}, ports: [{port: 80, targetPort: 8080}]}}";

#[test]
fn pods_of_all_nodes_reach_each_other_services_names_and_the_world() {
    let Some(cluster) = three::start(&[]) else { return };
    let _logs = Logs(&cluster);
    let ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
    assert_eq!(cluster.ok(&["get", "nodes", "-o", ready]), "True True True");
    cluster.run_on_each();
    cluster.until_pods_meet();

    cluster.apply("service.yaml", SERVICE);
    cluster.wait_served("each", NAMES.len());
    let service = cluster.field(&["service", "each"], ".spec.clusterIP");
    let api = cluster.field(&["service", "kubernetes"], ".spec.clusterIP");
    for node in NAMES {
        cluster.until_asks(node, &format!("http://{service}/"));
        cluster.until_asks(node, "http://each.default.svc.cluster.local/");
        let pod = format!("on-{node}");
        assert!(cluster.ok(&["exec", &pod, "--", "echo", "here"]).contains("here"));
        cluster.ok(&["logs", &pod]);
        // The API server answers, if only to say that it wants HTTPS.
        let said = cluster.run(&[
            "exec",
            &pod,
            "--",
            "get",
            "--timeout",
            "2",
            &format!("http://{api}:443/"),
        ]);
        let said = said.stdout + &said.stderr;
        assert!(!said.contains("timed out") && !said.contains("refused"), "{node}: {said}");
    }
    reach_the_world(&cluster);
}

/// Seen from there they are the machine.
fn reach_the_world(cluster: &crate::cluster::Cluster) {
    let mut server = cluster.host.neighbor_command("python3");
    let program = "import http.server as h\n\
        class Echo(h.BaseHTTPRequestHandler):\n \
        def do_GET(self):\n  self.send_response(200)\n  self.end_headers()\n  self.wfile.write(self.client_address[0].encode())\n\
        h.HTTPServer(('192.0.2.2', 8000), Echo).serve_forever()";
    let mut server = server
        .args(["-c", program])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for node in NAMES {
        cluster.until_asks(node, "http://192.0.2.2:8000/");
        let seen = cluster.exec(&format!("on-{node}"), &["get", "http://192.0.2.2:8000/"]);
        assert!(seen.contains("192.0.2.1"), "{node} is seen as {seen}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn each_node_is_a_machine_to_itself() {
    let Some(cluster) = three::start(&["--network", "host-gw"]) else { return };
    let _logs = Logs(&cluster);
    let nodes = cluster.json(&["get", "nodes"]);
    let nodes = nodes["items"].as_array().unwrap();
    for field in ["machineID", "bootID"] {
        let of = |it: &serde_json::Value| it["status"]["nodeInfo"][field].to_string();
        let all: BTreeSet<String> = nodes.iter().map(of).collect();
        assert_eq!(all.len(), 3, "{field}: {all:?}");
    }
    let addresses = "jsonpath={.items[*].status.addresses[?(@.type=='InternalIP')].address}";
    let addresses = cluster.ok(&["get", "nodes", "-o", addresses]);
    assert_eq!(addresses, "10.234.0.1 10.234.0.2 10.234.0.3");
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];
    let namespaces = |pid: u64| {
        let of = |kind: &&str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        kinds.iter().map(of).collect::<Vec<_>>()
    };
    let (own, agent) = ("node-a-2", "node-a-3");
    let [own, other] = [own, agent].map(|it| cluster.listed(it));
    let init = namespaces(own["pid"].as_u64().unwrap());
    assert_eq!(init, namespaces(own["agentPid"].as_u64().unwrap()));
    for foreign in [u64::from(std::process::id()), other["pid"].as_u64().unwrap()] {
        let foreign = namespaces(foreign);
        for (at, kind) in kinds.iter().enumerate() {
            assert_ne!(init[at], foreign[at], "{kind}");
        }
    }
    // Without tunnels: they are neighbors.
    cluster.run_on_each();
    cluster.until_pods_meet();
}
