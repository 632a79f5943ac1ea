//! Conversion between the versions, as API servers ask for it. Pure.

use serde_json::{Value, json};

use crate::objects::{GROUP, KIND};
use crate::schedule;

/// The answer to a ConversionReview: all objects in the version that is asked for, in their order,
/// or what is wrong with the first that cannot be.
pub(crate) fn answer(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map_or(&[][..], |it| it);
    let converted: Result<Vec<Value>, String> =
        objects.iter().map(|it| convert(it, desired)).collect();
    let mut response = json!({ "uid": request["uid"] });
    match converted {
        Ok(objects) => {
            response["convertedObjects"] = json!(objects);
            response["result"] = json!({ "status": "Success" });
        }
        Err(why) => response["result"] = json!({ "status": "Failure", "message": why }),
    }
    json!({ "apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response })
}

/// The object in the desired version; nothing but `apiVersion` and the schedule differs.
fn convert(object: &Value, desired: &str) -> Result<Value, String> {
    let current = object["apiVersion"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if object["kind"] != KIND {
        return Err(format!("{name}: {} is converted elsewhere", object["kind"]));
    }
    let version = |it: &str| -> Result<Version, String> {
        match it.strip_prefix(GROUP) {
            Some("/v1") => Ok(Version::V1),
            Some("/v2") => Ok(Version::V2),
            _ => Err(format!("{name}: there is no version {it:?}")),
        }
    };
    let (from, to) = (version(current)?, version(desired)?);
    let mut converted = object.clone();
    converted["apiVersion"] = json!(desired);
    if let Some(schedule) = converted.pointer_mut("/spec/schedule") {
        *schedule = match (from, to) {
            (Version::V1, Version::V2) => {
                schedule::to_parts(schedule.as_str().ok_or_else(|| no_schedule(name))?)
            }
            (Version::V2, Version::V1) => json!(schedule::to_text(schedule)),
            (Version::V1, Version::V1) | (Version::V2, Version::V2) => schedule.take(),
        };
    }
    Ok(converted)
}

#[derive(Clone, Copy)]
enum Version {
    V1,
    V2,
}

fn no_schedule(name: &str) -> String {
    format!("{name}: spec.schedule is no text")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::answer;

    const V1: &str = "batch.tutorial.xebec.dev/v1";
    const V2: &str = "batch.tutorial.xebec.dev/v2";

    fn object(version: &str, schedule: &Value) -> Value {
        json!({
            "apiVersion": version, "kind": "CronJob",
            "metadata": { "name": "tick", "uid": "u", "labels": { "a": "b" } },
            "spec": { "schedule": schedule, "suspend": true },
            "status": { "active": ["tick-1"] },
        })
    }

    fn asked(desired: &str, objects: &[Value]) -> Value {
        let review = answer(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": { "uid": "7", "desiredAPIVersion": desired, "objects": objects },
        }));
        assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(review["response"]["uid"], "7");
        review["response"].clone()
    }

    #[test]
    fn all_objects_are_converted_in_order_and_back() {
        let one = object(V1, &json!("*/5 * * * *"));
        let two = object(V1, &json!("@every 5m"));
        let there = asked(V2, &[one.clone(), two.clone()]);
        assert_eq!(there["result"]["status"], "Success");
        let parts = json!({"minute": "*/5", "hour": "*", "dayOfMonth": "*", "month": "*", "dayOfWeek": "*"});
        let objects = there["convertedObjects"].as_array().unwrap();
        assert_eq!(objects[..], [object(V2, &parts), object(V2, &json!({"text": "@every 5m"}))]);
        let back = asked(V1, objects);
        assert_eq!(back["convertedObjects"], json!([one, two]));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let refused = |object: Value, text: &str| {
            let response = asked(V2, &[object]);
            assert_eq!(response["result"], json!({"status": "Failure", "message": text}));
            assert!(response["convertedObjects"].is_null());
        };
        refused(
            object("batch.tutorial.xebec.dev/v3", &json!("")),
            r#"tick: there is no version "batch.tutorial.xebec.dev/v3""#,
        );
        refused(object("batch/v1", &json!("")), r#"tick: there is no version "batch/v1""#);
        refused(object(V1, &json!(5)), "tick: spec.schedule is no text");
    }
}
