//! Answers and texts. What is asked over the wire is tested with the API server.

use apimachinery::User;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::hook::Hook;
use super::observed::Watched;
use super::review::{self, Version};
use super::{Kind, messages};
use client::hooks::Credentials;

use crate::attributes::Operation;
use crate::context::{Context, Surroundings};
use crate::notes::Notes;
use crate::plugins::fixture::{Case, Nobody, Objects};

fn answer(version: Version, is_mutating: bool, response: Value) -> Result<String, String> {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    });
    let body = body.to_string();
    let answer = review::answer(version, ("u", is_mutating), body.as_bytes())?;
    Ok(format!("{} {}", answer.is_allowed, String::from_utf8(answer.patch).unwrap()))
}

#[test]
fn an_answer_is_to_the_question_and_whole() {
    let patch = STANDARD.encode("[]");
    for (is_mutating, response, expected) in [
        (true, json!({"uid": "u", "allowed": true}), Ok("true ")),
        (false, json!({"uid": "u"}), Ok("false ")),
        (
            true,
            json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": patch}),
            Ok("true []"),
        ),
        (true, Value::Null, Err("received invalid webhook response: webhook response was absent")),
        (
            true,
            json!({"uid": "v"}),
            Err("received invalid webhook response: expected response.uid=\"u\", got \"v\""),
        ),
        (
            true,
            json!({"uid": "u", "patch": patch}),
            Err(
                "received invalid webhook response: webhook returned response.patch but not response.patchType",
            ),
        ),
        (
            true,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            Err(
                "received invalid webhook response: webhook returned response.patchType but not response.patch",
            ),
        ),
        (
            true,
            json!({"uid": "u", "patchType": "", "patch": patch}),
            Err(
                "received invalid webhook response: webhook returned invalid response.patchType of \"\"",
            ),
        ),
        (
            false,
            json!({"uid": "u", "patch": patch}),
            Err(
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
        ),
        (
            false,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            Err(
                "received invalid webhook response: validating webhook may not return response.patchType",
            ),
        ),
    ] {
        let found = answer(Version::V1, is_mutating, response.clone());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{response}");
    }
    // Nobody was ever held to this in the old version.
    let response = json!({"uid": "v", "allowed": true, "patch": patch});
    assert_eq!(answer(Version::V1Beta1, true, response.clone()).as_deref(), Ok("true []"));
    assert_eq!(answer(Version::V1Beta1, false, response).as_deref(), Ok("true "));
    let other = json!({"kind": "Status", "apiVersion": "v1", "response": {"uid": "u"}}).to_string();
    let why = review::answer(Version::V1, ("u", true), other.as_bytes()).unwrap_err();
    let text = "received invalid webhook response: expected webhook response of \
                admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Status";
    assert_eq!(why, text);
    let named =
        |it: &[&str]| Version::of(&it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(named(&["v2", "v1beta1", "v1"]), Some(Version::V1Beta1));
    assert_eq!(named(&["v2"]), None);
}

#[test]
fn a_refusal_is_one_whatever_it_says_of_itself() {
    let check = |status: Value, expected: &str| {
        let status = (!status.is_null()).then(|| serde_json::from_value(status).unwrap());
        let status = messages::denied("w", status).to_status();
        let found = format!(
            "{} {:?} {}",
            status.code.unwrap(),
            status.reason.unwrap_or_default(),
            status.message.unwrap()
        );
        assert_eq!(found, expected);
        assert_eq!(status.status.as_deref(), Some("Failure"));
    };
    let by = "admission webhook \"w\" denied the request";
    check(Value::Null, &format!("400 \"\" {by} without explanation"));
    check(json!({"message": "no"}), &format!("400 \"\" {by}: no"));
    check(
        json!({"code": 200, "status": "Success", "reason": "Odd"}),
        &format!("400 \"Odd\" {by}: Odd"),
    );
    check(
        json!({"code": 409, "reason": "Conflict", "message": "no"}),
        &format!("409 \"Conflict\" {by}: no"),
    );
    let denied = messages::denied(
        "w",
        serde_json::from_value(json!({"code": 409, "reason": "Conflict"})).ok(),
    );
    assert!(!denied.is_conflict(), "it is no race of ours");
}

#[test]
fn who_does_something_else_is_not_asked_on_a_dry_run() {
    let refused = messages::no_dry_run("w");
    assert_eq!(refused.code(), 400);
    assert_eq!(refused.message(), "admission webhook \"w\" does not support dry run");
}

#[test]
fn whoever_wants_to_be_told_is_told_who_is_not_asked() {
    let hook = serde_json::from_value(json!({
        "name": "w", "clientConfig": {"url": "https://localhost/"}, "sideEffects": "Some",
        "admissionReviewVersions": ["v1"],
    }));
    let hook = Hook::validating("c", &hook.unwrap(), &Credentials::default());
    let user = User::new("jane", &[]);
    let objects = Objects::default();
    let skips = |notes: &Notes, is_dry_run: bool| {
        let case = Case::of(Operation::Create, "/pods", &user);
        case.with((&objects, &Nobody), (None, None), |it| {
            let mut request = it.request.clone();
            request.options.is_dry_run = is_dry_run;
            let surroundings = Surroundings { lookup: &objects, authorizer: &Nobody };
            let context = Context::new(request, surroundings, notes);
            Watched::begin(&context, Kind::Validating).skips(&hook, &context)
        })
    };
    assert!(!skips(&Notes::default(), true), "others are refused");
    let notes = Notes::observed(None);
    assert!(!skips(&notes, false));
    assert!(skips(&notes, true));
}
