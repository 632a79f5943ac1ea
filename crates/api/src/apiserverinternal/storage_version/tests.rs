//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::StorageVersion;
use crate::kind::Part;
use crate::testing::{check, check_created, check_row, check_update, created};

fn version(status: Value) -> Value {
    json!({"metadata": {"name": "apps.deployments"}, "status": status})
}

fn server(id: &str, encoding: &str, readable: &[&str]) -> Value {
    json!({"apiServerID": id, "encodingVersion": encoding, "decodableVersions": readable})
}

#[test]
fn its_name_is_a_group_and_a_resource() {
    check::<StorageVersion>(version(json!({})), &[]);
    check_created::<StorageVersion>(version(json!({})), "/spec", json!({}));
    check::<StorageVersion>(
        json!({"metadata": {"name": "deployments"}}),
        &[
            "metadata.name: Invalid value: \"deployments\": name must be in the form of <group>.<resource>",
        ],
    );
}

#[test]
fn servers_can_read_what_they_write_and_serve() {
    let stored = created::<StorageVersion>(version(json!({})));
    let fine = json!({
        "storageVersions": [server("a", "apps/v1", &["apps/v1", "apps/v1beta1"])],
        "commonEncodingVersion": "apps/v1",
    });
    check_update(&stored, version(fine), Part::Status, &[]);
    let mut odd = server("a", "apps/v1", &["apps/v2"]);
    odd["servedVersions"] = json!(["a/b/c"]);
    let found = json!({"storageVersions": [odd, server("a", "/v1", &["/v1"])]});
    check_update(
        &stored,
        version(found),
        Part::Status,
        &[
            "status.storageVersions[0].decodableVersions: Invalid value: [\"apps/v2\"]: decodableVersions must include encodingVersion apps/v1",
            "status.storageVersions[0].servedVersions[0]: Invalid value: \"a/b/c\": an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')",
            "status.storageVersions[0].servedVersions[0]: Invalid value: \"a/b/c\": individual served version : a/b/c must be included in decodableVersions : [apps/v2]",
            "status.storageVersions[1].apiServerID: Duplicate value: \"a\"",
            "status.storageVersions[1].encodingVersion: Invalid value: \"/v1\": group part: must be non-empty",
            "status.storageVersions[1].decodableVersions[0]: Invalid value: \"/v1\": group part: must be non-empty",
        ],
    );
}

#[test]
fn what_all_write_is_what_all_write() {
    let stored = created::<StorageVersion>(version(json!({})));
    let with = |second: &str, common: Value| {
        let servers = [server("a", "v1", &["v1"]), server("b", second, &[second])];
        version(json!({"storageVersions": servers, "commonEncodingVersion": common}))
    };
    let path = "status.commonEncodingVersion";
    check_update(
        &stored,
        with("v2", json!("v1")),
        Part::Status,
        &[&format!(
            "{path}: Invalid value: \"v1\": should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet"
        )],
    );
    check_update(
        &stored,
        with("v1", json!(null)),
        Part::Status,
        &[&format!("{path}: Invalid value: null: the common encoding version is v1")],
    );
    check_update(
        &stored,
        with("v1", json!("v2")),
        Part::Status,
        &[&format!("{path}: Invalid value: \"v2\": the actual common encoding version is v1")],
    );
}

#[test]
fn conditions_are_told_apart_by_their_type() {
    let stored = created::<StorageVersion>(version(json!({})));
    let condition = json!({"type": "A", "status": "True", "reason": "R", "message": ""});
    let second = json!({"type": "A", "status": "True", "reason": "", "message": "m"});
    check_update(
        &stored,
        version(json!({"conditions": [condition, second]})),
        Part::Status,
        &[
            "status[0].message: Required value",
            "status[1].type: Invalid value: \"A\": the type of the condition is not unique, it also appears in conditions[0]",
            "status[1].reason: Required value",
        ],
    );
}

#[test]
fn columns_show_what_servers_write() {
    let mut manifest = version(json!({"storageVersions": [server("a", "v1", &["v1"])]}));
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<StorageVersion>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["apps.deployments", "<unset>", "a=v1", "60s"]),
    );
}
