//! Plugins that are switched on and off by name.

use std::process::Command;

use crate::cluster::Cluster;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: c, image: i, imagePullPolicy: Never}]\n";

#[test]
fn plugins_run_that_were_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let enabled = "AlwaysPullImages,NamespaceAutoProvision,DenyServiceExternalIPs,PodNodeSelector";
    let flags =
        ["--enable-admission-plugins", enabled, "--disable-admission-plugins", "PodSecurity"];
    let Some(cluster) = Cluster::start_with(directory, 0, &flags) else { return };
    let pod = cluster.file("pod.yaml", POD);
    // The namespace is made, and has what every namespace has.
    cluster.until(&["create", "-n", "new", "-f", &pod], |it| it.contains("created"));
    let made = cluster.json(&["get", "pod", "web", "-n", "new"]);
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always");
    cluster.ok(&[
        "annotate",
        "namespace",
        "new",
        "scheduler.alpha.kubernetes.io/node-selector=disk=fast",
    ]);
    let other = cluster.file("other.yaml", &POD.replace("name: web", "name: other"));
    cluster.ok(&["create", "-n", "new", "-f", &other]);
    let made = cluster.json(&["get", "pod", "other", "-n", "new"]);
    assert_eq!(made["spec"]["nodeSelector"]["disk"], "fast");
    // Labels of a plugin that does not run are labels.
    cluster.ok(&["label", "namespace", "new", "pod-security.kubernetes.io/enforce=strict"]);
    let service = cluster.file(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {externalIPs: [192.0.2.1], ports: [{port: 80}]}\n",
    );
    let refused = cluster.refused(&["create", "-f", &service]);
    assert!(refused.contains("Use of external IPs is denied by admission control"), "{refused}");
}

#[test]
fn a_pod_gets_the_place_of_its_node() {
    let Some(cluster) = Cluster::start(1) else { return };
    let name = cluster.until(&["get", "nodes", "-o", "name"], |it| it.contains("node/"));
    let name = name.trim().to_owned();
    let zone = "topology.kubernetes.io/zone=a";
    cluster.ok(&["label", "--overwrite", &name, zone, "topology.kubernetes.io/region=north"]);
    let pod = cluster.file("pod.yaml", POD);
    cluster.until(&["create", "-f", &pod], |it| it.contains("created"));
    let path = "jsonpath={.metadata.labels.topology\\.kubernetes\\.io/zone} {.spec.nodeName}";
    let words = ["get", "pod", "web", "-o", path];
    let placed = cluster.until(&words, |it| !it.ends_with(' ') && !it.contains("NotFound"));
    assert!(placed.starts_with("a "), "{placed}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let data = path("data");
    let refused = |flags: &[&str]| {
        let own = ["up", "--node", "none", "--data-dir", &data];
        let mut command = Command::new(env!("CARGO_BIN_EXE_xebec"));
        let output = command.args(own).args(flags).output().unwrap();
        assert!(!output.status.success(), "{flags:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let check = |flags: &[&str], expected: &str| {
        let said = refused(flags);
        assert!(said.contains(expected), "{flags:?}: {said}");
    };
    let (enable, disable) = ("--enable-admission-plugins", "--disable-admission-plugins");
    check(&[enable, "Boats"], "enable-admission-plugins plugin \"Boats\" is unknown");
    check(&[disable, "Boats"], "disable-admission-plugins plugin \"Boats\" is unknown");
    check(
        &[enable, "AlwaysDeny", disable, "AlwaysDeny"],
        "[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped",
    );
    check(&[enable, "EventRateLimit"], "EventRateLimit needs a configuration");
    let file = path("admission.yaml");
    let flag = ["--admission-control-config-file", &file];
    check(&flag, "reading ");
    std::fs::write(
        &file,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
         - name: PodSecurity\n  configuration:\n    \
         apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    \
         defaults:\n      enforce: strict\n",
    )
    .unwrap();
    check(&flag, "admission.yaml, line 9, field \"enforce\"");
    check(&flag, "must be one of privileged, baseline, restricted");
    assert!(!directory.path().join("data").exists(), "nothing was made");
}
