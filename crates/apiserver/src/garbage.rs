//! What any bytes do to those who read requests: each function takes some, and panics if they panic
//! or make something that is beyond the bounds. The fuzz targets call them, and the test suite does
//! with bytes that are nearly right.

use std::sync::{Arc, OnceLock};

use api::Kind;
use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::protobuf::{self, Envelope};
use apimachinery::apply::{self, Resets, Writer};
use apimachinery::bounds::{DEPTH_MAX, depth, validate_object_text};
use apimachinery::selector::{Fields, Labels};
use apimachinery::{FieldErrors, patch};
use client::Verb;
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::conversion;
use crate::http::query::Query;
use crate::http::{negotiate, path};
use crate::pipeline::parse_any_token;
use crate::yaml;

fn deployments() -> &'static Arc<dyn Kind> {
    static KIND: OnceLock<Arc<dyn Kind>> = OnceLock::new();
    KIND.get_or_init(|| {
        let mut kinds = api::kinds().into_iter();
        kinds.find(|it| it.names().kind == "Deployment").expect("the kind is built in")
    })
}

fn live() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "a", "finalizers": ["a.b/c", "d.e/f"],
            "managedFields": [{
                "manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }],
        },
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [
                {"name": "a", "image": "x", "ports": [{"containerPort": 80}]}, {"name": "b"},
            ]}},
        },
    })
}

/// A patch to a Deployment; the first byte says of which kind.
pub fn patches(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let (schema, live) = (deployments().schema(), live());
    let tree = || serde_json::from_slice(rest).ok().filter(|_| validate_object_text(rest).is_ok());
    let patched = match form % 4 {
        0 => patch::json(&live, rest).ok(),
        1 => tree().map(|it: Value| patch::merge(&live, &it)),
        2 => tree().and_then(|it| patch::strategic(&schema, &live, &it).ok()),
        _ => tree().and_then(|it| {
            let writer = Writer {
                manager: "n",
                api_version: "apps/v1",
                subresource: "",
                now: jiff::Timestamp::UNIX_EPOCH,
                resets: Resets::Only(&["status"]),
            };
            let is_forced = form & 4 == 0;
            apply::apply(&schema, Some(&live), &it, &writer, is_forced).ok()
        }),
    };
    let Some(patched) = patched else { return };
    // What is around a patch's values in the object is not as deep as this.
    assert!(depth(&patched) <= DEPTH_MAX + 20, "{}", depth(&patched));
    body(&serde_json::to_vec(&patched).expect("a tree is JSON"));
}

/// An object in JSON, from its decoding to its validation.
pub fn body(bytes: &[u8]) {
    let kind = deployments();
    if validate_object_text(bytes).is_err() {
        return;
    }
    let _ = kind.schema().validate_fields(bytes);
    let Ok(mut object) = kind.decode(bytes) else { return };
    kind.apply_defaults(object.as_mut());
    kind.prepare_create(object.as_mut());
    kind.validate(object.as_ref(), &mut FieldErrors::new());
    let encoded = object.encode();
    protobuf::encode_object(&encoded).expect("what was decoded can be expressed");
}

/// An object in protobuf; the first byte says of which kind.
pub fn protobuf_body(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let kinds = api::kinds();
    let kind = &kinds[usize::from(*choice) % kinds.len()];
    let Some(message) = protobuf::message_of(&kind.names().gvk()) else { return };
    let envelope = Envelope::parse(rest);
    let bare = Envelope { api_version: "", kind: "", object: rest };
    if let Ok(json) = envelope.unwrap_or(bare).to_json(message) {
        let _ = kind.decode(&json);
    }
}

/// YAML, and what became of it.
pub fn yaml_body(bytes: &[u8]) {
    if let Ok(value) = yaml::parse(bytes) {
        assert!(depth(&value) <= DEPTH_MAX, "{}", depth(&value));
        body(value.to_string().as_bytes());
    }
}

/// A path with its parameters.
pub fn paths(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (url_path, parameters) = text.split_once('?').unwrap_or((&text, ""));
    let _ = path::parse(url_path);
    if let Ok(uri) = text.parse::<http::Uri>() {
        let _ = path::parse(uri.path());
    }
    let query = Query::parse(Some(parameters));
    for verb in [Verb::Create, Verb::Update, Verb::Patch] {
        let _ = query.write_options(verb);
    }
    let _ = query.delete_options(b"");
    if let Ok(list) = query.list_options() {
        tokens(list.continue_token.unwrap_or_default().as_bytes());
        selectors(list.label_selector.unwrap_or_default().as_bytes());
        selectors(list.field_selector.unwrap_or_default().as_bytes());
    }
}

/// A selector of labels and of fields: what is understood says what it says.
pub fn selectors(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(labels) = Labels::parse(&text) {
        assert_eq!(Labels::parse(&labels.to_string()).ok(), Some(labels));
    }
    if let Ok(fields) = Fields::parse(&text) {
        assert_eq!(Fields::parse(&fields.to_string()).ok(), Some(fields));
    }
}

/// A continue token.
pub fn tokens(bytes: &[u8]) {
    parse_any_token(&String::from_utf8_lossy(bytes));
    // Most bytes are no base64; what would be inside is tried as well.
    parse_any_token(&URL_SAFE_NO_PAD.encode(bytes));
}

/// What a client says that it takes.
pub fn accepted(bytes: &[u8]) {
    negotiate::try_all(&String::from_utf8_lossy(bytes));
}

/// What an admission webhook answers with.
pub fn admission_reviews(bytes: &[u8]) {
    admission::webhook::garbage::answers(bytes);
}

/// What a conversion webhook answers with.
pub fn conversion_reviews(bytes: &[u8]) {
    conversion::take_any(bytes);
}

/// A schema of a CustomResourceDefinition and, on the line behind it, an object: what may be stored
/// of the one can be told of the other.
pub fn definitions(bytes: &[u8]) {
    let mut lines = bytes.splitn(2, |it| *it == b'\n');
    let (schema, object) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if validate_object_text(schema).is_err() || validate_object_text(object).is_err() {
        return;
    }
    let Some(own) = defined(schema) else { return };
    let _ = own.schema().validate_fields(object);
    let Ok(mut object) = own.decode(object) else { return };
    own.apply_defaults(object.as_mut());
    own.prepare_create(object.as_mut());
    own.validate(object.as_ref(), &mut FieldErrors::new());
}

/// The kind of a definition with this schema, if there may be one.
fn defined(schema: &[u8]) -> Option<CustomKind> {
    let schema: Value = serde_json::from_slice(schema).ok()?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ropes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "ropes", "singular": "rope", "kind": "Rope", "listKind": "RopeList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let kind = definition_kind();
    let mut definition = kind.decode(definition.to_string().as_bytes()).ok()?;
    kind.apply_defaults(definition.as_mut());
    kind.prepare_create(definition.as_mut());
    let mut errors = FieldErrors::new();
    kind.validate(definition.as_ref(), &mut errors);
    if !errors.is_empty() {
        return None;
    }
    let definition = definition.downcast_ref::<CustomResourceDefinition>()?;
    Some(CustomKind::new(definition, &definition.spec.versions[0]))
}

fn definition_kind() -> &'static Arc<dyn Kind> {
    static KIND: OnceLock<Arc<dyn Kind>> = OnceLock::new();
    KIND.get_or_init(|| {
        let mut kinds = api::kinds().into_iter();
        let is_it = |it: &Arc<dyn Kind>| it.names().kind == "CustomResourceDefinition";
        kinds.find(is_it).expect("the kind is built in")
    })
}

#[cfg(test)]
mod tests {
    use stdx::Random;

    use super::{
        accepted, admission_reviews, body, conversion_reviews, definitions, patches, paths,
        protobuf_body, selectors, tokens, yaml_body,
    };

    const N: usize = 2_000;

    type Takes = fn(&[u8]);

    /// Right bytes with some of them exchanged, repeated or cut.
    fn disturbed(right: &[u8], random: &Random) -> Vec<u8> {
        let mut bytes = right.to_vec();
        for _ in 0..=random.below(4) {
            let at = usize::try_from(random.below(bytes.len().max(1) as u64)).unwrap_or(0);
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.splice(at..at, right.iter().copied().skip(at).take(9)).for_each(drop),
                2 => bytes.splice(at.., right[at.min(right.len())..].to_vec()).for_each(drop),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|it| {
                    *it = u8::try_from(random.below(256)).unwrap_or(0);
                }),
            }
        }
        bytes
    }

    #[test]
    fn bytes_that_are_nearly_right_break_nothing() {
        let random = Random::from_seed(7);
        let deployment = br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},
            "spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"containers":[{"name":"a"}]}}}}"#;
        let json_patch = br#"#[{"op":"copy","from":"/spec","path":"/spec/template"},
            {"op":"move","from":"/metadata/finalizers/0","path":"/spec/x"}]"#;
        let strategic = br#"&{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"b"}],
            "containers":[{"name":"b","$patch":"delete"},{"name":"c"}]}}},"metadata":{"$retainKeys":["name"]}}"#;
        let token = br#"{"v":"meta.k8s.io/v1","rv":12,"start":"default/a\u0000"}"#;
        let reviewed = br#"@{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u",
            "allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEveCIsInZhbHVlIjoieSJ9XQ==",
            "warnings":["a"],"auditAnnotations":{"b":"c"}}}"#;
        let denied = br#"C{"response":{"allowed":false,"status":{"code":409,"reason":"Conflict","details":{"causes":[{}]}}}}"#;
        let converted = br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"q",
            "result":{"status":"Success"},"convertedObjects":[{"apiVersion":"e.io/v2","kind":"Rope",
            "metadata":{"name":"a","uid":"u","labels":{"x":"y"},"finalizers":["z"]},"spec":{"length":1}}]}}"#;
        let defined = br#"{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":0,"default":1,"x-kubernetes-validations":[{"rule":"self >= 0 && self < oldSelf","message":"no"}]},"b":{"type":"array","maxItems":4,"items":{"type":"string","maxLength":9,"pattern":"^a+$"},"x-kubernetes-list-type":"set"},"c":{"x-kubernetes-int-or-string":true},"d":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"x-kubernetes-validations":[{"rule":"self.b.all(x, x.startsWith('a'))"}]}}}
{"apiVersion":"example.com/v1","kind":"Rope","metadata":{"name":"a"},"spec":{"a":3,"b":["a","aa"],"c":"5%","d":{"e":[1]}}}"#;
        let schema = defined.split(|it| *it == b'\n').next().unwrap_or_default();
        assert!(super::defined(schema).is_some(), "it gets as far as objects");
        let seeds: [(Takes, &[u8]); 13] = [
            (admission_reviews, reviewed),
            (admission_reviews, denied),
            (conversion_reviews, converted),
            (definitions, defined),
            (accepted, b"application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,*/*;q=0.1, application/yaml"),
            (selectors, b"a in (b,c),d!=e,!f,g,h notin (i),metadata.name=x\\,y"),
            (tokens, token),
            (body, deployment),
            (patches, json_patch),
            (patches, strategic),
            (yaml_body, b"a: &a [1, {b: c}]\nd: *a\ne:\n- f\n- *a\n"),
            (paths, b"/apis/apps/v1/namespaces/a/deployments/b%2Fc?limit=1&labelSelector=a%20in(b,c),!d&fieldSelector=a%3Db"),
            (protobuf_body, b"\x10k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x08\x0a\x06\x0a\x04abcd"),
        ];
        for (take, right) in seeds {
            take(right);
            (0..N).for_each(|_| take(&disturbed(right, &random)));
        }
    }
}
