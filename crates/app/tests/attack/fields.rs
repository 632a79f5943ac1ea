//! What a pod asks for and does not get, it does not run without: by the API server as upstream, or
//! by the node with the field's path.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::shell::{self, pod};

#[test]
fn what_is_not_done_is_refused() {
    let Some(cluster) = shell::cluster() else { return };
    refused_by_the_server(&cluster);
    refused_by_the_node(&cluster);
}

fn refused_by_the_server(cluster: &Cluster) {
    let own = |context: Value| pod("bad", &json!({}), &json!({ "securityContext": context }));
    let volume = |propagation: &str| {
        pod(
            "bad",
            &json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
            &json!({ "volumeMounts": [
                { "name": "v", "mountPath": "/v", "mountPropagation": propagation }] }),
        )
    };
    for (manifest, expected) in [
        (
            own(json!({ "procMount": "Unmasked" })),
            "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
        ),
        (
            volume("Bidirectional"),
            "mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
        ),
        (
            pod("bad", &json!({ "hostPID": true, "shareProcessNamespace": true }), &json!({})),
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ),
        (
            pod("bad", &json!({ "hostUsers": false, "hostNetwork": true }), &json!({})),
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
        ),
        (
            pod("bad", &json!({ "runtimeClassName": "gone" }), &json!({})),
            "pod rejected: RuntimeClass \"gone\" not found",
        ),
        (
            own(json!({ "appArmorProfile": { "type": "Fancy" } })),
            "appArmorProfile.type: Unsupported value",
        ),
    ] {
        let refused = cluster.refused_json(&manifest);
        assert!(refused.contains(expected), "{refused}");
    }
}

fn refused_by_the_node(cluster: &Cluster) {
    let unsupported = |what: &str| {
        format!(
            "PodFeatureUnsupported: Pod was rejected: Pod uses fields that this node does not support: {what}"
        )
    };
    for (name, spec, container, expected) in [
        ("users", json!({ "hostUsers": false }), json!({}), unsupported("spec.hostUsers: false")),
        (
            "unmasked",
            json!({ "hostUsers": false }),
            json!({ "securityContext": { "procMount": "Unmasked" } }),
            unsupported(
                "spec.containers[0].securityContext.procMount: Unmasked, spec.hostUsers: false",
            ),
        ),
        (
            "windows",
            json!({ "securityContext": { "windowsOptions": { "runAsUserName": "x" } } }),
            json!({}),
            unsupported("spec.securityContext.windowsOptions"),
        ),
    ] {
        cluster.apply_json(&pod(name, &spec, &container));
        assert_eq!(cluster.rejected(name), expected);
    }
    let profile = json!({ "appArmorProfile": { "type": "RuntimeDefault" } });
    cluster.apply_json(&pod("armor", &json!({}), &json!({ "securityContext": profile })));
    let rejected = cluster.rejected("armor");
    assert!(
        rejected.starts_with("AppArmor: Pod was rejected: Cannot enforce AppArmor: "),
        "{rejected}"
    );
}

#[test]
fn groups_of_the_image_can_be_left_out() {
    let Some(cluster) = shell::cluster() else { return };
    let root = shell::root(&cluster, "groups").unwrap();
    std::fs::write(root.join("etc/passwd"), "app:x:1000:1000:::/bin/sh\n").unwrap();
    std::fs::write(root.join("etc/group"), "app:x:1000:\ndisk:x:6:app\n").unwrap();
    shell::load(&cluster, "local/groups:1", &root, &json!({"Env": ["PATH=/bin"]}));
    for (name, policy, expected) in
        [("merge", "Merge", "1000 6 77\n"), ("strict", "Strict", "1000 77\n")]
    {
        let context = json!({ "runAsUser": 1000, "supplementalGroups": [77], "supplementalGroupsPolicy": policy });
        let spec = json!({ "securityContext": context });
        cluster.apply_json(&pod(name, &spec, &json!({ "image": "local/groups:1" })));
        cluster.wait_ready(&format!("app={name}"), 1);
        assert_eq!(cluster.sh(name, "id -G"), expected);
    }
}
