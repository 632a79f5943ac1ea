//! Optional values.

use crate::env::{Function, Library, Overload};
use crate::error::Error;
use crate::syntax::Macro;
use crate::types::Type;
use crate::value::{List, Value};

pub fn optional() -> Library {
    let v = || Type::Param("V");
    let opt = || Type::optional(v());
    let list = || Type::list(v());
    let map = || Type::map(Type::Param("K"), v());
    let opts = || Type::list(opt());
    let member = |name, id, params: Vec<Type>, result, implementation| {
        Function::new(name, [Overload::member(id, params, result, implementation)])
    };
    let global = |name, id, params: Vec<Type>, result, implementation| {
        Function::new(name, [Overload::global(id, params, result, implementation)])
    };
    let index = |id, container, key| Overload::global(id, [container, key], opt(), never);
    let k = || Type::Param("K");
    let functions = vec![
        global("optional.of", "optional_of", vec![v()], opt(), of),
        global("optional.ofNonZeroValue", "optional_ofNonZeroValue", vec![v()], opt(), of_non_zero),
        global("optional.none", "optional_none", vec![], opt(), |_| Ok(Value::NONE)),
        global("optional.unwrap", "optional_unwrap", vec![opts()], list(), unwrap),
        member("unwrapOpt", "optional_unwrapOpt", vec![opts()], list(), unwrap),
        member("value", "optional_value", vec![opt()], v(), value),
        member("hasValue", "optional_hasValue", vec![opt()], Type::Bool, has_value),
        member("or", "optional_or_optional", vec![opt(), opt()], opt(), never),
        member("orValue", "optional_orValue_value", vec![opt(), v()], v(), never),
        member("first", "list_first", vec![list()], opt(), first),
        member("last", "list_last", vec![list()], opt(), last),
        Function::new(
            "_[?_]",
            [
                index("list_optindex_optional_int", list(), Type::Int),
                index("optional_list_optindex_optional_int", Type::optional(list()), Type::Int),
                index("map_optindex_optional_value", map(), k()),
                index("optional_map_optindex_optional_value", Type::optional(map()), k()),
            ],
        ),
        Function::new(
            "_[_]",
            [
                index("optional_list_index_int", Type::optional(list()), Type::Int),
                index("optional_map_index_value", Type::optional(map()), k()),
            ],
        ),
    ];
    let types = vec![Type::optional(Type::Dyn)];
    Library { functions, types, macros: Macro::OPTIONAL }
}

/// Of operators that the evaluator carries out itself.
fn never<'a>(_args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

fn of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    args.first().cloned().map(Value::some).ok_or(Error::NoSuchOverload)
}

fn of_non_zero<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [value] if value.is_zero() => Ok(Value::NONE),
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn value<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => Err(Error::refused("optional.none() dereference")),
        _ => Err(Error::NoSuchOverload),
    }
}

fn has_value<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn unwrap<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = args else { return Err(Error::NoSuchOverload) };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(inner) => values.extend(inner.map(|it| (*it).clone())),
            other => return Err(Error::refused(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(values))
}

fn at<'a>(list: &List<'a>, index: Option<usize>) -> Result<Value<'a>, Error> {
    let value = match index {
        Some(index) => list.get(index)?,
        None => None,
    };
    Ok(value.map_or(Value::NONE, Value::some))
}

fn first<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::List(list)] => at(list, Some(0)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn last<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::List(list)] => at(list, list.len().checked_sub(1)),
        _ => Err(Error::NoSuchOverload),
    }
}
