//! Volumes and environment: what a pod is given to read, and how it changes.

use crate::cluster::{Cluster, pod};

/// A pod that reads all it can.
const READER: &str = r#"    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: password, key: word}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: BOTH, value: "$(COLOR)-$(POD)"}
    - {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    resources: {limits: {memory: 64Mi}}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: password, mountPath: /password, readOnly: true}
    - {name: about, mountPath: /about}
    - {name: all, mountPath: /all}
    - {name: scratch, mountPath: /scratch}
    - {name: settings, mountPath: /one/color, subPath: color}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password, defaultMode: 256}}
  - name: about
    downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
  - name: all
    projected:
      sources:
      - {configMap: {name: settings, items: [{key: size, path: deep/size}]}}
      - {serviceAccountToken: {path: token, expirationSeconds: 3600}}
  - {name: scratch, emptyDir: {}}"#;

#[test]
fn pods_see_their_configuration_and_its_changes() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.ok(&[
        "create",
        "configmap",
        "settings",
        "--from-literal=color=blue",
        "--from-literal=size=7",
    ]);
    cluster.ok(&["create", "secret", "generic", "password", "--from-literal=word=sesame"]);
    cluster.apply("reader.yaml", &pod("reader", "[sleep]", READER));
    cluster.wait_ready("app=reader", 1);
    let env = cluster.exec("reader", &["env"]);
    let address = cluster.field(&["pod", "reader"], ".status.podIP");
    for line in [
        "COLOR=blue",
        "WORD=sesame",
        "POD=reader",
        "NODE=node-a",
        "BOTH=blue-reader",
        "LIMIT=67108864",
        &format!("ADDRESS={address}"),
    ] {
        assert!(env.lines().any(|it| it == line), "{line} in\n{env}");
    }
    let read = |path: &str| cluster.exec("reader", &["cat", path]);
    assert_eq!(read("/settings/color"), "blue");
    assert_eq!(read("/one/color"), "blue");
    assert_eq!(read("/password/word"), "sesame");
    assert_eq!(read("/all/deep/size"), "7");
    assert_eq!(read("/all/token").split('.').count(), 3);
    assert_eq!(read("/about/labels"), "app=\"reader\"");
    assert!(read("/etc/hosts").contains(&address));
    assert!(
        read("/etc/resolv.conf")
            .contains("search default.svc.cluster.local svc.cluster.local cluster.local")
    );
    cluster.exec("reader", &["touch", "/scratch/file"]);
    cluster.refused(&["exec", "reader", "--", "touch", "/password/file"]);
    let mounts = read("/proc/mounts");
    assert!(mounts.lines().any(|it| it.contains(" /password tmpfs ")), "{mounts}");

    // Changes arrive, all files at once, without a restart.
    cluster.ok(&["patch", "configmap", "settings", "-p", r#"{"data":{"color":"green"}}"#]);
    cluster.until(&["exec", "reader", "--", "cat", "/settings/color"], |it| it == "green");
    cluster.ok(&["label", "pod", "reader", "tier=back"]);
    cluster.until(&["exec", "reader", "--", "cat", "/about/labels"], |it| {
        it.contains("tier=\"back\"")
    });
    assert_eq!(cluster.field(&["pod", "reader"], ".status.containerStatuses[0].restartCount"), "0");
}

#[test]
fn a_missing_configuration_is_named_and_waited_for() {
    let Some(cluster) = Cluster::start() else { return };
    let spec = "    volumeMounts: [{name: settings, mountPath: /settings}]\n  volumes: [{name: settings, configMap: {name: later}}]";
    cluster.apply("waiter.yaml", &pod("waiter", "[sleep]", spec));
    cluster.until(&["get", "events"], |it| {
        it.contains(
            r#"MountVolume.SetUp failed for volume "settings" : configmap "later" not found"#,
        )
    });
    cluster.ok(&["create", "configmap", "later", "--from-literal=a=b"]);
    cluster.wait_ready("app=waiter", 1);
}

#[test]
fn init_containers_run_in_order_and_share_volumes() {
    let Some(cluster) = Cluster::start() else { return };
    let spec = r#"    volumeMounts: [{name: shared, mountPath: /shared}]
  initContainers:
  - {name: first, image: xebec.local/toolbox, args: [touch, /shared/first], volumeMounts: [{name: shared, mountPath: /shared}]}
  - {name: second, image: xebec.local/toolbox, args: [cat, /shared/first], volumeMounts: [{name: shared, mountPath: /shared}]}
  volumes: [{name: shared, emptyDir: {}}]"#;
    cluster.apply("ordered.yaml", &pod("ordered", "[sleep]", spec));
    cluster.wait_ready("app=ordered", 1);
    let reasons = "jsonpath={.status.initContainerStatuses[*].state.terminated.reason}";
    assert_eq!(cluster.ok(&["get", "pod", "ordered", "-o", reasons]), "Completed Completed");
    assert_eq!(cluster.exec("ordered", &["ls", "/shared"]).trim(), "first");
}
