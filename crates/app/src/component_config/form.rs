//! What a field may look like, and when two values of it say the same. Pure.

use std::net::{IpAddr, SocketAddr};

use apimachinery::quantity::Amount;
use jiff::SignedDuration;
use serde_json::Value;

const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Bool,
    Int,
    /// From 0 to 65535.
    Port,
    /// From 1 on.
    Count,
    Number,
    Text,
    Ip,
    /// `192.0.2.1:80`, `[::1]:80`, or the address alone; an empty host is every one.
    Socket,
    /// Such as `10Mi`, above 0.
    Quantity,
    /// As Go writes them: `1m30s`.
    Duration,
    /// A duration, or a number of nanoseconds.
    Time,
    List,
    Ips,
    Texts,
    Taints,
    Map,
    /// Names of feature gates, on or off.
    Gates,
}

/// (its name in a table, the form, what is expected in words)
const ALL: &[(&str, Form, &str)] = &[
    ("bool", Form::Bool, "true or false"),
    ("int", Form::Int, "a whole number"),
    ("port", Form::Port, "a port, from 0 to 65535"),
    ("count", Form::Count, "a whole number above 0"),
    ("number", Form::Number, "a number"),
    ("string", Form::Text, "a text"),
    ("ip", Form::Ip, "an IP address"),
    ("socket", Form::Socket, "an address and a port, such as 0.0.0.0:10256"),
    ("quantity", Form::Quantity, "an amount such as 10Mi"),
    ("duration", Form::Duration, "a duration such as 1m30s"),
    ("time", Form::Time, "a duration such as 5s"),
    ("list", Form::List, "a list"),
    ("ips", Form::Ips, "a list of IP addresses"),
    ("texts", Form::Texts, "a list of texts"),
    ("taints", Form::Taints, "a list of taints with key, value and effect"),
    ("map", Form::Map, "a mapping"),
    ("gates", Form::Gates, "a mapping of names to true or false"),
];

impl Form {
    pub(super) fn parse(name: &str) -> Option<Self> {
        ALL.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// What is expected, in words, if the value is something else.
    pub(super) fn mismatch(self, value: &Value) -> Option<&'static str> {
        let expected = ALL.iter().find(|it| it.1 == self).map_or("something else", |it| it.2);
        (!self.is_matched(value)).then_some(expected)
    }

    fn is_matched(self, value: &Value) -> bool {
        let is_text = |is_right: fn(&str) -> bool| value.as_str().is_some_and(is_right);
        let are_all = |is_right: fn(&Value) -> bool| {
            value.as_array().is_some_and(|items| items.iter().all(is_right))
        };
        match self {
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64(),
            Self::Port => value.as_u64().is_some_and(|it| u16::try_from(it).is_ok()),
            Self::Count => value.as_u64().is_some_and(|it| it > 0 && u32::try_from(it).is_ok()),
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
            Self::Ip => is_text(|it| it.parse::<IpAddr>().is_ok()),
            Self::Socket => is_text(|it| socket(it, 0).is_some()),
            Self::Quantity => {
                is_text(|it| Amount::parse(it).is_ok_and(|it| !it.is_zero() && !it.is_negative()))
            }
            Self::Duration => value.is_string() && self.nanoseconds(value).is_some(),
            Self::Time => self.nanoseconds(value).is_some(),
            Self::List => value.is_array(),
            Self::Ips => are_all(|it| it.as_str().is_some_and(|it| it.parse::<IpAddr>().is_ok())),
            Self::Texts => are_all(Value::is_string),
            Self::Taints => are_all(is_taint),
            Self::Map => value.is_object(),
            Self::Gates => value.as_object().is_some_and(|it| it.values().all(Value::is_boolean)),
        }
    }

    pub(super) fn nanoseconds(self, value: &Value) -> Option<i128> {
        match (self, value) {
            (Self::Duration | Self::Time, Value::String(text)) => {
                text.parse().ok().map(|it: SignedDuration| it.as_nanos())
            }
            (Self::Time, Value::Number(number)) => number.as_i64().map(i128::from),
            _ => None,
        }
    }

    pub(super) fn is_same(self, a: &Value, b: &Value) -> bool {
        match self {
            Self::Duration | Self::Time => self.nanoseconds(a) == self.nanoseconds(b),
            Self::Number => a.as_f64() == b.as_f64(),
            _ => a == b,
        }
    }
}

/// Upstream's way to write where something listens: with the usual port if none is said.
pub(super) fn socket(text: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|it| SocketAddr::from(([0, 0, 0, 0], it))),
        None => text.parse().ok(),
    }
}

fn is_taint(value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let is_known = |name: &String| ["key", "value", "effect", "timeAdded"].contains(&name.as_str());
    fields.keys().all(is_known)
        && fields.values().all(|it| it.is_string() || it.is_null())
        && text("key").is_some_and(|it| !it.is_empty())
        && text("effect").is_some_and(|it| TAINT_EFFECTS.contains(&it))
}
