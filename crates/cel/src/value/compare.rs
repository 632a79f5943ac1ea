//! Equality and order. Numbers of different types compare by their mathematical value.

use std::cmp::Ordering;

use super::{Map, Value, json};
use crate::error::Error;
use crate::work;

impl Value<'_> {
    /// Equality as `==` has it: values of different types are unequal, numbers compare as numbers.
    pub fn equals(&self, other: &Value<'_>) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) | (Value::Type(a), Value::Type(b)) => {
                work::note(work::of_bytes(a.len()));
                a.as_str() == b.as_str()
            }
            (Value::Bytes(a), Value::Bytes(b)) => {
                work::note(work::of_bytes(a.len()));
                **a == **b
            }
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::List(a), Value::List(b)) => json::lists_equal(a, b)?,
            (Value::Map(a), Value::Map(b)) => maps_equal(a, b)?,
            (Value::Optional(Some(a)), Value::Optional(Some(b))) => a.equals(b)?,
            (Value::Opaque(a), Value::Opaque(b)) => a.equals(&**b),
            _ => numbers(self, other) == Some(Some(Ordering::Equal)),
        })
    }

    /// Order, for types that have one.
    pub fn compare(&self, other: &Value<'_>) -> Result<Ordering, Error> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Ok(a.as_str().cmp(b.as_str())),
            (Value::Bytes(a), Value::Bytes(b)) => Ok((**a).cmp(&**b)),
            (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
            _ => match numbers(self, other) {
                Some(Some(order)) => Ok(order),
                Some(None) => Err(Error::refused("NaN values cannot be ordered")),
                None => Err(Error::NoSuchOverload),
            },
        }
    }
}

fn maps_equal(a: &Map<'_>, b: &Map<'_>) -> Result<bool, Error> {
    if let (Map::Json { entries, shape }, Map::Json { entries: other, .. }) = (a, b)
        && !shape.has_equal_rest(entries, other)
    {
        return Ok(false);
    }
    let keys = a.keys();
    if keys.len() != b.len() {
        return Ok(false);
    }
    for key in keys {
        work::take(1)?;
        let same = match (a.get(&key)?, b.get(&key)?) {
            (Some(a), Some(b)) => a.equals(&b)?,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two numbers; inside, `None` if one is not a number after all (NaN).
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Option<Ordering>> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(Some(a.cmp(b))),
        (Value::Uint(a), Value::Uint(b)) => Some(Some(a.cmp(b))),
        (Value::Double(a), Value::Double(b)) => Some(a.partial_cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(Some(i128::from(*a).cmp(&i128::from(*b)))),
        (Value::Uint(a), Value::Int(b)) => Some(Some(i128::from(*a).cmp(&i128::from(*b)))),
        (Value::Double(a), Value::Int(b)) => Some(double_to_int(*a, i128::from(*b))),
        (Value::Double(a), Value::Uint(b)) => Some(double_to_int(*a, i128::from(*b))),
        (Value::Int(a), Value::Double(b)) => {
            Some(double_to_int(*b, i128::from(*a)).map(Ordering::reverse))
        }
        (Value::Uint(a), Value::Double(b)) => {
            Some(double_to_int(*b, i128::from(*a)).map(Ordering::reverse))
        }
        _ => None,
    }
}

fn double_to_int(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    // Beyond 2^64 there is no integer to compare with.
    if a.abs() >= 2f64.powi(65) {
        return Some(if a > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
    let whole = a.trunc() as i128;
    let rest = a.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal);
    Some(whole.cmp(&b).then(rest))
}
