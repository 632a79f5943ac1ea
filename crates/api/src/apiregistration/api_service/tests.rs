//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::APIService;
use super::availability::{self, Verdict};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

/// One that nothing is wrong with, but for the changes.
fn service(changes: Value) -> Value {
    let mut spec = json!({
        "group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({
        "metadata": {"name": "v1.example.com", "creationTimestamp": "2024-01-02T03:04:05Z"},
        "spec": spec,
    })
}

fn refused(changes: Value, expected: &[&str]) {
    check::<APIService>(service(changes), expected);
}

#[test]
fn its_name_is_its_version_and_group() {
    refused(json!({}), &[]);
    refused(
        json!({"version": "v2"}),
        &[
            "metadata.name: Invalid value: \"v1.example.com\": must be `spec.version+\".\"+spec.group`: \"v2.example.com\"",
        ],
    );
    let core = json!({"metadata": {"name": "v1."}, "spec": {
        "version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1,
    }});
    check::<APIService>(core, &[]);
    let nobody = json!({"metadata": {"name": "v2."}, "spec": {
        "version": "v2", "groupPriorityMinimum": 18000, "versionPriority": 1,
    }});
    check::<APIService>(
        nobody,
        &[
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
        ],
    );
}

#[test]
fn priorities_have_bounds() {
    refused(json!({"groupPriorityMinimum": 20000, "versionPriority": 1000}), &[]);
    refused(
        json!({"groupPriorityMinimum": 20001, "versionPriority": 0}),
        &[
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
        ],
    );
}

#[test]
fn trust_is_for_other_servers_and_of_one_kind() {
    refused(
        json!({"caBundle": "YWJj", "insecureSkipTLSVerify": true}),
        &[
            "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle",
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ],
    );
    refused(
        json!({"service": {"port": 0}, "caBundle": "YWJj", "insecureSkipTLSVerify": true}),
        &[
            "spec.service.namespace: Required value",
            "spec.service.name: Required value",
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ],
    );
    let remote = service(json!({"service": {"namespace": "n", "name": "s"}}));
    check_created::<APIService>(remote, "/spec/service/port", json!(443));
}

#[test]
fn what_is_served_here_is_available_and_nothing_else() {
    check_created::<APIService>(
        service(json!({})),
        "/status/conditions",
        json!([{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        }]),
    );
    let mut remote =
        created::<APIService>(service(json!({"service": {"namespace": "n", "name": "s"}})));
    let row = |it: &APIService| it.row("2024-01-02T03:05:05Z".parse().unwrap());
    assert_eq!(Value::from(row(&remote)), json!(["v1.example.com", "n/s", "Unknown", "60s"]));
    assert!(!availability::is_reachable(&remote));
    let mut judge = |verdict: Verdict, at: &str, expected: &str, since: &str| {
        availability::set(&mut remote, verdict, at.parse().unwrap());
        let condition = &remote.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
        assert_eq!(condition.last_transition_time.as_ref().unwrap().0.to_string(), since);
        assert_eq!(availability::cell(&remote), expected);
        availability::is_reachable(&remote)
    };
    let (first, second) = ("2024-01-02T03:05:05Z", "2024-01-02T03:06:05Z");
    let missing = Verdict::refused("ServiceNotFound", "gone".to_owned());
    assert!(!judge(missing, first, "False (ServiceNotFound)", first));
    // A time stays while what it is of does.
    let silent = Verdict::refused("FailedDiscoveryCheck", "silent".to_owned());
    assert!(!judge(silent, second, "False (FailedDiscoveryCheck)", first));
    assert!(judge(Verdict::passed(), second, "True", second));
    // What is served here leads nowhere else.
    assert!(!judge(Verdict::local(), second, "True", second));
}

#[test]
fn a_status_is_true_false_or_unknown() {
    let stored = created::<APIService>(service(json!({})));
    let mut manifest = service(json!({}));
    manifest["status"] = json!({"conditions": [{"type": "Available", "status": "Perhaps"}]});
    check_update(
        &stored,
        manifest,
        Part::Status,
        &[
            "status.conditions[0].status: Unsupported value: \"Perhaps\": supported values: \"True\", \"False\", \"Unknown\"",
        ],
    );
}

#[test]
fn columns_show_who_serves_it() {
    check_row::<APIService>(
        service(json!({})),
        "2024-01-02T03:05:05Z",
        json!(["v1.example.com", "Local", "Unknown", "60s"]),
    );
}

#[test]
fn whoever_writes_the_status_leaves_the_rest_alone() {
    let stored = created::<APIService>(service(json!({})));
    let mut manifest = service(json!({"versionPriority": 7}));
    manifest["metadata"]["labels"] = json!({"a": "b"});
    manifest["metadata"]["finalizers"] = json!(["example.com/f"]);
    manifest["status"] = json!({"conditions": [{"type": "Available", "status": "False"}]});
    let mut written = APIService::decode(manifest.to_string().as_bytes()).unwrap();
    written.prepare_update(&stored, Part::Status);
    assert_eq!((&written.metadata, &written.spec), (&stored.metadata, &stored.spec));
    assert_eq!(written.status.unwrap().conditions.unwrap()[0].status, "False");
}
