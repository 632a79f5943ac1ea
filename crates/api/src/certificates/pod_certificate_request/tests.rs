//! Manifest in; problems, defaults or cells out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{PodCertificateRequest, is_of_now, is_status_changed};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

const LEAF: &str = include_str!("../../../testdata/leaf-of-a-day.pem");
const AUTHORITY: &str = include_str!("../../../testdata/authority.pem");
const NOT_BEFORE: &str = "2026-11-17T23:18:11Z";
const NOT_AFTER: &str = "2026-11-18T23:18:11Z";
/// The key of `request.pem`, and `uid-1` signed with it.
const KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2aEFtyQZvqSkz8833PzJJQFHfvg59ZPvWl8DWEoqLELGZQ/1I7UM11uGXofl8EFXK4aXixYulmmS8DRT3bZ0YQ==";
const PROOF: &str = "MEUCIQCyqHv2ioAXdHZKxCePtYQgKSkAZu+upbluQyxeG/4+DgIgf0MN9du2qNNgg4r1lPemsgzkmVpUVtQVdTuqxpzjB8E=";

/// The block of a PEM text, as base64.
fn stub(text: &str) -> String {
    text.lines().filter(|it| !it.starts_with('-')).collect()
}

fn request(fields: Value) -> Value {
    let mut spec = json!({
        "signerName": "example.org/signer", "podName": "web", "podUID": "uid-1",
        "serviceAccountName": "default", "serviceAccountUID": "uid-2",
        "nodeName": "node", "nodeUID": "uid-3",
        "stubPKCS10Request": stub(include_str!("../../../testdata/request.pem")),
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": "Because", "message": "",
        "lastTransitionTime": NOT_BEFORE,
    })
}

fn issued(fields: Value) -> Value {
    let mut status = json!({
        "conditions": [condition("Issued")], "certificateChain": format!("{LEAF}{AUTHORITY}"),
        "notBefore": NOT_BEFORE, "notAfter": NOT_AFTER, "beginRefreshAt": "2026-11-18T12:00:00Z",
    });
    status.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    status
}

fn with_status(status: Value) -> Value {
    let mut request = request(json!({}));
    request["status"] = status;
    request
}

fn check_status(status: Value, expected: &[&str]) {
    let fresh = created::<PodCertificateRequest>(request(json!({})));
    check_update(&fresh, with_status(status), Part::Status, expected);
}

#[test]
fn a_certificate_lasts_a_day_unless_it_says_otherwise() {
    check_created::<PodCertificateRequest>(
        request(json!({})),
        "/spec/maxExpirationSeconds",
        json!(86_400),
    );
    let at = "spec.maxExpirationSeconds";
    check::<PodCertificateRequest>(request(json!({"maxExpirationSeconds": 7_862_400})), &[]);
    check::<PodCertificateRequest>(
        request(json!({"maxExpirationSeconds": 3599})),
        &[&format!("{at}: Invalid value: 3599: must be in the range [3600, 7862400]")],
    );
    check::<PodCertificateRequest>(
        request(json!({"maxExpirationSeconds": 86_401, "signerName": "kubernetes.io/a"})),
        &[&format!("{at}: Invalid value: 86401: must be in the range [3600, 86400]")],
    );
}

#[test]
fn a_request_says_for_whom_it_is() {
    check::<PodCertificateRequest>(
        request(json!({"podUID": "", "nodeUID": "x".repeat(129), "signerName": ""})),
        &[
            "spec.signerName: Required value",
            "spec.podUID: Invalid value: \"\": must not be empty",
            "spec.nodeUID: Too long: may not be more than 128 bytes",
        ],
    );
    check::<PodCertificateRequest>(
        request(json!({"unverifiedUserAnnotations": {"color": "red", "A.org/b": "c"}})),
        &[
            "spec.unverifiedUserAnnotations: Invalid value: \"color\": must be a domain-prefixed key (such as \"acme.io/foo\")",
        ],
    );
}

#[test]
fn a_key_comes_in_a_request_or_bare_with_a_proof() {
    for text in [
        include_str!("../../../testdata/request-p521.pem"),
        include_str!("../../../testdata/request-rsa.pem"),
        include_str!("../../../testdata/request-ed25519.pem"),
    ] {
        check::<PodCertificateRequest>(request(json!({"stubPKCS10Request": stub(text)})), &[]);
    }
    let bare = |key: &str, proof: &str| {
        request(json!({"stubPKCS10Request": "", "pkixPublicKey": key, "proofOfPossession": proof}))
    };
    check::<PodCertificateRequest>(bare(KEY, PROOF), &[]);
    check::<PodCertificateRequest>(
        bare(KEY, KEY),
        &["spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"],
    );
    check::<PodCertificateRequest>(
        bare("AAAA", PROOF),
        &[
            "spec.pkixPublicKey: Invalid value: \"AAAA\": must be a valid PKIX-serialized public key",
        ],
    );
    let either = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    check::<PodCertificateRequest>(bare("", ""), &[either]);
    check::<PodCertificateRequest>(bare(KEY, ""), &[either]);
    check::<PodCertificateRequest>(
        request(json!({"stubPKCS10Request": "AAAA"})),
        &["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"],
    );
    let mut der = STANDARD.decode(stub(include_str!("../../../testdata/request.pem"))).unwrap();
    *der.last_mut().unwrap() ^= 1;
    check::<PodCertificateRequest>(
        request(json!({"stubPKCS10Request": STANDARD.encode(der)})),
        &["spec.stubPKCS10Request: Invalid value: invalid signature"],
    );
}

#[test]
fn what_is_asked_for_stays() {
    let stored = created::<PodCertificateRequest>(request(json!({})));
    let mut other = defaulted::<PodCertificateRequest>(request(json!({"podName": "other"})));
    other.prepare_update(&stored, Part::Main);
    let mut errors = apimachinery::FieldErrors::new();
    other.validate_update(&stored, Part::Main, &mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    assert!(problem.starts_with("spec: Invalid value: {"), "{problem}");
    assert!(problem.ends_with(": field is immutable"), "{problem}");
    check_update(&stored, request(json!({})), Part::Main, &[]);
}

#[test]
fn a_request_ends_in_one_of_three_ways() {
    check_status(json!({"conditions": [condition("Denied")]}), &[]);
    check_status(json!({"conditions": [condition("Failed")]}), &[]);
    check_status(issued(json!({})), &[]);
    check_status(
        json!({"conditions": [condition("Odd")]}),
        &[
            "status.conditions.[0].type: Unsupported value: \"Odd\": supported values: \"Denied\", \"Failed\", \"Issued\"",
        ],
    );
    let mut no = condition("Denied");
    no["status"] = json!("False");
    check_status(
        json!({"conditions": [condition("Failed"), no]}),
        &[
            "status.conditions.[1].type: Invalid value: \"Denied\": There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"",
            "status.conditions.[1].status: Unsupported value: \"False\": supported values: \"True\"",
        ],
    );
    check_status(
        json!({"conditions": [condition("Denied")], "certificateChain": LEAF}),
        &[
            "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest",
        ],
    );
    check_status(
        json!({"certificateChain": LEAF}),
        &[
            "status: Invalid value: status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"",
        ],
    );
}

#[test]
fn an_end_is_an_end() {
    let ended = defaulted::<PodCertificateRequest>(with_status(
        json!({"conditions": [condition("Denied")]}),
    ));
    let update = |status: Value, expected: &[&str]| {
        check_update(&ended, with_status(status), Part::Status, expected);
    };
    update(json!({"conditions": [condition("Denied")]}), &[]);
    update(
        issued(json!({})),
        &[
            "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed",
        ],
    );
}

#[test]
fn a_certificate_is_for_the_key_that_was_asked_for() {
    let fresh = created::<PodCertificateRequest>(request(
        json!({"stubPKCS10Request": stub(include_str!("../../../testdata/request-rsa.pem"))}),
    ));
    let mut errors = apimachinery::FieldErrors::new();
    let mut new = defaulted::<PodCertificateRequest>(with_status(issued(json!({}))));
    new.prepare_update(&fresh, Part::Status);
    new.validate_update(&fresh, Part::Status, &mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    let expected = ": leaf certificate was not issued to the requested public key";
    assert!(problem.ends_with(expected), "{problem}");
    for (chain, why) in [
        ("", "issued certificate chain must contain at least one certificate"),
        (
            include_str!("../../../testdata/request.pem"),
            "issued certificate chain must consist entirely of CERTIFICATE PEM blocks",
        ),
        (&LEAF.replace("MII", "AAA"), "leaf certificate does not parse as valid X.509"),
        (
            &format!("{LEAF}{}", AUTHORITY.replace("MII", "AAA")),
            "intermediate certificate does not parse as valid X.509",
        ),
    ] {
        let expected = format!("status.certificateChain: Invalid value: {chain:?}: {why}");
        check_status(issued(json!({"certificateChain": chain})), &[&expected]);
    }
}

#[test]
fn times_are_those_of_the_certificate() {
    check_status(
        issued(json!({"notBefore": null, "beginRefreshAt": null})),
        &[
            "status.notBefore: Required value: must be present and consistent with the issued certificate",
            "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]",
        ],
    );
    for (field, value, why) in [
        (
            "notBefore",
            NOT_AFTER,
            "must be set to the NotBefore time encoded in the leaf certificate",
        ),
        (
            "notAfter",
            NOT_BEFORE,
            "must be set to the NotAfter time encoded in the leaf certificate",
        ),
        ("beginRefreshAt", NOT_BEFORE, "must be at least 10 minutes after status.notBefore"),
        ("beginRefreshAt", NOT_AFTER, "must be at least 10 minutes before status.notAfter"),
    ] {
        let expected = format!("status.{field}: Invalid value: {value:?}: {why}");
        check_status(issued(json!({field: value})), &[&expected]);
    }
    let short = created::<PodCertificateRequest>(request(json!({"maxExpirationSeconds": 3600})));
    let mut errors = apimachinery::FieldErrors::new();
    let mut new = defaulted::<PodCertificateRequest>(with_status(issued(json!({}))));
    new.prepare_update(&short, Part::Status);
    new.validate_update(&short, Part::Status, &mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    let expected = "leaf certificate lifetime must be <= spec.maxExpirationSeconds (3600)";
    assert!(problem.ends_with(expected), "{problem}");
    let now = |it: &str| is_of_now(&new, it.parse().unwrap());
    assert!(now("2026-11-17T23:20:00Z") && now("2026-11-17T23:14:00Z"));
    assert!(!now("2026-11-17T23:24:00Z") && !now("2026-11-17T23:10:00Z"));
    assert!(is_status_changed(&new, &short) && !is_status_changed(&new, &new.clone()));
}

#[test]
fn columns_and_fields_show_for_whom_it_is() {
    let row = |status: Value, state: &str| {
        let mut manifest = with_status(status);
        manifest["spec"]["unverifiedUserAnnotations"] = json!({"a.org/b": "c"});
        check_row::<PodCertificateRequest>(
            manifest,
            NOT_AFTER,
            json!(["web", "web", "default", "node", "example.org/signer", state, "a.org/b=c"]),
        );
    };
    row(json!({}), "Pending");
    row(issued(json!({})), "Issued");
    let fields = created::<PodCertificateRequest>(request(json!({}))).fields();
    let fields: Vec<&str> = fields.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(fields, ["example.org/signer", "web", "node"]);
}
