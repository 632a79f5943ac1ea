//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::PodTemplate;
use crate::kind::Resource;
use crate::testing::{check, check_created, check_row, created, defaulted};

fn pod_template(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": spec,
    }})
}

fn web() -> Value {
    json!({"containers": [{"name": "web", "image": "nginx"}]})
}

#[test]
fn a_template_has_the_defaults_of_a_pod() {
    let check = |pointer, expected| {
        check_created::<PodTemplate>(pod_template(web()), pointer, expected);
    };
    check("/template/spec/restartPolicy", json!("Always"));
    check("/template/spec/containers/0/imagePullPolicy", json!("Always"));
    check_created::<PodTemplate>(json!({}), "/template/metadata", json!({}));
}

#[test]
fn any_pod_may_be_a_template_but_one_that_is_being_debugged() {
    check::<PodTemplate>(pod_template(web()), &[]);
    let mut spec = web();
    spec["restartPolicy"] = json!("Never");
    spec["activeDeadlineSeconds"] = json!(5);
    check::<PodTemplate>(pod_template(spec.clone()), &[]);
    spec["ephemeralContainers"] = json!([{"name": "debug", "image": "busybox",
        "terminationMessagePolicy": "File"}]);
    check::<PodTemplate>(
        pod_template(spec),
        &[
            "template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
        ],
    );
}

#[test]
fn labels_and_annotations_have_their_forms() {
    let mut manifest = pod_template(web());
    manifest["template"]["metadata"] = json!({
        "labels": {"app": "-"},
        "annotations": {
            "controller.kubernetes.io/pod-deletion-cost": "+1",
            "seccomp.security.alpha.kubernetes.io/pod": "strict",
            "container.apparmor.security.beta.kubernetes.io/other": "mine",
            "kubernetes.io/config.mirror": "a",
            "scheduler.alpha.kubernetes.io/tolerations": "[{\"operator\": \"Exists\", \"value\": \"a\"}]",
        },
    });
    let label = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    check::<PodTemplate>(
        manifest,
        &[
            &format!("template.labels: Invalid value: \"-\": {label}"),
            "template.annotations[kubernetes.io/config.mirror]: Invalid value: \"a\": must set spec.nodeName if mirror pod annotation is set",
            "template.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Invalid value: \"a\": value must be empty when `operator` is 'Exists'",
            "template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer",
            "template.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"strict\": must be a valid seccomp profile",
            "template.annotations[container.apparmor.security.beta.kubernetes.io/other]: Invalid value: \"other\": container not found",
            "template.annotations[container.apparmor.security.beta.kubernetes.io/other]: Invalid value: \"mine\": invalid AppArmor profile name: \"mine\"",
        ],
    );
}

#[test]
fn fields_and_annotations_name_the_same_profile() {
    let mut manifest = pod_template(web());
    manifest["template"]["metadata"]["annotations"] = json!({
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/web": "localhost/a.json",
        "container.apparmor.security.beta.kubernetes.io/web": "runtime/default",
    });
    let same = json!({
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "RuntimeDefault"},
    });
    manifest["template"]["spec"]["securityContext"] = same;
    check::<PodTemplate>(manifest.clone(), &[]);
    manifest["template"]["spec"]["containers"][0]["securityContext"] = json!({
        "seccompProfile": {"type": "Localhost", "localhostProfile": "b.json"},
        "appArmorProfile": {"type": "Unconfined"},
    });
    manifest["template"]["spec"]["securityContext"] = json!({
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    check::<PodTemplate>(
        manifest,
        &[
            "template.spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
            "template.spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match",
            "template.spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match",
        ],
    );
}

#[test]
fn the_template_makes_the_generation() {
    let stored = created::<PodTemplate>(pod_template(web()));
    let mut manifest = pod_template(web());
    manifest["metadata"]["labels"] = json!({"a": "b"});
    assert!(!defaulted::<PodTemplate>(manifest.clone()).is_new_generation(&stored));
    manifest["template"]["metadata"]["labels"] = json!({"a": "b"});
    assert!(defaulted::<PodTemplate>(manifest).is_new_generation(&stored));
}

#[test]
fn the_row_shows_what_pods_would_be() {
    check_row::<PodTemplate>(
        pod_template(web()),
        "2026-01-01T00:00:00Z",
        json!(["web", "web", "nginx", "app=web"]),
    );
}
