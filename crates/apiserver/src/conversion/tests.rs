//! What is asked, and which answers are taken.

use bytes::Bytes;
use serde_json::{Value, json};

use super::metrics::Outcome;
use super::review::{Question, Version};
use super::{QUESTION_BYTES_MAX, QUESTION_OBJECTS_MAX, parts};

fn rope(api_version: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": "Rope",
        "metadata": {"name": name, "namespace": "d", "uid": "u", "labels": {"a": "b"}, "generation": 3},
    })
}

/// The objects that an answer about `names` gives, or the refusal.
fn take(version: Version, names: &[&str], answer: &Value) -> Result<Vec<Value>, (String, Outcome)> {
    let objects: Vec<Bytes> =
        names.iter().map(|it| Bytes::from(rope("e.io/v1", it).to_string())).collect();
    let objects: Vec<&Bytes> = objects.iter().collect();
    let question = Question { version, uid: "q", api_version: "e.io/v2", objects: &objects };
    let asked: Value = serde_json::from_slice(&question.body()).expect("JSON");
    let expected: Vec<Value> = names.iter().map(|it| rope("e.io/v1", it)).collect();
    assert_eq!(
        asked["request"],
        json!({"uid": "q", "desiredAPIVersion": "e.io/v2", "objects": expected})
    );
    assert_eq!((question.version_asked(), question.version_wanted()), ("v1", "v2"));
    let taken = question.converted(answer.to_string().as_bytes());
    let taken = taken.map_err(|it| (it.text, it.outcome))?;
    Ok(taken.iter().map(|it| serde_json::from_slice(it).expect("JSON")).collect())
}

fn answer(objects: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": "q", "result": {"status": "Success"}, "convertedObjects": objects},
    })
}

fn check(version: Version, names: &[&str], answer: &Value, expected: &str, outcome: Outcome) {
    let expected = format!("conversion webhook for e.io/v1, Kind=Rope {expected}");
    assert_eq!(take(version, names, answer), Err((expected, outcome)), "{answer}");
}

#[test]
fn labels_and_annotations_are_taken_and_nothing_else_of_metadata() {
    let mut changed = rope("e.io/v2", "a");
    changed["metadata"] = json!({
        "name": "a", "namespace": "d", "uid": "u", "annotations": {"x": "y"}, "generation": 7,
        "finalizers": ["f"], "resourceVersion": "9",
    });
    changed["spec"] = json!({"length": 1});
    let taken = take(Version::V1, &["a"], &answer(&[changed])).expect("an answer");
    let metadata = json!({
        "name": "a", "namespace": "d", "uid": "u", "annotations": {"x": "y"}, "generation": 3,
    });
    assert_eq!(taken[0]["metadata"], metadata);
    assert_eq!(taken[0]["spec"], json!({"length": 1}));
}

#[test]
fn an_answer_is_to_the_question_and_of_success() {
    use Outcome::{CallFailure, MalformedResponse, PartialResponse};
    let good = answer(&[rope("e.io/v2", "a")]);
    let with = |pointer: &str, value: Value| {
        let mut answer = good.clone();
        *answer.pointer_mut(pointer).expect("it is there") = value;
        answer
    };
    let refused = |answer: &Value, expected: &str, outcome: Outcome| {
        check(Version::V1, &["a"], answer, expected, outcome);
    };
    refused(
        &with("/apiVersion", json!("apiextensions.k8s.io/v1beta1")),
        "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview",
        MalformedResponse,
    );
    refused(&with("/response", json!(null)), "failed: no response provided", MalformedResponse);
    refused(
        &with("/response/uid", json!("x")),
        "failed: expected response.uid=\"q\", got \"x\"",
        MalformedResponse,
    );
    refused(
        &with("/response/result", json!({"status": "Failure", "message": "no way"})),
        "failed: no way",
        MalformedResponse,
    );
    refused(
        &with("/response/result/status", json!("Later")),
        "failed: response.result.status was 'Later', not 'Success'",
        MalformedResponse,
    );
    refused(
        &with("/response/convertedObjects", json!([])),
        "returned 0 objects, expected 1",
        PartialResponse,
    );
    let unread = take(Version::V1, &["a"], &json!("<html>")).expect_err("no answer");
    assert!(unread.0.contains("failed: couldn't get version/kind; json parse error: "));
    assert_eq!(unread.1, CallFailure);
    // Answers of the old version are not held to what they say of themselves.
    let lie = with("/response/uid", json!("x"));
    assert!(take(Version::V1Beta1, &["a"], &lie).is_ok());
}

#[test]
fn what_is_converted_is_the_same_object_in_the_other_version() {
    let refused = |pointer: &str, value: Value, alone: &str, of_two: &str| {
        let mut bad = rope("e.io/v2", "a");
        *bad.pointer_mut(pointer).expect("it is there") = value;
        let outcome = Outcome::InvalidConvertedObject;
        check(Version::V1, &["a"], &answer(&[bad.clone()]), alone, outcome);
        let both = answer(&[rope("e.io/v2", "b"), bad]);
        check(Version::V1, &["b", "a"], &both, of_two, outcome);
    };
    let both = |what: &str, of_one: &str, of_many: &str| {
        (
            format!("returned invalid {of_one}: {what}"),
            format!("returned invalid {of_many}: {what}"),
        )
    };
    for (pointer, value, what) in [
        (
            "/apiVersion",
            json!("e.io/v1"),
            "invalid groupVersion (expected e.io/v2, received e.io/v1)",
        ),
        ("/kind", json!("Cord"), "invalid kind (expected Rope, received Cord)"),
    ] {
        let (alone, of_two) = both(what, "object at index 0", "converted object at index 1");
        refused(pointer, value, &alone, &of_two);
    }
    for (field, what) in [("name", "name: a"), ("namespace", "namespace: d"), ("uid", "UID: u")] {
        let what = format!("must have the same {what} != z");
        let (alone, of_two) = both(&what, "object", "converted object at index 1");
        refused(&format!("/metadata/{field}"), json!("z"), &alone, &of_two);
    }
    for (value, what) in [
        (json!({"a": 7}), "metadata.labels[a] must be a string, but is int64 in converted object"),
        (json!([]), "invalid metadata.labels of type []interface {} in converted object"),
    ] {
        let (alone, of_two) = both(what, "metadata", "metadata in object at index 1");
        refused("/metadata/labels", value, &alone, &of_two);
    }
    let mut bad = rope("e.io/v2", "a");
    bad["metadata"]["labels"] = json!({"a b": "c"});
    let refusal = take(Version::V1, &["a"], &answer(&[bad])).expect_err("no label");
    assert!(
        refusal.0.contains("returned invalid metadata: metadata.labels: Invalid value: \"a b\""),
        "{}",
        refusal.0
    );
}

#[test]
fn a_question_is_bounded_in_number_and_size() {
    let sizes = |objects: &[Bytes]| -> Vec<usize> {
        let all: Vec<usize> = (0..objects.len()).collect();
        parts(&all, objects).iter().map(|it| it.len()).collect()
    };
    let of = |size: usize| Bytes::from(vec![b' '; size]);
    assert_eq!(sizes(&[]), Vec::<usize>::new());
    assert_eq!(sizes(&vec![of(1); QUESTION_OBJECTS_MAX + 1]), [QUESTION_OBJECTS_MAX, 1]);
    assert_eq!(
        sizes(&[of(QUESTION_BYTES_MAX), of(1), of(QUESTION_BYTES_MAX - 1), of(1)]),
        [1, 2, 1]
    );
    assert_eq!(sizes(&[of(2 * QUESTION_BYTES_MAX)]), [1], "one at least");
}
