//! JSON to protobuf and back for every served kind; bytes made by hand; and bytes that nobody made
//! on purpose.

use std::collections::BTreeSet;

use apimachinery::schema::SchemaRef;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::table::{Count, Field, Message, Shape, Table};
use super::{Envelope, Error, encode, encode_event, encode_list, encode_telling, message, wire};
use crate::kind::Kind;

/// An object with every field of the message, except where a message would be in itself.
fn full(message: Message, around: &mut Vec<Message>) -> Value {
    around.push(message);
    let mut object = Map::new();
    for field in Table::get().fields(message) {
        if let Shape::Message(inner) = field.shape
            && around.contains(&inner)
        {
            continue;
        }
        let value = value_of(field, around);
        match (field.count, value) {
            (Count::Inline, Value::Object(inner)) => object.extend(inner),
            (Count::List, value) => drop(object.insert(field.name.into(), json!([value]))),
            (Count::Map, value) => drop(object.insert(field.name.into(), json!({ "key": value }))),
            (_, value) => drop(object.insert(field.name.into(), value)),
        }
    }
    around.pop();
    object.into()
}

fn value_of(field: &Field, around: &mut Vec<Message>) -> Value {
    let is_odd = field.number % 2 == 1;
    let schema = Table::get().schema();
    let mut nested = || if around.contains(&schema) { json!({}) } else { full(schema, around) };
    match field.shape {
        Shape::Text => json!("a \"text\" é"),
        Shape::Int32 => json!(-7),
        Shape::Int64 => json!(1_i64 << 40),
        Shape::Bool => json!(true),
        Shape::Bytes => json!("AQL/"),
        Shape::Double => json!(1.5),
        Shape::Message(inner) => full(inner, around),
        Shape::IntOrString if is_odd => json!(80),
        Shape::IntOrString => json!("http"),
        Shape::MicroTime => json!("2024-01-02T03:04:05.000006Z"),
        Shape::Time => json!("2024-01-02T03:04:05Z"),
        Shape::Quantity => json!("1500m"),
        Shape::Raw => json!({"f:metadata": {"f:name": {}}}),
        Shape::SchemaOrBool if is_odd => json!(false),
        Shape::SchemaOrStrings if is_odd => json!(["a", "b"]),
        Shape::SchemaOrArray if is_odd => json!([nested()]),
        Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrStrings => nested(),
        Shape::Strings => json!(["a", "b"]),
    }
}

fn round_trip(definition: &str, names: (&str, &str), object: &Value) -> Value {
    let message = message(definition).expect("the table has the kind");
    let bytes = encode(message, names, object.to_string().as_bytes()).expect("it encodes");
    let envelope = Envelope::parse(&bytes).expect("an envelope");
    assert_eq!((envelope.api_version, envelope.kind), names);
    serde_json::from_slice(&envelope.to_json(message).expect("it decodes")).expect("JSON")
}

fn check_kind(kind: &dyn Kind) {
    let (names, definition) = (kind.names(), kind.definition());
    let message = message(&definition).unwrap_or_else(|| panic!("{definition} is not listed"));
    let version = names.api_version();
    let mut object = full(message, &mut Vec::new());
    object["apiVersion"] = json!(version);
    object["kind"] = json!(names.kind);
    assert_eq!(round_trip(&definition, (&version, &names.kind), &object), object);
    let typed = kind.decode(object.to_string().as_bytes()).expect("the typed kind takes it");
    let typed: Value = serde_json::from_slice(&typed.encode()).expect("JSON");
    assert_eq!(without_inner_names(typed), object, "{definition}");
}

/// Of objects in an object, JSON alone has the names, which are always the same.
fn without_inner_names(mut object: Value) -> Value {
    let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        claim.retain(|name, _| name != "apiVersion" && name != "kind");
    }
    object
}

#[test]
fn every_field_of_every_served_kind_survives_and_is_one_that_the_typed_kind_has() {
    for kind in crate::kinds().into_iter().chain(crate::served::bodies()) {
        check_kind(kind.as_ref());
    }
}

/// Every name that the schema has is one of the message's.
fn check_known(schema: &SchemaRef, message: Message, path: &str, seen: &mut BTreeSet<String>) {
    let schema = schema.resolve();
    if !seen.insert(schema.definition.clone()) && !schema.definition.is_empty() {
        return;
    }
    for (name, property) in &schema.properties {
        let is_object = schema.properties.contains_key("metadata");
        let is_name = is_object && matches!(name.as_str(), "apiVersion" | "kind");
        let Some(slot) = Table::get().slot(message, name) else {
            assert!(is_name, "{path}.{name} would be lost");
            continue;
        };
        let property = property.resolve();
        let below = match slot.field.count {
            Count::List => property.items.clone(),
            Count::Map => property.additional.clone(),
            Count::One | Count::Inline => Some(property),
        };
        if let (Shape::Message(inner), Some(below)) = (slot.field.shape, below) {
            check_known(&below, inner, &format!("{path}.{name}"), seen);
        }
    }
}

#[test]
fn no_field_of_a_served_kind_is_lost() {
    for kind in crate::kinds() {
        let message = message(&kind.definition()).expect("it is listed");
        check_known(&kind.schema(), message, &kind.names().kind, &mut BTreeSet::new());
    }
}

/// What a reader of the message finds, as the typed kind writes it.
fn read_back(kind: &dyn Kind, message: Message, bytes: &[u8]) -> Vec<u8> {
    let envelope = Envelope::parse(bytes).expect("an envelope");
    kind.decode(&envelope.to_json(message).expect("it decodes")).expect("an object").encode()
}

/// `object` with some of its values taken out, or put to zero, as the seed says.
fn thinned(value: &mut Value, seed: &mut u64) {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let draw = (*seed >> 33) % 16;
    match value {
        Value::Object(fields) if draw == 0 => fields.clear(),
        Value::Object(fields) => fields.values_mut().for_each(|it| thinned(it, seed)),
        Value::Array(items) if draw == 0 => items.clear(),
        Value::Array(items) => items.iter_mut().for_each(|it| thinned(it, seed)),
        Value::Bool(value) if draw < 8 => *value = false,
        Value::Number(value) if draw < 4 && value.is_i64() => *value = 0.into(),
        _ => {}
    }
}

proptest! {
    #[test]
    fn what_is_said_to_be_exact_is_read_back_to_the_byte(seed in any::<u64>(), at in 0..64usize) {
        let kinds = crate::kinds();
        let kind = kinds[at % kinds.len()].as_ref();
        let message = message(&kind.definition()).expect("it is listed");
        let names = (kind.names().api_version(), kind.names().kind.clone());
        let names = (names.0.as_str(), names.1.as_str());
        let mut object = full(message, &mut Vec::new());
        let mut seed = seed;
        thinned(&mut object, &mut seed);
        object["apiVersion"] = json!(names.0);
        object["kind"] = json!(names.1);
        // What the typed kind does not take (a schema that is `{}` where it wants more) is not
        // stored either.
        let Ok(typed) = kind.decode(object.to_string().as_bytes()) else { return Ok(()) };
        let json = typed.encode();
        let encoded = encode_telling(message, names, &json).expect("it encodes");
        let found = read_back(kind, message, &encoded.bytes);
        if encoded.is_exact {
            prop_assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&json));
        }
        // What was lost once is lost for good: the second time there is nothing to lose.
        let again = encode_telling(message, names, &found).expect("it encodes");
        prop_assert_eq!(read_back(kind, message, &again.bytes), found);
    }
}

#[test]
fn a_full_object_is_exact_and_zeros_are_not() {
    for kind in crate::kinds() {
        let message = message(&kind.definition()).expect("it is listed");
        let object = full(message, &mut Vec::new()).to_string();
        let encoded = encode_telling(message, ("v1", "X"), object.as_bytes()).expect("it encodes");
        assert!(encoded.is_exact, "{}", kind.definition());
    }
    let check = |spec: Value, is_exact: bool| {
        let pod = message("io.k8s.api.core.v1.PodSpec").expect("it is listed");
        let encoded = encode_telling(pod, ("v1", "X"), spec.to_string().as_bytes());
        assert_eq!(encoded.expect("it encodes").is_exact, is_exact, "{spec}");
    };
    check(json!({"hostNetwork": true, "terminationGracePeriodSeconds": 0}), true);
    check(json!({"hostNetwork": false}), false);
    check(json!({"containers": []}), false);
    check(json!({"nodeSelector": {}}), false);
    check(json!({"nodeSelector": {"a": ""}}), true);
    check(json!({"volumes": [{"name": "a", "emptyDir": {}}]}), true);
    check(json!({"nodeName": ""}), false);
}

#[test]
fn what_is_written_below_objects_is_known_too() {
    for kind in crate::kinds() {
        for subresource in kind.subresources().iter().filter(|it| !it.is_stream()) {
            let below = subresource.kind_below(kind.names());
            assert!(super::message_of(&below).is_some(), "{below:?}");
        }
        assert_eq!(super::message_of(&kind.names().gvk()), message(&kind.definition()));
    }
}

#[test]
fn null_is_a_value_in_a_list_and_nothing_as_a_field() {
    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let object = json!({"enum": ["a", null], "default": null, "type": null});
    let expected = json!({"apiVersion": "v1", "kind": "X", "enum": ["a", null]});
    assert_eq!(round_trip(props, ("v1", "X"), &object), expected);
}

#[test]
fn status_and_delete_options_survive() {
    for definition in [super::STATUS, super::DELETE_OPTIONS] {
        let message = message(definition).expect("it is listed");
        let object = full(message, &mut Vec::new());
        let mut expected = object.clone();
        expected["apiVersion"] = json!("v1");
        expected["kind"] = json!("X");
        assert_eq!(round_trip(definition, ("v1", "X"), &object), expected);
    }
}

fn put(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        wire::put_bytes(&mut out, *number, bytes);
    }
    out
}

/// A message made by hand, as JSON without its names.
fn check(definition: &str, object: &[u8], expected: Result<Value, Error>) {
    let envelope = Envelope { api_version: "", kind: "", object };
    let found = envelope.to_json(message(definition).expect("it is listed"));
    let found = found.map(|it| serde_json::from_slice::<Value>(&it).expect("JSON"));
    assert_eq!(found, expected, "{object:x?}");
}

const DEPLOYMENT_SPEC: &str = "io.k8s.api.apps.v1.DeploymentSpec";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const SERVICE_PORT: &str = "io.k8s.api.core.v1.ServicePort";

#[test]
fn zero_is_left_out_unless_it_means_something() {
    check(DEPLOYMENT_SPEC, &[0x08, 0, 0x28, 0], Ok(json!({"replicas": 0})));
    check(OBJECT_META, &put(&[(1, b""), (3, b"x"), (8, b"")]), Ok(json!({"namespace": "x"})));
    check(
        OBJECT_META,
        &put(&[(8, &[0x08, 0, 0x10, 0])]),
        Ok(json!({"creationTimestamp": "1970-01-01T00:00:00Z"})),
    );
    check(SERVICE_PORT, &put(&[(4, &[0x08, 0, 0x10, 0, 0x1a, 0])]), Ok(json!({"targetPort": 0})));
    check(
        SERVICE_PORT,
        &put(&[(4, &[0x08, 1, 0x10, 0, 0x1a, 1, b'x'])]),
        Ok(json!({"targetPort": "x"})),
    );
}

#[test]
fn the_last_scalar_wins_and_parts_of_a_message_are_one() {
    check(OBJECT_META, &put(&[(1, b"a"), (1, b"b")]), Ok(json!({"name": "b"})));
    let template = "io.k8s.api.core.v1.PodTemplateSpec";
    let parts = put(&[(1, &put(&[(1, b"a")])), (1, &put(&[(3, b"b")]))]);
    check(template, &parts, Ok(json!({"metadata": {"name": "a", "namespace": "b"}})));
    let entries = put(&[(11, &put(&[(1, b"k"), (2, b"1")])), (11, &put(&[(1, b"k"), (2, b"2")]))]);
    check(OBJECT_META, &entries, Ok(json!({"labels": {"k": "2"}})));
}

#[test]
fn lists_of_numbers_may_be_packed() {
    let context = "io.k8s.api.core.v1.PodSecurityContext";
    check(context, &[0x20, 5, 0x22, 2, 6, 7], Ok(json!({"supplementalGroups": [5, 6, 7]})));
}

#[test]
fn fields_that_are_not_known_are_passed_over() {
    check(OBJECT_META, &put(&[(999, b"x"), (1, b"a")]), Ok(json!({"name": "a"})));
}

#[test]
fn broken_bytes_are_told_apart() {
    let inside = |path: &str, why| Err(Error::Inside { path: path.into(), why: Box::new(why) });
    check(OBJECT_META, &[0x0a, 5, b'a'], Err(Error::Truncated));
    check(OBJECT_META, &[0x0b], Err(Error::Tag));
    check(OBJECT_META, &[0xff; 11], Err(Error::Varint));
    check(OBJECT_META, &[0x0a, 1, 0xff], inside("name", Error::Utf8));
    check(OBJECT_META, &[0x08, 1], inside("name", Error::Type));
    let entry = put(&[(17, &put(&[(7, &put(&[(1, b"{")]))]))]);
    check(OBJECT_META, &entry, inside("managedFields.fieldsV1", Error::Json));
    let mut schema = Vec::new();
    for _ in 0..100 {
        schema = put(&[(28, &schema)]);
    }
    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let envelope = Envelope { api_version: "", kind: "", object: &schema };
    let err = envelope.to_json(message(props).expect("it is listed")).expect_err("too deep");
    assert!(err.to_string().ends_with("messages are nested too deep"), "{err}");
}

#[test]
fn an_envelope_needs_its_magic_and_something_in_it() {
    let err = |bytes: &[u8]| Envelope::parse(bytes).expect_err("no envelope");
    assert_eq!(err(b""), Error::Magic);
    assert_eq!(err(b"k8s"), Error::Magic);
    assert_eq!(err(b"{\"kind\": \"Pod\"}"), Error::Magic);
    assert_eq!(err(b"k8s\0"), Error::Truncated);
    let bytes = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\x22\x00";
    let envelope = Envelope::parse(bytes).expect("an envelope");
    assert_eq!(envelope, Envelope { api_version: "v1", kind: "Pod", object: b"" });
}

#[test]
fn lists_and_events_are_framed_as_clients_read_them() {
    let item = message("io.k8s.api.core.v1.Namespace").expect("it is listed");
    let items = [&br#"{"metadata":{"name":"a"}}"#[..]];
    let names = ("v1", "NamespaceList");
    let bytes = encode_list(item, names, br#"{"resourceVersion":"7"}"#, items.into_iter());
    let bytes = bytes.expect("it encodes");
    let envelope = Envelope::parse(&bytes).expect("an envelope");
    let list = message("io.k8s.api.core.v1.NamespaceList").expect("it is listed");
    let json: Value =
        serde_json::from_slice(&envelope.to_json(list).expect("it decodes")).expect("JSON");
    let expected = json!({
        "apiVersion": "v1", "kind": "NamespaceList",
        "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}],
    });
    assert_eq!(json, expected);
    let event = encode_event("ADDED", b"k8s\0x");
    assert_eq!(event, b"\0\0\0\x10\x0a\x05ADDED\x12\x07\x0a\x05k8s\0x");
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic_and_what_decodes_is_json(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0..29usize,
    ) {
        let kinds = crate::kinds();
        let definition = kinds[at % kinds.len()].definition();
        let message = message(&definition).expect("it is listed");
        let _ = Envelope::parse(&bytes);
        if let Ok(json) = (Envelope { api_version: "v1", kind: "X", object: &bytes }).to_json(message) {
            serde_json::from_slice::<Value>(&json).expect("JSON");
        }
    }

    #[test]
    fn a_broken_object_is_no_panic(cut in 0..4000usize, flip in any::<u8>(), at in 0..29usize) {
        let kinds = crate::kinds();
        let definition = kinds[at % kinds.len()].definition();
        let message = message(&definition).expect("it is listed");
        let object = full(message, &mut Vec::new()).to_string();
        let mut bytes = encode(message, ("v1", "X"), object.as_bytes()).expect("it encodes");
        let cut = cut % bytes.len();
        bytes[cut] ^= flip;
        if let Ok(envelope) = Envelope::parse(&bytes) {
            let _ = envelope.to_json(message);
        }
        bytes.truncate(cut);
        if let Ok(envelope) = Envelope::parse(&bytes) {
            let _ = envelope.to_json(message);
        }
    }
}

#[test]
fn messages_in_messages_end_before_the_stack_does() {
    // Half of the smallest stack that requests are answered on, and not optimized.
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(|| {
        let nested = |levels: usize| {
            // `not`, in itself.
            (0..levels).fold(Vec::new(), |inner, _| {
                let mut outer = Vec::new();
                wire::put_bytes(&mut outer, 28, &inner);
                outer
            })
        };
        let read = |object: &[u8]| {
            let envelope = Envelope { api_version: "v1", kind: "Schema", object };
            envelope.to_json(Table::get().schema())
        };
        let json = read(&nested(60)).expect("not too deep");
        // What was read can be written, and read as a tree.
        encode(Table::get().schema(), ("v1", "Schema"), &json).expect("written");
        serde_json::from_slice::<Value>(&json).expect("JSON");
        for levels in [65, 1_000, 2_000] {
            let err = read(&nested(levels)).expect_err("too deep").to_string();
            assert!(err.ends_with("messages are nested too deep"), "{err}");
        }
        // JSON in a field that holds any.
        let deep = [b'['; 100_000];
        let mut object = Vec::new();
        wire::put_message(&mut object, 36, |out| wire::put_bytes(out, 1, &deep));
        read(&object).expect_err("no JSON");
    });
    thread.expect("a thread").join().expect("it ends well");
}
