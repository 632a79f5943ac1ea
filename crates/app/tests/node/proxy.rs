//! HTTP through the API server, to a pod, to a Service's pods and to the node.

use crate::cluster::{Cluster, Ran, pod, ran};

/// `curl` with the administrator's certificate; the answer's code is its last line.
fn ask(cluster: &Cluster, words: &[&str], path: &str) -> Ran {
    let config = cluster.json(&["config", "view", "--raw", "--minify"]);
    let of_user = &config["users"][0]["user"];
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let decode = |value: &serde_json::Value, name: &str| {
        let path = cluster.path(name);
        let output = cluster
            .host
            .command("sh")
            .args(["-c", "printf %s \"$1\" | base64 -d > \"$2\"", "sh"])
            .arg(value.as_str().unwrap())
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success());
        path.display().to_string()
    };
    let certificate = decode(&of_user["client-certificate-data"], "admin.crt");
    let key = decode(&of_user["client-key-data"], "admin.key");
    let own = ["-sk", "--max-time", "20", "-w", "\n%{http_code}", "--cert", &certificate];
    let mut command = cluster.host.command("curl");
    command.args(own).args(["--key", &key]).args(words).arg(format!("{server}{path}"));
    ran(command.output().unwrap())
}

fn raw(cluster: &Cluster, path: &str) -> String {
    cluster.ok(&["get", "--raw", path])
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[test]
fn pods_services_and_the_node_are_reached_through_the_api() {
    let Some(cluster) = Cluster::start() else { return };
    let ports = "    ports: [{containerPort: 8080}]";
    cluster.apply("web.yaml", &pod("web", "[http]", ports));
    cluster.wait_ready("app=web", 1);
    cluster.ok(&["expose", "pod", "web", "--port=80", "--target-port=8080"]);
    cluster.wait_served("web", 1);

    for path in ["pods/web/proxy/", "pods/web:8080/proxy/", "pods/http:web:8080/proxy/x"] {
        let path = format!("/api/v1/namespaces/default/{path}");
        assert_eq!(raw(&cluster, &path).trim(), "web", "{path}");
    }
    for name in ["web", "web:80", "http:web:80"] {
        assert_eq!(raw(&cluster, &format!("{SERVICES}/{name}/proxy/")).trim(), "web", "{name}");
    }
    assert_eq!(raw(&cluster, "/api/v1/nodes/node-a/proxy/healthz"), "ok");
    let statistics = raw(&cluster, "/api/v1/nodes/node-a/proxy/metrics");
    assert!(statistics.contains("kubelet_"), "{statistics}");

    // Every method, with its body; nothing of who asked.
    for method in ["DELETE", "OPTIONS", "PATCH", "POST", "PUT"] {
        let words = ["-X", method, "-d", "hello", "-H", "Impersonate-User: admin"];
        let words = [&words[..], &["-H", "Impersonate-Group: system:masters"]].concat();
        let seen = ask(&cluster, &words, &format!("{PODS}/web/proxy/echo?a=b%20c")).stdout;
        assert!(seen.starts_with(&format!("{method} /echo?a=b%20c\n")), "{seen}");
        assert!(seen.ends_with("\nhello\n200"), "{seen}");
        assert!(seen.contains("x-forwarded-uri: /api/v1/namespaces/default/pods/web/proxy/echo\n"));
        assert!(seen.contains("x-forwarded-for: "), "{seen}");
        assert!(!seen.contains("mpersonate"), "{seen}");
    }
    let head = ask(&cluster, &["-I"], &format!("{PODS}/web/proxy/")).stdout;
    assert!(head.starts_with("HTTP/2 200"), "{head}");
    let root = ask(
        &cluster,
        &["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"],
        &format!("{PODS}/web/proxy"),
    )
    .stdout;
    assert!(root.starts_with("301 https://") && root.ends_with("/pods/web/proxy/"), "{root}");
    assert!(ask(&cluster, &[], &format!("{PODS}/web/proxy/status/418")).stdout.ends_with("418"));
}

#[test]
fn what_cannot_be_reached_says_why() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &pod("web", "[http]", ""));
    cluster.wait_ready("app=web", 1);
    let refused = |path: &str| {
        let seen = cluster.refused(&["get", "--raw", path]);
        seen.trim().to_owned()
    };
    let seen = refused(&format!("{PODS}/none/proxy/"));
    assert!(seen.contains("pods \"none\" not found"), "{seen}");
    let seen = refused(&format!("{PODS}/web:1/proxy/"));
    assert!(seen.contains("error trying to reach service: dial tcp"), "{seen}");
    assert!(seen.contains("Connection refused"), "{seen}");
    let seen = refused(&format!("{PODS}/ftp:web:1/proxy/"));
    assert!(seen.contains("invalid pod request \"ftp:web:1\""), "{seen}");

    // Endpoints that somebody wrote lead nowhere but to pods.
    cluster.apply(
        "stranger.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: stranger}, spec: {ports: [{port: 80}]}}",
    );
    cluster.apply(
        "endpoints.yaml",
        "{apiVersion: v1, kind: Endpoints, metadata: {name: stranger}, subsets: \
         [{addresses: [{ip: 192.0.2.1}], ports: [{port: 6443}]}]}",
    );
    let seen = refused(&format!("{SERVICES}/stranger/proxy/"));
    assert!(seen.contains("no endpoints available for service \"stranger\""), "{seen}");
    let seen = refused(&format!("{SERVICES}/stranger:81/proxy/"));
    assert!(seen.contains("no service port 81 found for service \"stranger\""), "{seen}");

    // A right to see pods is none to talk to them.
    cluster.ok(&["create", "serviceaccount", "viewer"]);
    let account = "--serviceaccount=default:viewer";
    cluster.ok(&["create", "rolebinding", "viewer", "--clusterrole=view", account]);
    let who = "--as=system:serviceaccount:default:viewer";
    let seen = cluster.refused(&["get", "--raw", &format!("{PODS}/web/proxy/"), who]);
    assert!(seen.contains("cannot get resource \"pods/proxy\""), "{seen}");
}
