//! From a review and the path to what is answered. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Review(Value),
    /// After some seconds.
    Late(u64, Value),
    Never,
    Text(String),
    Endless,
    Unknown,
}

pub(super) fn reply(path: &str, review: &Value) -> Reply {
    let path = path.trim_matches('/');
    let (what, with) = path.split_once('/').unwrap_or((path, ""));
    let object = match &review["request"]["object"] {
        Value::Null => &review["request"]["oldObject"],
        object => object,
    };
    let response = match what {
        "allow" | "lie" => json!({"allowed": true}),
        "deny" => denied(with),
        "deny-marked" if is_marked(object, with) => {
            denied(&format!("the object is marked by {with}"))
        }
        "deny-marked" => json!({"allowed": true}),
        "label" => added(object, &["metadata", "labels", with], &json!("yes")),
        "annotate" => added(object, &["metadata", "annotations", with], &json!("yes")),
        "data" => added(object, &["data", with], &json!("yes")),
        "container" => {
            let image = object["spec"]["containers"][0]["image"].clone();
            let container = json!({"name": with, "image": image});
            patched(&json!([{"op": "add", "path": "/spec/containers/-", "value": container}]))
        }
        "delay" => {
            let seconds = with.parse().unwrap_or(1);
            return Reply::Late(seconds, answered(review, json!({"allowed": true})));
        }
        "convert" => return Reply::Review(converted(review)),
        "hang" => return Reply::Never,
        "garbage" => return Reply::Text("<html>not a review</html>".to_owned()),
        "endless" => return Reply::Endless,
        _ => return Reply::Unknown,
    };
    let mut answer = answered(review, response);
    if what == "lie" {
        answer["response"]["uid"] = json!("another");
    }
    Reply::Review(answer)
}

fn answered(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

fn denied(why: &str) -> Value {
    match why {
        "" => json!({"allowed": false}),
        why => json!({"allowed": false, "status": {"code": 403, "message": why}}),
    }
}

fn is_marked(object: &Value, key: &str) -> bool {
    let metadata = &object["metadata"];
    [&metadata["labels"], &metadata["annotations"], &object["data"]]
        .iter()
        .any(|it| it[key] == "deny")
}

fn patched(operations: &Value) -> Value {
    json!({
        "allowed": true, "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string()),
    })
}

/// With `value` at `path`, whose last step but one is a map that may be missing.
fn added(object: &Value, path: &[&str], value: &Value) -> Value {
    let pointer = |steps: &[&str]| -> String {
        steps.iter().map(|it| format!("/{}", it.replace('~', "~0").replace('/', "~1"))).collect()
    };
    let map = pointer(&path[..path.len() - 1]);
    let mut operations = Vec::new();
    if object.pointer(&map).is_none_or(Value::is_null) {
        operations.push(json!({"op": "add", "path": map, "value": {}}));
    }
    operations.push(json!({"op": "add", "path": pointer(path), "value": value}));
    patched(&json!(operations))
}

/// v1 has `hostPort: "host:port"` where v2 has `host` and `port`.
fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let wanted = &request["desiredAPIVersion"];
    let is_v2 = wanted.as_str().is_some_and(|it| it.ends_with("/v2"));
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.clone();
        let Some(fields) = object.as_object_mut() else { return object };
        let text = |it: Option<Value>| match it {
            Some(Value::String(it)) => it,
            _ => String::new(),
        };
        if is_v2 && let Some(both) = fields.remove("hostPort") {
            let both = text(Some(both));
            let (host, port) = both.split_once(':').unwrap_or((&both, ""));
            fields.insert("host".to_owned(), json!(host));
            fields.insert("port".to_owned(), json!(port));
        } else if !is_v2 && fields.contains_key("host") {
            let (host, port) = (text(fields.remove("host")), text(fields.remove("port")));
            fields.insert("hostPort".to_owned(), json!(format!("{host}:{port}")));
        }
        object
    };
    let objects = request["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let converted: Vec<Value> = objects.iter().map(convert).collect();
    answered(review, json!({"result": {"status": "Success"}, "convertedObjects": converted}))
}
