//! Verbs of kubectl that have no story of their own: kustomize, restart, reconcile, dump, replace by
//! force, set, the generators of `create`, and what `wait` waits for.

use std::path::PathBuf;
use std::process::Stdio;

use crate::cluster::{Cluster, row};

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 1
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
      - { name: main, image: 'xebec.local/toolbox:1', envFrom: [{ configMapRef: { name: settings } }] }
";

fn folder(cluster: &Cluster, name: &str, files: &[(&str, &str)]) -> String {
    let folder: PathBuf = cluster.path(name);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, content) in files {
        std::fs::write(folder.join(file), content).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn a_kustomization_is_applied_compared_and_deleted() {
    let Some(cluster) = Cluster::start(1) else { return };
    let kustomization = r"
resources: [web.yaml]
namePrefix: team-
labels: [{ pairs: { team: a } }]
replicas: [{ name: web, count: 2 }]
images: [{ name: xebec.local/toolbox, newTag: '2' }]
configMapGenerator: [{ name: settings, literals: [COLOR=green] }]
";
    let files = [("web.yaml", DEPLOYMENT), ("kustomization.yaml", kustomization)];
    let folder = folder(&cluster, "site", &files);
    let built = cluster.ok(&["kustomize", &folder]);
    assert!(built.contains("name: team-web") && built.contains("toolbox:2"), "{built}");
    let applied = cluster.ok(&["apply", "-k", &folder]);
    let lines: Vec<&str> = applied.lines().collect();
    let [map, deployment] = lines[..] else { panic!("{applied}") };
    assert!(map.starts_with("configmap/team-settings-") && map.ends_with(" created"), "{map}");
    assert_eq!(deployment, "deployment.apps/team-web created");
    let found = cluster.json(&["get", "deploy", "team-web"]);
    assert_eq!(found["metadata"]["labels"]["team"], "a");
    assert_eq!(found["spec"]["replicas"], 2);
    let container = &found["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "xebec.local/toolbox:2");
    let name = map.trim_start_matches("configmap/").trim_end_matches(" created");
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], name);

    let again = cluster.ok(&["apply", "-k", &folder]);
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    std::fs::write(
        PathBuf::from(&folder).join("kustomization.yaml"),
        kustomization.replace("count: 2", "count: 3"),
    )
    .unwrap();
    let diff = cluster.run(&["diff", "-k", &folder]);
    assert!(diff.stdout.contains("+  replicas: 3"), "{}{}", diff.stdout, diff.stderr);
    cluster.ok(&["delete", "-k", &folder]);
    assert_eq!(cluster.ok(&["get", "deploy,configmap", "-l", "team=a", "-o", "name"]), "");
}

#[test]
fn a_restart_is_a_rollout() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let pods = || cluster.ok(&["get", "pods", "-l", "app=web", "-o", "name"]);
    let before = pods();
    let said = cluster.ok(&["rollout", "restart", "deployment/web"]);
    assert_eq!(said, "deployment.apps/web restarted\n");
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let deployment = cluster.json(&["get", "deploy", "web"]);
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert!(annotations["kubectl.kubernetes.io/restartedAt"].is_string(), "{deployment}");
    cluster.until(&["get", "pods", "-l", "app=web", "-o", "name"], |it| {
        it.lines().count() == 1 && it != before
    });
    cluster.ok(&["rollout", "pause", "deployment/web"]);
    let refused = cluster.refused(&["rollout", "restart", "deployment/web"]);
    assert!(refused.contains("can't restart paused deployment"), "{refused}");
}

#[test]
fn rights_are_reconciled() {
    let Some(cluster) = Cluster::start(0) else { return };
    let role = |verbs: &str| {
        format!(
            "kind: Role\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{ name: reader, namespace: default }}\n\
             rules: [{{ apiGroups: [''], resources: [pods], verbs: [{verbs}] }}]\n---\n\
             kind: RoleBinding\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{ name: reader, namespace: default }}\n\
             roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader }}\n\
             subjects: [{{ kind: User, name: jane, apiGroup: rbac.authorization.k8s.io }}]\n"
        )
    };
    let can = |verb: &str| {
        cluster.run(&["auth", "can-i", verb, "pods", "--as=jane"]).stdout.trim() == "yes"
    };
    let said = cluster.ok(&["auth", "reconcile", "-f", &cluster.file("a.yaml", &role("get"))]);
    assert!(said.contains("role.rbac.authorization.k8s.io/reader reconciled"), "{said}");
    assert!(said.contains("rolebinding.rbac.authorization.k8s.io/reader reconciled"), "{said}");
    assert!(can("get") && !can("list"));
    // More is added, and what is there beside it stays.
    let more = cluster.file("b.yaml", &role("list"));
    let reconcile = |flags: &[&str]| {
        let ran = cluster.run(&[&["auth", "reconcile", "-f", &more], flags].concat());
        assert!(ran.is_ok, "{}", ran.stderr);
        ran.stdout + &ran.stderr
    };
    let said = reconcile(&[]);
    assert!(said.contains("missing rules added:"), "{said}");
    assert!(can("get") && can("list"));
    let said = reconcile(&["--remove-extra-permissions"]);
    assert!(said.contains("extra rules removed:"), "{said}");
    assert!(!can("get") && can("list"));
}

#[test]
fn a_cluster_is_dumped() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let directory = cluster.path("dump");
    let arguments = ["cluster-info", "dump", "--namespaces=default,kube-system"];
    let to = format!("--output-directory={}", directory.display());
    cluster.ok(&[&arguments[..], &[&to]].concat());
    let items = |file: &str| {
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((items("nodes.json"), items("default/deployments.json")), (1, 1));
    assert_eq!((items("default/pods.json"), items("default/replicasets.json")), (1, 1));
    assert!(items("default/events.json") > 0);
    assert!(directory.join("kube-system/services.json").exists());
}

#[test]
fn what_cannot_change_is_replaced_by_force() {
    let Some(cluster) = Cluster::start(0) else { return };
    let job = |completions: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{ name: sum }}\nspec:\n  suspend: true\n  completions: {completions}\n\
             \x20 template:\n    spec: {{ restartPolicy: Never, containers: [{{ name: a, image: a }}] }}\n"
        )
    };
    cluster.ok(&["create", "-f", &cluster.file("a.yaml", &job("1"))]);
    let uid = || cluster.ok(&["get", "job", "sum", "-o", "jsonpath={.metadata.uid}"]);
    let before = uid();
    let changed = cluster.file("b.yaml", &job("2"));
    let refused = cluster.refused(&["replace", "-f", &changed]);
    assert!(refused.contains("field is immutable"), "{refused}");
    let said = cluster.ok(&["replace", "--force", "-f", &changed]);
    assert!(said.contains("\"sum\" ") && said.ends_with("job.batch/sum replaced\n"), "{said}");
    assert_ne!(uid(), before);
    assert_eq!(cluster.ok(&["get", "job", "sum", "-o", "jsonpath={.spec.completions}"]), "2");
}

#[test]
fn parts_of_a_template_are_set() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    let deployment = "deployment.apps/web";
    let said = cluster.ok(&["set", "env", "deployment/web", "COLOR=green", "SIZE=big"]);
    assert_eq!(said, format!("{deployment} env updated\n"));
    cluster.ok(&["create", "configmap", "settings", "--from-literal=SHAPE=round"]);
    cluster.ok(&["set", "env", "deployment/web", "--from=configmap/settings", "SIZE-"]);
    let listed = cluster.ok(&["set", "env", "deployment/web", "--list"]);
    assert!(listed.contains("COLOR=green") && !listed.contains("SIZE"), "{listed}");
    assert!(listed.contains("# SHAPE from configmap settings, key SHAPE"), "{listed}");

    let said = cluster.ok(&[
        "set",
        "resources",
        "deployment/web",
        "--requests=cpu=100m",
        "--limits=cpu=200m,memory=64Mi",
    ]);
    assert_eq!(said, format!("{deployment} resource requirements updated\n"));
    cluster.ok(&["create", "serviceaccount", "robot"]);
    let said = cluster.ok(&["set", "serviceaccount", "deployment/web", "robot"]);
    assert_eq!(said, format!("{deployment} serviceaccount updated\n"));
    let spec = &cluster.json(&["get", "deploy", "web"])["spec"]["template"]["spec"];
    assert_eq!(spec["serviceAccountName"], "robot");
    assert_eq!(spec["containers"][0]["resources"]["limits"]["memory"], "64Mi");
    assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "100m");
}

#[test]
fn selectors_and_subjects_are_set() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "service", "clusterip", "web", "--tcp=80"]);
    let said = cluster.ok(&["set", "selector", "service/web", "app=other,tier=a"]);
    assert_eq!(said, "service/web selector updated\n");
    let selector = &cluster.json(&["get", "service", "web"])["spec"]["selector"];
    assert_eq!(selector, &serde_json::json!({"app": "other", "tier": "a"}));

    cluster.ok(&["create", "role", "reader", "--verb=get", "--resource=pods"]);
    cluster.ok(&["create", "rolebinding", "reader", "--role=reader", "--user=jane"]);
    let said =
        cluster.ok(&["set", "subject", "rolebinding/reader", "--user=joe", "--group=readers"]);
    assert_eq!(said, "rolebinding.rbac.authorization.k8s.io/reader subjects updated\n");
    for who in [&["--as=joe"][..], &["--as=ann", "--as-group=readers"], &["--as=jane"]] {
        assert_eq!(cluster.ok(&[&["auth", "can-i", "get", "pods"], who].concat()), "yes\n");
    }
}

#[test]
fn what_create_makes_is_whole() {
    let Some(cluster) = Cluster::start(0) else { return };
    let pki = |name: &str| cluster.path("data/pki").join(name).display().to_string();
    let (cert, key) =
        (format!("--cert={}", pki("admin.crt")), format!("--key={}", pki("admin.key")));
    assert_eq!(
        cluster.ok(&["create", "secret", "tls", "cert", &cert, &key]),
        "secret/cert created\n"
    );
    cluster.ok(&[
        "create",
        "secret",
        "docker-registry",
        "pull",
        "--docker-server=registry.example.org",
        "--docker-username=jane",
        "--docker-password=secret",
    ]);
    let table = cluster.ok(&["get", "secrets"]);
    assert!(row(&table, "cert").starts_with("cert kubernetes.io/tls 2"), "{table}");
    assert!(row(&table, "pull").starts_with("pull kubernetes.io/dockerconfigjson 1"), "{table}");

    let rule = "--rule=web.example.org/shop*=web:80,tls=cert";
    let said = cluster.ok(&["create", "ingress", "web", "--class=nginx", rule]);
    assert_eq!(said, "ingress.networking.k8s.io/web created\n");
    let ingress = cluster.json(&["get", "ingress", "web"]);
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    let path = &ingress["spec"]["rules"][0]["http"]["paths"][0];
    assert_eq!((&path["path"], &path["pathType"]), (&"/shop".into(), &"Prefix".into()));
    assert_eq!(ingress["spec"]["tls"][0]["secretName"], "cert");

    let said =
        cluster.ok(&["create", "priorityclass", "high", "--value=1000", "--description=first"]);
    assert_eq!(said, "priorityclass.scheduling.k8s.io/high created\n");
    let table = cluster.ok(&["get", "priorityclass", "high"]);
    assert!(row(&table, "high").starts_with("high 1000 false"), "{table}");

    let port = "--node-port=30123";
    let said = cluster.ok(&["create", "service", "nodeport", "web", "--tcp=80:8080", port]);
    assert_eq!(said, "service/web created\n");
    cluster.ok(&["create", "service", "externalname", "out", "--external-name=example.org"]);
    cluster.ok(&["create", "service", "loadbalancer", "in", "--tcp=443"]);
    let table = cluster.ok(&["get", "services"]);
    assert!(row(&table, "web").contains("80:30123/TCP"), "{table}");
    assert!(row(&table, "out").starts_with("out ExternalName <none> example.org"), "{table}");
    assert!(row(&table, "in").starts_with("in LoadBalancer"), "{table}");
    let refused = cluster.refused(&["create", "service", "nodeport", "b", "--tcp=80", port]);
    assert!(refused.contains("provided port is already allocated"), "{refused}");
}

#[test]
fn what_is_waited_for_comes() {
    let Some(cluster) = Cluster::start(1) else { return };
    let waiting = |arguments: &[&str]| {
        let mut command = cluster.command(&[&["wait", "--timeout=60s"], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let created = waiting(&["--for=create", "deployment/web"]);
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    let ready = waiting(&["--for=jsonpath={.status.readyReplicas}=2", "deployment/web"]);
    for child in [created, ready] {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{why}");
        assert_eq!(said, "deployment.apps/web condition met\n");
    }
    // Whatever it is, if it is there.
    cluster.ok(&["wait", "--for=jsonpath={.spec.selector}", "deployment/web", "--timeout=60s"]);
    let gone = waiting(&["--for=delete", "deployment/web"]);
    cluster.ok(&["delete", "deployment", "web"]);
    assert!(gone.wait_with_output().unwrap().status.success());
    let refused = cluster.refused(&["wait", "--for=condition=Ready", "pod/none", "--timeout=1s"]);
    assert!(refused.contains("pods \"none\" not found"), "{refused}");
}
