//! Every field of a pod spec beside its volumes, whose types are looked at one by one, is one that
//! refers to an object of the API, or is known to refer to none. A field that is new is neither, and
//! fails here until somebody has thought about it: a node gets what its mirror pods refer to.

use std::collections::{BTreeMap, BTreeSet};

use api::Resource as _;
use api::core::Pod;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use crate::plugins::fixture::{decode, pod};
use crate::plugins::node_restriction::pods::refers_to;
use crate::plugins::pod_fields::{self, with};

/// No object of the API is named by it.
const NOTHING: &str = "";
/// An object is named, and by then somebody else has read it: what is left is a name.
const READ_BEFORE: &str = "";

const OF_CONTAINERS: &[(&str, &str)] = &[
    ("args", NOTHING),
    ("command", NOTHING),
    ("env.[].name", NOTHING),
    ("env.[].value", NOTHING),
    ("env.[].valueFrom.configMapKeyRef", "configmaps"),
    ("env.[].valueFrom.fieldRef", NOTHING),
    ("env.[].valueFrom.fileKeyRef", NOTHING),
    ("env.[].valueFrom.resourceFieldRef", NOTHING),
    ("env.[].valueFrom.secretKeyRef", "secrets"),
    ("envFrom.[].configMapRef", "configmaps"),
    ("envFrom.[].prefix", NOTHING),
    ("envFrom.[].secretRef", "secrets"),
    ("image", NOTHING),
    ("imagePullPolicy", NOTHING),
    ("lifecycle", NOTHING),
    ("livenessProbe", NOTHING),
    ("name", NOTHING),
    ("ports", NOTHING),
    ("readinessProbe", NOTHING),
    ("resizePolicy", NOTHING),
    // Of `claims` the names are those of `resourceClaims`.
    ("resources", NOTHING),
    ("restartPolicy", NOTHING),
    ("restartPolicyRules", NOTHING),
    ("securityContext", NOTHING),
    ("startupProbe", NOTHING),
    ("stdin", NOTHING),
    ("stdinOnce", NOTHING),
    ("targetContainerName", NOTHING),
    ("terminationMessagePath", NOTHING),
    ("terminationMessagePolicy", NOTHING),
    ("tty", NOTHING),
    ("volumeDevices", NOTHING),
    ("volumeMounts", NOTHING),
    ("workingDir", NOTHING),
];

const OF_PODS: &[(&str, &str)] = &[
    ("activeDeadlineSeconds", NOTHING),
    ("affinity", NOTHING),
    ("automountServiceAccountToken", NOTHING),
    ("dnsConfig", NOTHING),
    ("dnsPolicy", NOTHING),
    ("enableServiceLinks", NOTHING),
    ("hostAliases", NOTHING),
    ("hostIPC", NOTHING),
    ("hostNetwork", NOTHING),
    ("hostPID", NOTHING),
    ("hostUsers", NOTHING),
    ("hostname", NOTHING),
    ("hostnameOverride", NOTHING),
    ("imagePullSecrets", "secrets"),
    ("nodeName", NOTHING),
    ("nodeSelector", NOTHING),
    ("os", NOTHING),
    ("overhead", NOTHING),
    ("preemptionPolicy", NOTHING),
    ("priority", NOTHING),
    ("priorityClassName", READ_BEFORE),
    ("readinessGates", NOTHING),
    ("resourceClaims", "resourceclaims"),
    ("resources", NOTHING),
    ("restartPolicy", NOTHING),
    ("runtimeClassName", READ_BEFORE),
    ("schedulerName", NOTHING),
    ("schedulingGates", NOTHING),
    ("schedulingGroup", NOTHING),
    ("securityContext", NOTHING),
    ("serviceAccount", "serviceaccounts"),
    ("serviceAccountName", "serviceaccounts"),
    ("setHostnameAsFQDN", NOTHING),
    ("shareProcessNamespace", NOTHING),
    ("subdomain", NOTHING),
    ("terminationGracePeriodSeconds", NOTHING),
    ("tolerations", NOTHING),
    ("topologySpreadConstraints", NOTHING),
    ("volumes", "secrets (via secret volumes)"),
];

fn known() -> BTreeMap<String, &'static str> {
    let mut known = pod_fields::of_containers(OF_CONTAINERS);
    known.extend(OF_PODS.iter().map(|(path, what)| ((*path).to_owned(), *what)));
    known
}

#[test]
fn no_field_is_new() {
    let known = known();
    let paths = known.keys().map(String::as_str).collect();
    // Only ephemeral containers have one.
    pod_fields::check_known(&paths, |it| it.ends_with(".targetContainerName"));
}

/// What a reference looks like: a name, by itself or within what has one.
fn reference(path: &str) -> Value {
    match path.rsplit('.').next() {
        Some("serviceAccount" | "serviceAccountName") => json!("x"),
        Some("imagePullSecrets" | "resourceClaims") => json!([{"name": "x"}]),
        Some("volumes") => json!([{"name": "v", "secret": {}}]),
        _ => json!({"name": "x", "key": "k"}),
    }
}

#[test]
fn what_is_said_to_refer_to_something_does() {
    let references: BTreeMap<String, &str> =
        known().into_iter().filter(|it| !it.1.is_empty()).collect();
    assert_eq!(references.len(), 3 * 4 + 5);
    for (path, what) in references {
        // As it gets here: with its defaults.
        let mut pod: Pod = decode(&pod(&with(&path, reference(&path))));
        pod.apply_defaults();
        let found = pod.spec.as_ref().and_then(refers_to);
        assert_eq!(found.as_deref(), Some(what), "{path}");
    }
    assert_eq!(refers_to(&PodSpec::default()), None);
}

/// By its type alone: also what the table above takes for harmless.
#[test]
fn what_is_said_to_refer_to_nothing_names_no_secret_and_no_config_map() {
    let harmless: BTreeSet<String> =
        known().into_iter().filter(|it| it.1.is_empty()).map(|it| it.0).collect();
    let named = pod_fields::all(|path, _| {
        let path = path.to_lowercase();
        ["secret", "configmap"].iter().any(|it| path.contains(it))
    });
    for path in named {
        let is_below = |it: &&String| path == **it || path.starts_with(&format!("{it}."));
        assert_eq!(harmless.iter().find(is_below), None, "{path}");
    }
}
