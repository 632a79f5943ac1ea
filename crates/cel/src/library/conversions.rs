//! Conversions between types, and `type` and `dyn`.

use crate::cost::{CallEstimate, STRING_TRAVERSAL, SizeEstimate, traversal};
use crate::env::{Function, Overload};
use crate::error::Error;
use crate::estimate::CallShape;
use crate::types::Type;
use crate::value::{Bytes, Duration, Text, Timestamp, Value};

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// A row of a conversion: the overload's id and what it takes.
type From1 = (&'static str, Type);

fn conversion(
    name: &'static str,
    to: &Type,
    from: Vec<From1>,
    implementation: crate::env::Implementation,
) -> Function {
    let overload = |(id, it): From1| {
        let overload = Overload::global(id, [it], to.clone(), implementation);
        match id {
            "string_to_bytes" => overload.cost_if_resolved(cost).estimate(estimate_bytes),
            "bytes_to_string" => overload.cost_if_resolved(cost).estimate(estimate_string),
            _ => overload,
        }
    };
    Function::new(name, from.into_iter().map(overload).collect::<Vec<_>>())
}

pub(super) fn functions() -> Vec<Function> {
    let any = || Type::Param("A");
    let ints = vec![
        ("int64_to_int64", Type::Int),
        ("double_to_int64", Type::Double),
        ("duration_to_int64", Type::Duration),
        ("string_to_int64", Type::String),
        ("timestamp_to_int64", Type::Timestamp),
        ("uint64_to_int64", Type::Uint),
    ];
    let uints = vec![
        ("uint64_to_uint64", Type::Uint),
        ("double_to_uint64", Type::Double),
        ("int64_to_uint64", Type::Int),
        ("string_to_uint64", Type::String),
    ];
    let doubles = vec![
        ("double_to_double", Type::Double),
        ("int64_to_double", Type::Int),
        ("string_to_double", Type::String),
        ("uint64_to_double", Type::Uint),
    ];
    let strings = vec![
        ("string_to_string", Type::String),
        ("bool_to_string", Type::Bool),
        ("bytes_to_string", Type::Bytes),
        ("double_to_string", Type::Double),
        ("duration_to_string", Type::Duration),
        ("int64_to_string", Type::Int),
        ("timestamp_to_string", Type::Timestamp),
        ("uint64_to_string", Type::Uint),
    ];
    let bools = vec![("bool_to_bool", Type::Bool), ("string_to_bool", Type::String)];
    let bytes = vec![("bytes_to_bytes", Type::Bytes), ("string_to_bytes", Type::String)];
    let spans = vec![
        ("duration_to_duration", Type::Duration),
        ("int64_to_duration", Type::Int),
        ("string_to_duration", Type::String),
    ];
    let times = vec![
        ("timestamp_to_timestamp", Type::Timestamp),
        ("int64_to_timestamp", Type::Int),
        ("string_to_timestamp", Type::String),
    ];
    vec![
        conversion("int", &Type::Int, ints, to_int),
        conversion("uint", &Type::Uint, uints, to_uint),
        conversion("double", &Type::Double, doubles, to_double),
        conversion("string", &Type::String, strings, to_string),
        conversion("bool", &Type::Bool, bools, to_bool),
        conversion("bytes", &Type::Bytes, bytes, to_bytes),
        conversion("duration", &Type::Duration, spans, to_duration),
        conversion("timestamp", &Type::Timestamp, times, to_timestamp),
        conversion("type", &Type::type_of(any()), vec![("type", any())], type_of),
        conversion("dyn", &Type::Dyn, vec![("to_dyn", any())], to_dyn),
    ]
}

fn cost(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(args.first().map_or(0, Value::size))
}

/// A character is four bytes at most.
fn estimate_bytes(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    let result = SizeEstimate::new(size.min, size.max.saturating_mul(4));
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), result))
}

fn estimate_string(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    let result = SizeEstimate::new(size.min / 4, size.max);
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), result))
}

fn to_int<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Int(match value {
        Value::Int(it) => *it,
        Value::Uint(it) => i64::try_from(*it).map_err(|_| Error::IntOverflow)?,
        #[expect(clippy::cast_possible_truncation, reason = "checked by the guard")]
        Value::Double(it) if *it > -TWO_TO_63 && *it < TWO_TO_63 => *it as i64,
        Value::Double(_) => return Err(Error::IntOverflow),
        Value::String(text) => text.parse().map_err(|_| unreadable("int"))?,
        Value::Timestamp(it) => it.seconds(),
        Value::Duration(it) => it.nanoseconds(),
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn unreadable(to: &str) -> Error {
    inconvertible("string", to)
}

fn inconvertible(from: &str, to: &str) -> Error {
    Error::refused(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_uint<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Uint(match value {
        Value::Uint(it) => *it,
        Value::Int(it) => u64::try_from(*it).map_err(|_| Error::UintOverflow)?,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as guarded")]
        Value::Double(it) if *it >= 0.0 && *it < TWO_TO_64 => *it as u64,
        Value::Double(_) => return Err(Error::UintOverflow),
        Value::String(text) => text.parse().map_err(|_| unreadable("uint"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "as the language defines it")]
fn to_double<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Double(match value {
        Value::Double(it) => *it,
        Value::Int(it) => *it as f64,
        Value::Uint(it) => *it as f64,
        Value::String(text) => text.parse().map_err(|_| unreadable("double"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn to_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [value] => text_of(value),
        _ => Err(Error::NoSuchOverload),
    }
}

/// What `string` makes of a value.
pub(super) fn text_of<'a>(value: &Value<'a>) -> Result<Value<'a>, Error> {
    Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(it) => it.to_string().into(),
        Value::Int(it) => it.to_string().into(),
        Value::Uint(it) => it.to_string().into(),
        Value::Double(it) => double(*it).into(),
        Value::Duration(it) => it.to_string().into(),
        Value::Timestamp(it) => it.to_string().into(),
        Value::Type(name) => Value::String(name.clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned().into(),
            Err(_) => {
                let why = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(Error::refused(why));
            }
        },
        _ => return Err(Error::NoSuchOverload),
    })
}

/// The shortest text that reads back, with an exponent where Go's `%g` has one.
fn double(it: f64) -> String {
    if it.is_nan() {
        return "NaN".to_owned();
    }
    if it.is_infinite() {
        return if it > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if it == 0.0 || (1e-4..1e21).contains(&it.abs()) {
        return it.to_string();
    }
    let text = format!("{it:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn to_bool<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Bool(it)] => Ok(Value::Bool(*it)),
        [Value::String(text)] => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(unreadable("bool")),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Bytes(_)] => Ok(args[0].clone()),
        [Value::String(Text::Borrowed(text))] => Ok(Value::Bytes(Bytes::Borrowed(text.as_bytes()))),
        [Value::String(text)] => Ok(text.as_bytes().to_vec().into()),
        _ => Err(Error::NoSuchOverload),
    }
}

fn to_duration<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let span = match args {
        [Value::Duration(it)] => *it,
        // Declared upstream, and not done.
        [Value::Int(_)] => return Err(inconvertible("int", "google.protobuf.Duration")),
        [Value::String(text)] => {
            Duration::parse(text).ok_or_else(|| unreadable("google.protobuf.Duration"))?
        }
        _ => return Err(Error::NoSuchOverload),
    };
    Ok(Value::Duration(span))
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let at = match args {
        [Value::Timestamp(it)] => *it,
        [Value::Int(seconds)] => {
            Timestamp::from_seconds(*seconds).ok_or(Error::TimestampOverflow)?
        }
        [Value::String(text)] => {
            Timestamp::parse(text).ok_or_else(|| unreadable("google.protobuf.Timestamp"))?
        }
        _ => return Err(Error::NoSuchOverload),
    };
    Ok(Value::Timestamp(at))
}

fn type_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [value] => Ok(Value::Type(Text::Shared(value.type_name().into()))),
        _ => Err(Error::NoSuchOverload),
    }
}

fn to_dyn<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    args.first().cloned().ok_or(Error::NoSuchOverload)
}
