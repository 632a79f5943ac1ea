//! `+ - * / %` and the sign. Integers never wrap.

use crate::cost::traversal;
use crate::env::{Function, Overload};
use crate::error::Error;
use crate::types::Type;
use crate::value::{Duration, Value, concat};

pub(super) fn functions() -> Vec<Function> {
    let of = |id, left: Type, right: Type, result: Type, implementation| {
        Overload::global(id, [left, right], result, implementation)
    };
    let same = |id, it: Type, implementation| {
        Overload::global(id, [it.clone(), it.clone()], it, implementation)
    };
    let (time, span) = (|| Type::Timestamp, || Type::Duration);
    let list = Type::list(Type::Param("A"));
    vec![
        Function::new(
            "_+_",
            [
                same("add_bytes", Type::Bytes, add).cost_if_resolved(cost_join),
                same("add_double", Type::Double, add),
                same("add_duration_duration", span(), add),
                of("add_duration_timestamp", span(), time(), time(), add),
                of("add_timestamp_duration", time(), span(), time(), add),
                same("add_int64", Type::Int, add),
                same("add_list", list, add),
                same("add_string", Type::String, add).cost_if_resolved(cost_join),
                same("add_uint64", Type::Uint, add),
            ],
        ),
        Function::new(
            "_-_",
            [
                same("subtract_double", Type::Double, subtract),
                same("subtract_duration_duration", span(), subtract),
                same("subtract_int64", Type::Int, subtract),
                of("subtract_timestamp_duration", time(), span(), time(), subtract),
                of("subtract_timestamp_timestamp", time(), time(), span(), subtract),
                same("subtract_uint64", Type::Uint, subtract),
            ],
        ),
        Function::new(
            "_*_",
            numbers(["multiply_double", "multiply_int64", "multiply_uint64"], multiply),
        ),
        Function::new("_/_", numbers(["divide_double", "divide_int64", "divide_uint64"], divide)),
        Function::new(
            "_%_",
            [same("modulo_int64", Type::Int, modulo), same("modulo_uint64", Type::Uint, modulo)],
        ),
        Function::new(
            "-_",
            [
                Overload::global("negate_double", [Type::Double], Type::Double, negate),
                Overload::global("negate_int64", [Type::Int], Type::Int, negate),
            ],
        ),
    ]
}

fn numbers(ids: [&'static str; 3], implementation: crate::env::Implementation) -> Vec<Overload> {
    let types = [Type::Double, Type::Int, Type::Uint];
    let overload = |(id, it): (&'static str, Type)| {
        Overload::global(id, [it.clone(), it.clone()], it, implementation)
    };
    ids.into_iter().zip(types).map(overload).collect()
}

fn cost_join(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(args.iter().map(Value::size).sum())
}

fn span(n: Option<i64>) -> Result<Duration, Error> {
    n.map(Duration::from_nanoseconds).ok_or(Error::IntOverflow)
}

fn add<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => {
            a.checked_add(*b).map(Value::Int).ok_or(Error::IntOverflow)
        }
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_add(*b).map(Value::Uint).ok_or(Error::UintOverflow)
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(text.into())
        }
        [Value::Bytes(a), Value::Bytes(b)] => Ok([&**a, &**b].concat().into()),
        [Value::List(a), Value::List(b)] => concat(a, b),
        [Value::Duration(a), Value::Duration(b)] => {
            span(a.nanoseconds().checked_add(b.nanoseconds())).map(Value::Duration)
        }
        [Value::Timestamp(at), Value::Duration(span)]
        | [Value::Duration(span), Value::Timestamp(at)] => at.add(*span).map(Value::Timestamp),
        _ => Err(Error::NoSuchOverload),
    }
}

fn subtract<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => {
            a.checked_sub(*b).map(Value::Int).ok_or(Error::IntOverflow)
        }
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_sub(*b).map(Value::Uint).ok_or(Error::UintOverflow)
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => {
            span(a.nanoseconds().checked_sub(b.nanoseconds())).map(Value::Duration)
        }
        [Value::Timestamp(at), Value::Duration(b)] => {
            at.add(span(b.nanoseconds().checked_neg())?).map(Value::Timestamp)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => a.since(*b).map(Value::Duration),
        _ => Err(Error::NoSuchOverload),
    }
}

fn multiply<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => {
            a.checked_mul(*b).map(Value::Int).ok_or(Error::IntOverflow)
        }
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_mul(*b).map(Value::Uint).ok_or(Error::UintOverflow)
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn divide<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Error::DivisionByZero)
        }
        [Value::Int(a), Value::Int(b)] => {
            a.checked_div(*b).map(Value::Int).ok_or(Error::IntOverflow)
        }
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn modulo<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Error::ModulusByZero)
        }
        [Value::Int(a), Value::Int(b)] => {
            a.checked_rem(*b).map(Value::Int).ok_or(Error::IntOverflow)
        }
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn negate<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a)] => a.checked_neg().map(Value::Int).ok_or(Error::IntOverflow),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => Err(Error::NoSuchOverload),
    }
}
