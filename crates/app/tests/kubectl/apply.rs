//! apply (both sides), diff, the patches, label, annotate, wait, explain, api-resources.

use crate::cluster::{Cluster, header};

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, labels: { app: web } }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
      - { name: main, image: 'xebec.local/toolbox:1', ports: [{ containerPort: 8080 }] }
";

#[test]
fn client_side_apply_diff_and_prune_fields() {
    let Some(cluster) = Cluster::start(2) else { return };
    let file = cluster.file("web.yaml", DEPLOYMENT);
    assert_eq!(cluster.ok(&["apply", "-f", &file]), "deployment.apps/web created\n");
    assert_eq!(cluster.ok(&["apply", "-f", &file]), "deployment.apps/web unchanged\n");
    let changed = cluster.file(
        "web2.yaml",
        &DEPLOYMENT.replace("toolbox:1", "toolbox:2").replace("replicas: 2", "replicas: 3"),
    );
    let diff = cluster.run(&["diff", "-f", &changed]);
    assert!(
        diff.stdout.contains("-        image: xebec.local/toolbox:1")
            || diff.stdout.contains("toolbox:2"),
        "{}{}",
        diff.stdout,
        diff.stderr
    );
    assert_eq!(cluster.ok(&["apply", "-f", &changed]), "deployment.apps/web configured\n");
    let deployment = cluster.json(&["get", "deploy", "web"]);
    assert_eq!(deployment["spec"]["replicas"], 3);
    // The label is gone from the manifest, so apply removes it; the port stays.
    let without = cluster
        .file("web3.yaml", &DEPLOYMENT.replace(", labels: { app: web } }\nspec", " }\nspec"));
    cluster.ok(&["apply", "-f", &without]);
    let deployment = cluster.json(&["get", "deploy", "web"]);
    assert!(deployment["metadata"]["labels"].is_null(), "{deployment}");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"],
        8080
    );
}

#[test]
fn server_side_apply_tracks_owners_and_reports_conflicts() {
    let Some(cluster) = Cluster::start(1) else { return };
    let file = cluster.file("web.yaml", DEPLOYMENT);
    assert_eq!(
        cluster.ok(&["apply", "--server-side", "-f", &file]),
        "deployment.apps/web serverside-applied\n"
    );
    cluster.ok(&["apply", "--server-side", "-f", &file]);
    let managed = cluster.json(&["get", "deploy", "web", "--show-managed-fields"]);
    let managers = managed["metadata"]["managedFields"].to_string();
    assert!(
        managers.contains(r#""manager":"kubectl""#) && managers.contains(r#""operation":"Apply""#),
        "{managers}"
    );
    let other = cluster.file("web2.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 4"));
    let refused =
        cluster.refused(&["apply", "--server-side", "--field-manager=other", "-f", &other]);
    assert!(refused.contains("conflict") && refused.contains(".spec.replicas"), "{refused}");
    cluster.ok(&[
        "apply",
        "--server-side",
        "--field-manager=other",
        "--force-conflicts",
        "-f",
        &other,
    ]);
    assert_eq!(cluster.json(&["get", "deploy", "web"])["spec"]["replicas"], 4);
    let diff = cluster.run(&["diff", "--server-side", "--force-conflicts", "-f", &file]);
    assert!(diff.stdout.contains("replicas: 2"), "{}{}", diff.stdout, diff.stderr);
}

/// `protocol` is part of what tells ports apart and has a default: leaving it out names the same
/// port again.
#[test]
fn server_side_apply_again_knows_ports_without_protocol() {
    let Some(cluster) = Cluster::start(0) else { return };
    let service = "\n---\napiVersion: v1\nkind: Service\nmetadata: { name: web }\n\
                   spec: { selector: { app: web }, ports: [{ port: 80 }] }\n";
    let file = cluster.file("web.yaml", &format!("{DEPLOYMENT}{service}"));
    for _ in 0..3 {
        cluster.ok(&["apply", "--server-side", "-f", &file]);
    }
    let containers = "jsonpath={.spec.template.spec.containers[0].ports}";
    let of_deployment = || cluster.ok(&["get", "deploy", "web", "-o", containers]);
    let of_service =
        || cluster.ok(&["get", "service", "web", "-o", "jsonpath={.spec.ports[*].port}"]);
    assert_eq!(of_deployment(), r#"[{"containerPort":8080,"protocol":"TCP"}]"#);
    assert_eq!(of_service(), "80");
    // Another manager says the protocol: it is the same port, and both own it.
    let full = cluster.file(
        "full.yaml",
        &format!("{DEPLOYMENT}{service}")
            .replace("containerPort: 8080", "containerPort: 8080, protocol: TCP")
            .replace("port: 80 }", "port: 80, protocol: TCP }"),
    );
    cluster.ok(&["apply", "--server-side", "--field-manager=other", "-f", &full]);
    let without =
        cluster.file("without.yaml", &DEPLOYMENT.replace(", ports: [{ containerPort: 8080 }]", ""));
    cluster.ok(&["apply", "--server-side", "-f", &without]);
    assert_eq!(of_deployment(), r#"[{"containerPort":8080,"protocol":"TCP"}]"#);
    cluster.ok(&["apply", "--server-side", "--field-manager=other", "-f", &without]);
    assert_eq!(of_deployment(), "", "nobody owns the port any more");
    assert_eq!(of_service(), "80");
}

/// kubectl hands the fields of client-side apply over by a JSON patch of `metadata.managedFields`.
#[test]
fn going_from_client_side_to_server_side_apply_drops_old_fields() {
    let Some(cluster) = Cluster::start(0) else { return };
    let map = |data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: one }}\ndata: {{ {data} }}\n")
    };
    let both = cluster.file("both.yaml", &map("a: x, b: x"));
    let one = cluster.file("one.yaml", &map("a: z"));
    cluster.ok(&["apply", "-f", &both]);
    let data = || cluster.ok(&["get", "configmap", "one", "-o", "jsonpath={.data}"]);
    let applied = cluster.run(&["apply", "--server-side", "-f", &one]);
    assert!(applied.is_ok && !applied.stderr.contains("migrat"), "{}", applied.stderr);
    assert_eq!(data(), r#"{"a":"z"}"#);
    let managers = ["get", "configmap", "one", "--show-managed-fields", "-o"];
    let names = "jsonpath={.metadata.managedFields[*].manager}";
    let managers = cluster.ok(&[&managers[..], &[names]].concat());
    assert!(!managers.contains("client-side"), "{managers}");
    // And back: client-side apply finds what was applied last.
    cluster.ok(&["apply", "-f", &both]);
    assert_eq!(data(), r#"{"a":"x","b":"x"}"#);
}

#[test]
fn ownership_that_is_written_counts() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "configmap", "one", "--from-literal=a=x"]);
    let managers = || {
        let shown = ["get", "configmap", "one", "--show-managed-fields", "-o"];
        let names = "jsonpath={.metadata.managedFields[*].manager}";
        cluster.ok(&[&shown[..], &[names]].concat())
    };
    let patch = |form: &str, patch: &str| {
        cluster.run(&["patch", "configmap", "one", "--type", form, "-p", patch])
    };
    assert_eq!(managers(), "kubectl-create");
    let entry = |manager: &str| {
        format!(
            r#"[{{"manager":"{manager}","operation":"Update","apiVersion":"v1",
                "fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:a":{{}}}}}}}}]"#
        )
    };
    let path = "/metadata/managedFields";
    let json = |value: &str| format!(r#"[{{"op":"replace","path":"{path}","value":{value}}}]"#);
    let merge = |value: &str| format!(r#"{{"metadata":{{"managedFields":{value}}}}}"#);
    assert!(patch("json", &json(&entry("one"))).is_ok);
    assert_eq!(managers(), "one");
    assert!(patch("merge", &merge(&entry("two"))).is_ok);
    assert_eq!(managers(), "two");
    let refused = patch("merge", &merge(&entry(&"x".repeat(129))));
    assert!(refused.stderr.contains("metadata.managedFields[0].manager: Too long"));
    assert!(patch("merge", &merge(r#"[{"manager":"three"}]"#)).is_ok);
    assert_eq!(managers(), "two", "what cannot be read is as if it was not said");
    assert!(patch("json", &json("[{}]")).is_ok);
    assert_eq!(managers(), "");
}

#[test]
fn every_type_of_patch() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["apply", "-f", &cluster.file("web.yaml", DEPLOYMENT)]);
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"xebec.local/toolbox:1"}]}}}}"#;
    cluster.ok(&["patch", "deploy", "web", "-p", strategic]);
    let containers = |path: &str| cluster.ok(&["get", "deploy", "web", "-o", path]);
    assert_eq!(containers("jsonpath={.spec.template.spec.containers[*].name}"), "side main");
    cluster.ok(&["patch", "deploy", "web", "--type=merge", "-p", r#"{"spec":{"replicas":1}}"#]);
    let json = r#"[{"op":"replace","path":"/spec/replicas","value":2},{"op":"test","path":"/spec/replicas","value":2}]"#;
    cluster.ok(&["patch", "deploy", "web", "--type=json", "-p", json]);
    assert_eq!(containers("jsonpath={.spec.replicas}"), "2");
    let bad = cluster.refused(&[
        "patch",
        "deploy",
        "web",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":-1}}"#,
    ]);
    assert!(bad.contains(r#"The Deployment "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#), "{bad}");
    let bad = cluster.refused(&[
        "patch",
        "deploy",
        "web",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":"many"}}"#,
    ]);
    assert!(bad.contains("spec.replicas"), "{bad}");
}

#[test]
fn label_annotate_wait_explain_and_api_resources() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["run", "one", "--image=xebec.local/toolbox", "--labels=a=b"]);
    cluster.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=30s"]);
    cluster.ok(&["label", "pod", "one", "tier=front"]);
    assert!(cluster.refused(&["label", "pod", "one", "tier=back"]).contains("already has a value"));
    cluster.ok(&["annotate", "pod", "one", "note=hello"]);
    assert_eq!(cluster.json(&["get", "pod", "one"])["metadata"]["annotations"]["note"], "hello");
    assert!(
        cluster
            .ok(&["get", "pods", "-l", "tier in (front),a!=c", "-o", "name"])
            .contains("pod/one")
    );
    let protocol = cluster.ok(&["explain", "pod.spec.containers.ports.protocol"]);
    assert!(protocol.contains("ENUM:") && protocol.contains("SCTP"), "{protocol}");
    let explained = cluster.ok(&["explain", "deployment.spec.strategy"]);
    for line in [
        "GROUP:      apps",
        "KIND:       Deployment",
        "rollingUpdate\t<RollingUpdateDeployment>",
        "type\t<string>",
    ] {
        assert!(explained.contains(line), "{explained}");
    }
    let resources = cluster.ok(&["api-resources"]);
    assert_eq!(header(&resources), "NAME SHORTNAMES APIVERSION NAMESPACED KIND");
    for name in
        ["deployments", "endpointslices", "customresourcedefinitions", "selfsubjectaccessreviews"]
    {
        assert!(resources.contains(name), "no {name} in\n{resources}");
    }
    assert!(cluster.ok(&["version"]).contains("Server Version: v1.36"));
    let typo = cluster.file(
        "typo.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndta: { a: b }\n",
    );
    assert!(cluster.refused(&["create", "-f", &typo]).contains(r#"unknown field "dta""#));
}

/// kubectl checks a List itself, by the protobuf of OpenAPI v2: no path takes a List, so no server
/// can.
#[test]
fn lists_are_checked_and_created() {
    let Some(cluster) = Cluster::start(1) else { return };
    let list = |typo: &str| {
        let map = |name: &str, key: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"{key}":{{"a":"b"}}}}"#
            )
        };
        let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
            "spec":{"replicas":0,"selector":{"matchLabels":{"app":"web"}},"template":{
              "metadata":{"labels":{"app":"web"}},
              "spec":{"containers":[{"name":"main","image":"xebec.local/toolbox:1",
                "ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},
                "livenessProbe":{"httpGet":{"path":"/","port":80}}}]}}}}"#;
        let items = [map("one", "data"), deployment.to_owned(), map("two", typo)].join(",");
        format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#)
    };
    let typo = cluster.file("typo.json", &list("dta"));
    let refused = cluster.refused(&["create", "-f", &typo]);
    assert!(
        refused.contains("error validating data") && refused.contains(r#"unknown field "dta""#),
        "{refused}"
    );
    assert_eq!(cluster.ok(&["get", "deploy", "-o", "name"]), "", "nothing of it was sent");
    let right = cluster.file("right.json", &list("data"));
    assert_eq!(
        cluster.ok(&["create", "-f", &right]),
        "configmap/one created\ndeployment.apps/web created\nconfigmap/two created\n"
    );
    let applied = cluster.ok(&["apply", "-f", &right]);
    assert!(applied.contains("configmap/two configured"), "{applied}");
    assert!(cluster.ok(&["apply", "-f", &right]).contains("deployment.apps/web unchanged"));
}
