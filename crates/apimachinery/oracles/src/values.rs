//! One text for one value, whoever made it.

use std::collections::BTreeMap;

use cel::{Key, Value};
use kube_cel::cel as other;
use serde_json::Value as Json;

/// A double is the same if its bits are, and zero has no sign.
fn double(it: f64) -> String {
    if it.is_nan() { "NaN".to_owned() } else { format!("{:?}", it + 0.0) }
}

fn list(items: Vec<String>) -> String {
    format!("[{}]", items.join(", "))
}

fn map(entries: BTreeMap<String, String>) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, it)| format!("{key}: {it}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn time(seconds: i64, nanoseconds: u32) -> String {
    format!("timestamp {seconds} {nanoseconds}")
}

pub(crate) fn ours(value: &Value<'_>) -> String {
    match value {
        Value::Double(it) => double(*it),
        Value::Duration(it) => format!("duration {}", it.nanoseconds()),
        Value::Timestamp(it) => match chrono::DateTime::parse_from_rfc3339(&it.to_string()) {
            Ok(it) => time(it.timestamp(), it.timestamp_subsec_nanos()),
            Err(err) => format!("{it}: {err}"),
        },
        Value::List(items) => {
            list(items.iter().map(|it| it.map_or_else(|err| err.to_string(), |it| ours(&it))).collect())
        }
        Value::Map(entries) => {
            let one = |key: Key<'_>| {
                let found = entries.get(&key).ok().flatten();
                (ours(&key.to_value()), found.map_or_else(String::new, |it| ours(&it)))
            };
            map(entries.keys().into_iter().map(one).collect())
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("some {}", ours(inner)),
        other => other.to_string(),
    }
}

pub(crate) fn cel_core(value: &cel_core::Value) -> Result<String, String> {
    use cel_core::{MapKey, OptionalValue, Value as V};
    Ok(match value {
        V::Null => "null".to_owned(),
        V::Bool(it) => it.to_string(),
        V::Int(it) => it.to_string(),
        V::UInt(it) => format!("{it}u"),
        V::Double(it) => double(*it),
        V::String(it) => format!("{:?}", &**it),
        V::Bytes(it) => format!("b\"{}\"", it.escape_ascii()),
        V::List(items) => list(items.iter().map(cel_core).collect::<Result<_, _>>()?),
        V::Map(entries) => {
            let mut all = BTreeMap::new();
            for (key, it) in entries.iter() {
                let key = match key {
                    MapKey::Bool(it) => it.to_string(),
                    MapKey::Int(it) => it.to_string(),
                    MapKey::UInt(it) => format!("{it}u"),
                    MapKey::String(it) => format!("{:?}", &**it),
                };
                all.insert(key, cel_core(it)?);
            }
            map(all)
        }
        V::Timestamp(it) => time(it.seconds, u32::try_from(it.nanos).unwrap_or(u32::MAX)),
        V::Duration(it) => {
            let nanoseconds = i128::from(it.seconds) * 1_000_000_000 + i128::from(it.nanos);
            format!("duration {nanoseconds}")
        }
        V::Type(it) => it.name.to_string(),
        V::Optional(OptionalValue::None) => "none".to_owned(),
        V::Optional(OptionalValue::Some(inner)) => format!("some {}", cel_core(inner)?),
        V::Error(err) => return Err(err.to_string()),
        other => format!("{other:?}"),
    })
}

pub(crate) fn cel_core_from(json: &Json) -> cel_core::Value {
    use cel_core::{MapKey, Value as V, ValueMap};
    match json {
        Json::Null => V::Null,
        Json::Bool(it) => V::Bool(*it),
        Json::Number(it) => match it.as_i64() {
            Some(it) => V::Int(it),
            None => V::Double(it.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(it) => V::String(it.as_str().into()),
        Json::Array(items) => V::List(items.iter().map(cel_core_from).collect()),
        Json::Object(entries) => {
            let entries =
                entries.iter().map(|(key, it)| (MapKey::from(key.as_str()), cel_core_from(it)));
            V::Map(std::sync::Arc::new(ValueMap::from_entries(entries)))
        }
    }
}

pub(crate) fn kube(value: &other::Value) -> String {
    use other::Value as V;
    use other::objects::{Key as OtherKey, OptionalValue};
    match value {
        V::Null => "null".to_owned(),
        V::Bool(it) => it.to_string(),
        V::Int(it) => it.to_string(),
        V::UInt(it) => format!("{it}u"),
        V::Float(it) => double(*it),
        V::String(it) => format!("{:?}", it.as_str()),
        V::Bytes(it) => format!("b\"{}\"", it.escape_ascii()),
        V::List(items) => list(items.iter().map(kube).collect()),
        V::Map(entries) => {
            let one = |(key, it): (&OtherKey, &V)| {
                let key = match key {
                    OtherKey::Bool(it) => it.to_string(),
                    OtherKey::Int(it) => it.to_string(),
                    OtherKey::Uint(it) => format!("{it}u"),
                    OtherKey::String(it) => format!("{:?}", it.as_str()),
                };
                (key, kube(it))
            };
            map(entries.map.iter().map(one).collect())
        }
        V::Duration(it) => {
            let seconds = i128::from(it.num_seconds()) * 1_000_000_000;
            format!("duration {}", seconds + i128::from(it.subsec_nanos()))
        }
        V::Timestamp(it) => time(it.timestamp(), it.timestamp_subsec_nanos()),
        V::Opaque(_) => match <&OptionalValue>::try_from(value) {
            Ok(it) => it.value().map_or_else(|| "none".to_owned(), |it| format!("some {}", kube(it))),
            Err(_) => format!("{value:?}"),
        },
        V::Function(name, _) => format!("function {name}"),
    }
}

pub fn kube_from(json: &Json) -> other::Value {
    use std::collections::HashMap;
    use std::sync::Arc;

    use other::Value as V;
    use other::objects::{Key as OtherKey, Map};
    match json {
        Json::Null => V::Null,
        Json::Bool(it) => V::Bool(*it),
        Json::Number(it) => match it.as_i64() {
            Some(it) => V::Int(it),
            None => V::Float(it.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(it) => V::String(Arc::new(it.clone())),
        Json::Array(items) => V::List(Arc::new(items.iter().map(kube_from).collect())),
        Json::Object(entries) => {
            let entries: HashMap<OtherKey, V> = entries
                .iter()
                .map(|(key, it)| (OtherKey::String(Arc::new(key.clone())), kube_from(it)))
                .collect();
            V::Map(Map { map: Arc::new(entries) })
        }
    }
}
