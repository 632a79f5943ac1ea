//! Manifest in; problems, parts or cells out.

use apimachinery::User;
use serde_json::{Value, json};

use super::{APPROVAL, CertificateSigningRequest, fill_in_times, fill_in_user};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

const REQUEST: &str = include_str!("../../../testdata/request.pem");
const AUTHORITY: &str = include_str!("../../../testdata/authority.pem");

fn base64(text: &str) -> Value {
    crate::codec::tree(&k8s_openapi::ByteString(text.as_bytes().to_vec()))
}

fn request(fields: Value) -> Value {
    let mut spec = json!({
        "request": base64(REQUEST), "signerName": "example.org/signer", "usages": ["client auth"],
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn with_status(status: Value) -> Value {
    let mut request = request(json!({}));
    request["status"] = status;
    request
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": "Because"})
}

fn conditions(types: &[&str]) -> Value {
    let all: Vec<Value> = types.iter().map(|it| condition(it)).collect();
    with_status(json!({"conditions": all}))
}

/// As it is stored, whatever doors it came through.
fn stored(manifest: Value) -> CertificateSigningRequest {
    defaulted(manifest)
}

const APPROVING: Part = Part::Other(APPROVAL);

#[test]
fn a_request_is_signed_by_whoever_asks() {
    check::<CertificateSigningRequest>(request(json!({})), &[]);
    let value = base64("hello");
    check::<CertificateSigningRequest>(
        request(json!({"request": value})),
        &[&format!(
            "spec.request: Invalid value: {value}: PEM block type must be CERTIFICATE REQUEST"
        )],
    );
}

#[test]
fn usages_are_known_and_there_once() {
    check::<CertificateSigningRequest>(
        request(json!({"usages": []})),
        &["spec.usages: Required value"],
    );
    check::<CertificateSigningRequest>(
        request(json!({"usages": ["signing", "signing"]})),
        &["spec.usages[1]: Duplicate value: \"signing\""],
    );
    let odd = request(json!({"usages": ["flying"]}));
    let mut errors = apimachinery::FieldErrors::new();
    created::<CertificateSigningRequest>(odd.clone()).validate_create(&mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    let expected = "spec.usages[0]: Unsupported value: \"flying\": supported values: \"any\", ";
    assert!(problem.starts_with(expected), "{problem}");
    // What is there already may stay.
    check_update(&stored(odd.clone()), odd, Part::Main, &[]);
}

#[test]
fn a_signer_is_named_and_a_certificate_lasts_ten_minutes_at_least() {
    check::<CertificateSigningRequest>(
        request(json!({"signerName": "kubernetes.io/legacy-unknown", "expirationSeconds": 599})),
        &[
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ],
    );
    check::<CertificateSigningRequest>(
        request(json!({"signerName": ""})),
        &["spec.signerName: Required value"],
    );
}

#[test]
fn who_asks_is_not_the_askers_to_say() {
    let spec = json!({
        "username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]},
    });
    let mut manifest = request(spec);
    manifest["status"] = json!({"conditions": [condition("Approved")]});
    for field in ["/spec/username", "/spec/uid", "/spec/groups", "/spec/extra"] {
        check_created::<CertificateSigningRequest>(manifest.clone(), field, Value::Null);
    }
    check_created::<CertificateSigningRequest>(manifest.clone(), "/status", json!({}));
    let mut object = created::<CertificateSigningRequest>(manifest);
    let user = User {
        uid: "7".to_owned(),
        extra: [("a".to_owned(), vec!["b".to_owned()])].into(),
        ..User::new("alice", &["team"])
    };
    fill_in_user(&mut object, &user);
    let spec = crate::codec::tree(&object.spec);
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("alice"), &json!("7")));
    assert_eq!((&spec["groups"], &spec["extra"]), (&json!(["team"]), &json!({"a": ["b"]})));
    fill_in_user(&mut object, &User::new("bob", &[]));
    assert_eq!((object.spec.uid, object.spec.groups, object.spec.extra), (None, None, None));
}

#[test]
fn each_door_changes_its_part_alone() {
    let old = stored(request(json!({})));
    let mut manifest = request(json!({"signerName": "example.org/other"}));
    manifest["status"] = json!({
        "conditions": [condition("Approved"), condition("Failed")], "certificate": base64(AUTHORITY),
    });
    let through = |part: Part| {
        let mut written = stored(manifest.clone());
        written.prepare_update(&old, part);
        assert_eq!(written.spec, old.spec);
        written.status.unwrap()
    };
    assert_eq!(through(Part::Main), old.status.clone().unwrap());
    let approved = through(APPROVING);
    assert_eq!((approved.conditions.unwrap().len(), approved.certificate), (2, None));
    let signed = through(Part::Status);
    assert_eq!(signed.conditions.unwrap().len(), 2);
    assert!(signed.certificate.is_some());
}

#[test]
fn who_signs_does_not_approve() {
    let add = |it: &str| {
        format!("status.conditions: Forbidden: updates may not add a condition of type {it:?}")
    };
    let remove = |it: &str| {
        format!("status.conditions: Forbidden: updates may not remove a condition of type {it:?}")
    };
    let fresh = stored(request(json!({})));
    check_update(&fresh, conditions(&["Approved"]), APPROVING, &[]);
    check_update(&fresh, conditions(&["Approved"]), Part::Status, &[&add("Approved")]);
    check_update(&fresh, conditions(&["Failed"]), Part::Status, &[]);
    let approved = stored(conditions(&["Approved"]));
    check_update(&approved, conditions(&[]), APPROVING, &[&remove("Approved")]);
    check_update(&approved, conditions(&[]), Part::Status, &[&remove("Approved")]);
    let mut other = conditions(&["Approved"]);
    other["status"]["conditions"][0]["reason"] = json!("Other");
    check_update(&approved, other.clone(), APPROVING, &[]);
    // Who signs may send back another form of it: what was decided stays.
    check_update(&approved, other.clone(), Part::Status, &[]);
    let mut written = stored(other);
    written.prepare_update(&approved, Part::Status);
    assert_eq!(written.status, approved.status);
}

#[test]
fn a_decision_is_one_and_true() {
    let fresh = stored(request(json!({})));
    check_update(
        &fresh,
        conditions(&["Approved", "Denied"]),
        APPROVING,
        &[
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
        ],
    );
    check_update(
        &fresh,
        conditions(&["Odd", "Odd", ""]),
        APPROVING,
        &[
            "status.conditions[1].type: Duplicate value: \"Odd\"",
            "status.conditions[2].type: Required value",
        ],
    );
    let mut wrong = conditions(&["Approved", "Odd", "Even"]);
    wrong["status"]["conditions"][0]["status"] = json!("False");
    wrong["status"]["conditions"][1]["status"] = json!("Maybe");
    wrong["status"]["conditions"][2]["status"] = json!("");
    check_update(
        &fresh,
        wrong,
        APPROVING,
        &[
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
            "status.conditions[1].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions[2].status: Required value",
        ],
    );
    let both = stored(conditions(&["Approved", "Denied"]));
    check_update(&both, conditions(&["Approved", "Denied"]), APPROVING, &[]);
}

#[test]
fn a_certificate_is_set_once_by_who_signs() {
    let fresh = stored(conditions(&["Approved"]));
    let signed = |text: &str| {
        let conditions = [condition("Approved")];
        with_status(json!({"conditions": conditions, "certificate": base64(text)}))
    };
    check_update(&fresh, signed(AUTHORITY), Part::Status, &[]);
    // Another door has no effect on it.
    check_update(&fresh, signed(AUTHORITY), APPROVING, &[]);
    check_update(
        &stored(signed(AUTHORITY)),
        signed(&format!("{AUTHORITY}{AUTHORITY}")),
        Part::Status,
        &["status.certificate: Forbidden: updates may not modify existing certificate content"],
    );
    let headed = AUTHORITY.replace("CERTIFICATE-----\nMII", "CERTIFICATE-----\na: b\n\nMII");
    for (text, why) in [
        ("hello", "must contain at least one CERTIFICATE PEM block"),
        (REQUEST, "only CERTIFICATE PEM blocks are allowed, found \"CERTIFICATE REQUEST\""),
        (&headed, "no PEM block headers are permitted"),
        (&AUTHORITY.replace("MII", "AAA"), "x509: malformed certificate"),
    ] {
        let expected = format!("status.certificate: Invalid value: \"<certificate data>\": {why}");
        check_update(&fresh, signed(text), Part::Status, &[&expected]);
    }
}

#[test]
fn a_decision_without_a_time_is_of_now_or_of_when_it_was_first() {
    let time = |it: &str| it.parse::<jiff::Timestamp>().unwrap();
    let (first, now) = (time("2024-01-02T03:04:05Z"), time("2024-01-02T03:05:05Z"));
    let mut old = stored(conditions(&["Approved"]));
    let fresh = old.clone();
    fill_in_times(&mut old, &fresh, first);
    let mut new = stored(conditions(&["Approved", "Failed"]));
    fill_in_times(&mut new, &old, now);
    let times: Vec<_> = super::conditions::all(&new)
        .iter()
        .map(|it| {
            (it.last_transition_time.clone().unwrap().0, it.last_update_time.clone().unwrap().0)
        })
        .collect();
    assert_eq!(times, [(first, now), (now, now)]);
}

#[test]
fn requests_are_found_by_their_signer() {
    let fields = created::<CertificateSigningRequest>(request(json!({}))).fields();
    assert_eq!(fields, [("spec.signerName", "example.org/signer".to_owned())]);
}

#[test]
fn columns_show_how_far_it_is() {
    let row = |status: Value, expected: &str| {
        let mut manifest = request(json!({"username": "alice", "expirationSeconds": 3600}));
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        manifest["status"] = status;
        let cells = json!(["web", "60s", "example.org/signer", "alice", "60m", expected]);
        check_row::<CertificateSigningRequest>(manifest, "2024-01-02T03:05:05Z", cells);
    };
    row(json!({}), "Pending");
    row(json!({"conditions": [condition("Approved")]}), "Approved");
    row(json!({"conditions": [condition("Denied"), condition("Approved")]}), "Denied");
    row(
        json!({"conditions": [condition("Approved"), condition("Failed")], "certificate": base64("a")}),
        "Approved,Failed,Issued",
    );
}
