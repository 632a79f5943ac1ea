//! `< <= > >=` for all types that have an order, numbers across types.

use std::cmp::Ordering;

use super::standard::estimate_comparison;
use crate::cost::traversal;
use crate::env::{Function, Implementation, Overload};
use crate::error::Error;
use crate::types::Type;
use crate::value::Value;

/// Ids are `<operator>_<types>`, as upstream's; one row per operator.
macro_rules! operators {
    ($($name:literal $id:literal $implementation:ident;)*) => {
        pub(super) fn functions() -> Vec<Function> {
            vec![$(Function::new($name, overloads(
                [
                    concat!($id, "_bool"),
                    concat!($id, "_int64"),
                    concat!($id, "_int64_double"),
                    concat!($id, "_int64_uint64"),
                    concat!($id, "_uint64"),
                    concat!($id, "_uint64_double"),
                    concat!($id, "_uint64_int64"),
                    concat!($id, "_double"),
                    concat!($id, "_double_int64"),
                    concat!($id, "_double_uint64"),
                    concat!($id, "_timestamp"),
                    concat!($id, "_duration"),
                    concat!($id, "_string"),
                    concat!($id, "_bytes"),
                ],
                $implementation,
            ))),*]
        }
    };
}

operators! {
    "_<_" "less" less;
    "_<=_" "less_equals" less_or_equal;
    "_>_" "greater" greater;
    "_>=_" "greater_equals" greater_or_equal;
}

fn overloads(ids: [&'static str; 14], implementation: Implementation) -> Vec<Overload> {
    let types = [
        (Type::Bool, Type::Bool),
        (Type::Int, Type::Int),
        (Type::Int, Type::Double),
        (Type::Int, Type::Uint),
        (Type::Uint, Type::Uint),
        (Type::Uint, Type::Double),
        (Type::Uint, Type::Int),
        (Type::Double, Type::Double),
        (Type::Double, Type::Int),
        (Type::Double, Type::Uint),
        (Type::Timestamp, Type::Timestamp),
        (Type::Duration, Type::Duration),
        (Type::String, Type::String),
        (Type::Bytes, Type::Bytes),
    ];
    let overload = |(id, (left, right)): (&'static str, (Type, Type))| {
        let is_sized = matches!(left, Type::String | Type::Bytes);
        let overload = Overload::global(id, [left, right], Type::Bool, implementation);
        if is_sized {
            overload.cost_if_resolved(cost).estimate(estimate_comparison)
        } else {
            overload
        }
    };
    ids.into_iter().zip(types).map(overload).collect()
}

fn cost(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(args.iter().map(Value::size).min().unwrap_or(0))
}

fn compare(args: &[Value<'_>]) -> Result<Ordering, Error> {
    match args {
        [left, right] => left.compare(right),
        _ => Err(Error::NoSuchOverload),
    }
}

fn less<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(args).map(|order| Value::Bool(order.is_lt()))
}

fn less_or_equal<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(args).map(|order| Value::Bool(order.is_le()))
}

fn greater<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(args).map(|order| Value::Bool(order.is_gt()))
}

fn greater_or_equal<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(args).map(|order| Value::Bool(order.is_ge()))
}
