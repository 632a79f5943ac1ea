//! Deployments from create to undo, Services, the three cascades, and a namespace with content.

use crate::cluster::{Cluster, header, row};

#[test]
fn a_deployment_rolls_out_scales_and_rolls_back() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=3"]);
    let status = cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert!(status.contains("successfully rolled out"), "{status}");

    let table = cluster.ok(&["get", "deploy", "web", "-o", "wide"]);
    assert_eq!(header(&table), "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR");
    assert!(row(&table, "web").starts_with("web 3/3 3 3"), "{table}");
    let table = cluster.ok(&["get", "rs", "-o", "wide"]);
    assert_eq!(header(&table), "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR");
    let table = cluster.ok(&["get", "pods", "-o", "wide"]);
    assert_eq!(
        header(&table),
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    );
    assert_eq!(table.matches("1/1     Running").count(), 3, "{table}");
    let all = cluster.ok(&["get", "deploy,rs,pods", "-o", "wide"]);
    assert!(
        all.contains("deployment.apps/web")
            && all.contains("replicaset.apps/web-")
            && all.contains("pod/web-"),
        "{all}"
    );

    cluster.ok(&[
        "expose",
        "deployment",
        "web",
        "--port=80",
        "--target-port=8080",
        "--type=NodePort",
    ]);
    let service = cluster.json(&["get", "svc", "web"]);
    let node_port = service["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&node_port), "{service}");
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."), "{service}");
    let slices = cluster
        .until(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web"], |it| {
            it.matches("10.244.").count() == 3
        });
    assert_eq!(header(&slices), "NAME ADDRESSTYPE PORTS ENDPOINTS AGE");
    assert!(slices.contains("8080"), "{slices}");
    cluster.until(&["get", "endpoints", "web"], |it| it.matches(":8080").count() == 3);

    cluster.ok(&["scale", "deployment/web", "--replicas=5"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert_eq!(cluster.json(&["get", "deploy", "web"])["status"]["readyReplicas"], 5);

    cluster.ok(&["set", "image", "deployment/web", "toolbox=xebec.local/toolbox:2"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let history = cluster.ok(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    cluster.ok(&["rollout", "undo", "deployment/web"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let deployment = cluster.json(&["get", "deploy", "web"]);
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "xebec.local/toolbox"
    );
    let history = cluster.ok(&["rollout", "history", "deployment/web"]);
    assert!(
        history.contains("\n2 ") && history.contains("\n3 ") && !history.contains("\n1 "),
        "{history}"
    );
}

#[test]
fn a_recreate_deployment_pauses_and_resumes() {
    let Some(cluster) = Cluster::start(2) else { return };
    cluster.ok(&["create", "deployment", "db", "--image=xebec.local/toolbox", "--replicas=2"]);
    let patch = r#"{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}"#;
    cluster.ok(&["patch", "deployment", "db", "--type=merge", "-p", patch]);
    cluster.ok(&["rollout", "status", "deployment/db", "--timeout=60s"]);
    cluster.ok(&["rollout", "pause", "deployment/db"]);
    cluster.ok(&["set", "image", "deployment/db", "toolbox=xebec.local/toolbox:2"]);
    cluster.until(&["get", "deployment", "db", "-o", "jsonpath={.status.conditions}"], |it| {
        it.contains("DeploymentPaused")
    });
    assert_eq!(cluster.json(&["get", "rs"])["items"].as_array().unwrap().len(), 1);
    cluster.ok(&["rollout", "resume", "deployment/db"]);
    cluster.ok(&["rollout", "status", "deployment/db", "--timeout=60s"]);
    cluster.until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |it| {
        it == "xebec.local/toolbox:2 xebec.local/toolbox:2"
    });
}

#[test]
fn each_cascade_does_what_it_says() {
    let Some(cluster) = Cluster::start(2) else { return };
    for name in ["back", "fore", "orphan"] {
        cluster.ok(&["create", "deployment", name, "--image=xebec.local/toolbox", "--replicas=2"]);
        cluster.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]);
    }
    cluster.ok(&["delete", "deployment", "back", "--cascade=background"]);
    cluster.until(&["get", "rs,pods", "-l", "app=back"], |it| it.contains("No resources found"));
    cluster.ok(&["delete", "deployment", "fore", "--cascade=foreground", "--timeout=60s"]);
    let left = cluster.run(&["get", "rs,pods", "-l", "app=fore"]);
    assert!(
        left.stderr.contains("No resources found"),
        "foreground waits for dependents: {}",
        left.stdout
    );
    cluster.ok(&["delete", "deployment", "orphan", "--cascade=orphan", "--timeout=60s"]);
    let sets = cluster.json(&["get", "rs", "-l", "app=orphan"]);
    assert!(sets["items"][0]["metadata"]["ownerReferences"].is_null(), "{sets}");
    assert_eq!(
        cluster.json(&["get", "pods", "-l", "app=orphan"])["items"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_namespace_with_content_deletes_fully() {
    let Some(cluster) = Cluster::start(2) else { return };
    cluster.ok(&["create", "namespace", "team"]);
    cluster.ok(&[
        "-n",
        "team",
        "create",
        "deployment",
        "web",
        "--image=xebec.local/toolbox",
        "--replicas=3",
    ]);
    cluster.ok(&["-n", "team", "create", "configmap", "settings", "--from-literal=a=b"]);
    cluster.ok(&["-n", "team", "create", "secret", "generic", "keys", "--from-literal=a=b"]);
    cluster.ok(&["-n", "team", "expose", "deployment", "web", "--port=80"]);
    cluster.ok(&["-n", "team", "rollout", "status", "deployment/web", "--timeout=60s"]);
    cluster.ok(&["delete", "namespace", "team", "--timeout=60s"]);
    assert!(
        cluster.refused(&["get", "namespace", "team"]).contains(r#"namespaces "team" not found"#)
    );
    assert!(cluster.run(&["get", "all,cm,secrets", "-n", "team"]).stdout.is_empty());
    let refused = cluster.refused(&["delete", "namespace", "default"]);
    assert!(refused.contains("this namespace may not be deleted"), "{refused}");
}
