//! The Pod Security Standards, as upstream's tutorials go through them.

use crate::cluster::Cluster;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec:\n  containers: [{name: nginx, image: nginx}]\n";

const CAREFUL: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: careful}\nspec:\n  \
    securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n  \
    containers:\n  - name: nginx\n    image: nginx\n    \
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n";

const RESTRICTED: &str = "allowPrivilegeEscalation != false (container \"nginx\" must set securityContext.allowPrivilegeEscalation=false), \
    unrestricted capabilities (container \"nginx\" must set securityContext.capabilities.drop=[\"ALL\"]), \
    runAsNonRoot != true (pod or container \"nginx\" must set securityContext.runAsNonRoot=true), \
    seccompProfile (pod or container \"nginx\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

fn label(cluster: &Cluster, labels: &[&str]) -> String {
    let words = ["label", "--overwrite", "namespace", "example"];
    let labels: Vec<String> =
        labels.iter().map(|it| format!("pod-security.kubernetes.io/{it}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let ran = cluster.run(&[&words[..], &labels].concat());
    assert!(ran.is_ok, "{}", ran.stderr);
    ran.stderr
}

#[test]
fn a_namespace_asks_for_a_standard() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "example"]);
    label(&cluster, &["warn=baseline", "warn-version=latest"]);
    let plain = cluster.file("plain.yaml", &POD.replace("NAME", "nginx"));
    let create = |path: &str| cluster.run(&["create", "-n", "example", "-f", path]);
    let made = create(&plain);
    assert!(made.is_ok && made.stderr.is_empty(), "{}", made.stderr);
    let host = cluster.file(
        "host.yaml",
        &POD.replace("NAME", "host").replace("spec:\n", "spec:\n  hostNetwork: true\n"),
    );
    let made = create(&host);
    assert!(made.is_ok, "{}", made.stderr);
    let warned = "Warning: would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert!(made.stderr.contains(warned), "{}", made.stderr);

    let told = label(&cluster, &["enforce=restricted", "enforce-version=v1.36", "warn-"]);
    assert!(
        told.contains("Warning: existing pods in namespace \"example\" violate the new PodSecurity enforce level \"restricted:v1.36\""),
        "{told}"
    );
    assert!(told.contains("Warning: nginx: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"), "{told}");
    assert!(
        told.contains("Warning: host: host namespaces, allowPrivilegeEscalation != false"),
        "{told}"
    );

    let again = cluster.file("again.yaml", &POD.replace("NAME", "again"));
    let refused = cluster.refused(&["create", "-n", "example", "-f", &again]);
    let expected = format!(
        "Error from server (Forbidden): error when creating \"{again}\": pods \"again\" is forbidden: violates PodSecurity \"restricted:v1.36\": {RESTRICTED}"
    );
    assert_eq!(refused.trim(), expected);
    let careful = cluster.file("careful.yaml", CAREFUL);
    let made = create(&careful);
    assert!(made.is_ok && made.stderr.is_empty(), "{}", made.stderr);
    // What is there stays, and can be labeled; it gets no other image.
    cluster.ok(&["label", "pod", "nginx", "-n", "example", "a=b"]);
    let refused = cluster.refused(&["set", "image", "pod/nginx", "nginx=other", "-n", "example"]);
    assert!(refused.contains("violates PodSecurity \"restricted:v1.36\""), "{refused}");
    // Other namespaces have not asked.
    cluster.ok(&["create", "-f", &again]);
}

#[test]
fn what_makes_pods_is_warned_of_and_its_pods_are_refused() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "example"]);
    label(&cluster, &["enforce=restricted"]);
    let made = cluster.run(&["create", "deployment", "web", "--image=nginx", "-n", "example"]);
    assert!(made.is_ok, "{}", made.stderr);
    let warned = format!("Warning: would violate PodSecurity \"restricted:latest\": {RESTRICTED}");
    assert!(made.stderr.contains(&warned), "{}", made.stderr);
    let events =
        cluster.until(&["get", "events", "-n", "example"], |it| it.contains("FailedCreate"));
    assert!(events.contains("violates PodSecurity \"restricted:latest\""), "{events}");
    let page = cluster.ok(&["get", "--raw", "/metrics"]);
    let counted = r#"pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="restricted",policy_version="latest",request_operation="create",resource="pod",subresource=""}"#;
    assert!(page.contains(counted), "{page}");
}

#[test]
fn labels_that_say_nothing_are_refused() {
    let Some(cluster) = Cluster::start(0) else { return };
    let label = "pod-security.kubernetes.io/enforce=strict";
    let refused = cluster.refused(&["label", "namespace", "default", label]);
    let expected = "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted";
    assert!(refused.contains(expected), "{refused}");
}

/// As upstream's "enforce at the cluster level".
#[test]
fn a_file_says_what_holds_everywhere_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("admission.yaml");
    std::fs::write(
        &file,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
         - name: PodSecurity\n  configuration:\n    \
         apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    \
         defaults: {enforce: baseline, audit: restricted, warn: restricted}\n    \
         exemptions: {namespaces: [kube-system]}\n",
    )
    .unwrap();
    let file = file.display().to_string();
    let flags = ["--admission-control-config-file", &file];
    let Some(cluster) = Cluster::start_with(directory, 0, &flags) else { return };
    let host = cluster.file(
        "host.yaml",
        &POD.replace("NAME", "host").replace("spec:\n", "spec:\n  hostPID: true\n"),
    );
    let refused = cluster.refused(&["create", "-f", &host]);
    assert!(
        refused
            .contains("violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"),
        "{refused}"
    );
    cluster.ok(&["create", "-n", "kube-system", "-f", &host]);
    let plain = cluster.file("plain.yaml", &POD.replace("NAME", "nginx"));
    let made = cluster.run(&["create", "-f", &plain]);
    assert!(
        made.is_ok && made.stderr.contains("would violate PodSecurity \"restricted:latest\""),
        "{}",
        made.stderr
    );
}
