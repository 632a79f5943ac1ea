//! What the operator says about CronJobs that are written, in v1. Pure.

use apimachinery::cron::{Schedule, find_zone};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::schedule::written_out;

/// The names of Jobs have 63 characters at the most, and end with a dash and ten digits.
const NAME_MAX: usize = 63 - 11;

/// The answer to an AdmissionReview of the mutating webhook: a patch that writes the schedule out.
pub(crate) fn default(review: &Value) -> Value {
    let text = review["request"]["object"]["spec"]["schedule"].as_str().unwrap_or_default();
    let written = written_out(text);
    let mut response = json!({ "allowed": true });
    if written != text {
        let patch = json!([{ "op": "replace", "path": "/spec/schedule", "value": written }]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    }
    answer(review, response)
}

/// The answer to an AdmissionReview of the validating webhook: every problem at once.
pub(crate) fn validate(review: &Value) -> Value {
    let object = &review["request"]["object"];
    let problems = problems(object);
    if !problems.is_empty() {
        let status = json!({
            "code": 422, "reason": "Invalid", "message": problems.join("; "),
        });
        return answer(review, json!({ "allowed": false, "status": status }));
    }
    let mut response = json!({ "allowed": true });
    let template = &object["spec"]["jobTemplate"]["spec"];
    if template["template"]["spec"]["restartPolicy"].is_null() {
        let warning = "spec.jobTemplate.spec.template.spec.restartPolicy: a Job needs \
                       OnFailure or Never; none can be started";
        response["warnings"] = json!([warning]);
    }
    answer(review, response)
}

fn problems(object: &Value) -> Vec<String> {
    let (name, spec) = (object["metadata"]["name"].as_str().unwrap_or_default(), &object["spec"]);
    let mut problems = Vec::new();
    if name.len() > NAME_MAX {
        problems.push(format!("metadata.name: must have {NAME_MAX} characters at the most"));
    }
    if let Err(err) = Schedule::parse(spec["schedule"].as_str().unwrap_or_default()) {
        problems.push(format!("spec.schedule: {err}"));
    }
    if let Some(Err(err)) = spec["timeZone"].as_str().map(find_zone) {
        problems.push(format!("spec.timeZone: {err}"));
    }
    problems
}

fn answer(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({ "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    fn review(name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": { "uid": "7", "object": { "metadata": { "name": name }, "spec": spec } },
        })
    }

    #[test]
    fn schedules_are_written_out_by_a_patch() {
        let patch = |schedule: &str| -> Option<Value> {
            let answer = super::default(&review("tick", &json!({ "schedule": schedule })));
            assert_eq!(answer["response"]["uid"], "7");
            assert_eq!(answer["response"]["allowed"], true);
            let patch = STANDARD.decode(answer["response"]["patch"].as_str()?).unwrap();
            Some(serde_json::from_slice(&patch).unwrap())
        };
        assert_eq!(patch("0 * * * *"), None);
        let expected = json!([{"op": "replace", "path": "/spec/schedule", "value": "0 * * * *"}]);
        assert_eq!(patch("@hourly"), Some(expected));
    }

    #[test]
    fn all_problems_are_said_at_once() {
        let said = |name: &str, spec: Value| {
            let response = super::validate(&review(name, &spec))["response"].clone();
            assert_eq!(response["allowed"], response["status"].is_null());
            response["status"]["message"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(said("tick", json!({ "schedule": "0 * * * *", "timeZone": "Europe/Rome" })), "");
        let all = said(&"a".repeat(53), json!({ "schedule": "often", "timeZone": "Atlantis" }));
        for part in ["metadata.name: must have 52", "spec.schedule: ", "; spec.timeZone: "] {
            assert!(all.contains(part), "{all}");
        }
    }

    #[test]
    fn a_template_that_no_job_can_have_is_warned_of() {
        let warnings = |template: Value| {
            let spec = json!({ "schedule": "0 * * * *", "jobTemplate": { "spec": template } });
            super::validate(&review("tick", &spec))["response"]["warnings"].clone()
        };
        assert!(warnings(json!({})).to_string().contains("OnFailure or Never"));
        let fine = json!({ "template": { "spec": { "restartPolicy": "Never" } } });
        assert!(warnings(fine).is_null());
    }
}
