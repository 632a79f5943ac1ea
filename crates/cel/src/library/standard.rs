//! The functions of the language itself.

use super::pattern::pattern;
use super::{arithmetic, conversions, order, times};
use crate::cost::{
    CallEstimate, CostEstimate, REGEX_LENGTH, STRING_TRAVERSAL, SizeEstimate, scale, traversal,
};
use crate::env::{Function, Library, Overload, Prepared};
use crate::error::Error;
use crate::estimate::CallShape;
use crate::syntax::Macro;
use crate::types::Type;
use crate::value::{Key, Value};

/// Operators, conversions, strings, times and the macros.
pub fn standard() -> Library {
    let mut functions = logic();
    functions.extend(arithmetic::functions());
    functions.extend(order::functions());
    functions.extend(conversions::functions());
    functions.extend(times::functions());
    functions.extend(text());
    functions.extend(containers());
    Library { functions, types: types(), macros: Macro::STANDARD }
}

/// The types that have names.
fn types() -> Vec<Type> {
    vec![
        Type::Bool,
        Type::Bytes,
        Type::Double,
        Type::Duration,
        Type::Int,
        Type::list(Type::Dyn),
        Type::map(Type::Dyn, Type::Dyn),
        Type::Null,
        Type::String,
        Type::Timestamp,
        Type::Type(None),
        Type::Uint,
    ]
}

/// Of operators that the evaluator carries out itself.
fn never<'a>(_args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

fn logic() -> Vec<Function> {
    let any = || Type::Param("A");
    let two = [Type::Bool, Type::Bool];
    let of = |name, id, params: Vec<Type>, result| {
        Function::new(name, [Overload::global(id, params, result, never)])
    };
    let equality = |name, id| {
        let overload = Overload::global(id, [any(), any()], Type::Bool, never);
        Function::new(name, [overload.estimate(estimate_comparison)])
    };
    vec![
        of("_?_:_", "conditional", vec![Type::Bool, any(), any()], any()),
        of("_&&_", "logical_and", two.to_vec(), Type::Bool),
        of("_||_", "logical_or", two.to_vec(), Type::Bool),
        of("!_", "logical_not", vec![Type::Bool], Type::Bool),
        of("@not_strictly_false", "not_strictly_false", vec![Type::Bool], Type::Bool),
        equality("_==_", "equals"),
        equality("_!=_", "not_equals"),
    ]
}

/// The smaller side is gone over at most.
pub(super) fn estimate_comparison(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (left, right) = (call.operand(0)?, call.operand(1)?);
    if matches!((left.of_type, right.of_type), (Type::Opaque(a), Type::Opaque(b)) if a == b) {
        return Some(CallEstimate::of(CostEstimate::ONE));
    }
    let known = |it: Option<SizeEstimate>| it.unwrap_or(SizeEstimate::UNKNOWN);
    let max = known(left.computed).max.min(known(right.computed).max);
    let range = SizeEstimate::new(u64::from(max > 0), max);
    Some(CallEstimate::of(range.scaled(STRING_TRAVERSAL)))
}

fn text() -> Vec<Function> {
    let two = || [Type::String, Type::String];
    let member = |name, id, implementation, cost, estimate| {
        let overload = Overload::member(id, two(), Type::Bool, implementation);
        Function::new(name, [overload.cost_if_resolved(cost).estimate(estimate)])
    };
    vec![
        member("contains", "contains_string", contains, cost_contains, estimate_contains),
        member("startsWith", "starts_with_string", starts_with, cost_affix, estimate_affix),
        member("endsWith", "ends_with_string", ends_with, cost_affix, estimate_affix),
        Function::new(
            "matches",
            [
                // Called as a function it costs 1, as upstream has it.
                Overload::global("matches", two(), Type::Bool, matches).prepare(prepare_matches),
                Overload::member("matches_string", two(), Type::Bool, matches)
                    .cost_if_resolved(cost_matches)
                    .estimate(estimate_matches)
                    .prepare(prepare_matches),
            ],
        ),
    ]
}

fn strings<'s>(args: &'s [Value<'_>]) -> Result<(&'s str, &'s str), Error> {
    match args {
        [Value::String(a), Value::String(b)] => Ok((a, b)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn contains<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    strings(args).map(|(text, part)| Value::Bool(text.contains(part)))
}

fn starts_with<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    strings(args).map(|(text, part)| Value::Bool(text.starts_with(part)))
}

fn ends_with<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    strings(args).map(|(text, part)| Value::Bool(text.ends_with(part)))
}

fn matches<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, of) = strings(args)?;
    Ok(Value::Bool(pattern(of)?.on(text).is_match(text)))
}

/// A constant pattern is compiled once.
fn prepare_matches(constants: &[Option<&Value<'static>>]) -> Option<Result<Prepared, Error>> {
    let [_, Some(Value::String(of))] = constants else { return None };
    Some(pattern(of).map(|regex| -> Prepared {
        std::sync::Arc::new(move |args| {
            strings(args).map(|(text, _)| Value::Bool(regex.on(text).is_match(text)))
        })
    }))
}

fn size_at(args: &[Value<'_>], index: usize) -> u64 {
    args.get(index).map_or(0, Value::size)
}

fn cost_matches(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    let text = traversal(size_at(args, 0) + 1);
    text.saturating_mul(scale(size_at(args, 1), REGEX_LENGTH))
}

fn estimate_matches(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (text, of) = (call.operand_size(0)?, call.operand_size(1)?);
    let text = text.add(SizeEstimate::fixed(1)).scaled(STRING_TRAVERSAL);
    Some(CallEstimate::of(text.multiply(of.scaled(REGEX_LENGTH))))
}

fn cost_contains(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(size_at(args, 0)).saturating_mul(traversal(size_at(args, 1)))
}

fn estimate_contains(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (text, part) = (call.operand_size(0)?, call.operand_size(1)?);
    let cost = text.scaled(STRING_TRAVERSAL).multiply(part.scaled(STRING_TRAVERSAL));
    Some(CallEstimate::of(cost))
}

/// By the whole text, while the estimate goes by the affix: upstream's numbers.
fn cost_affix(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(size_at(args, 0))
}

fn estimate_affix(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.operand_size(1)?.scaled(STRING_TRAVERSAL)))
}

fn containers() -> Vec<Function> {
    let a = || Type::Param("A");
    let list = || Type::list(a());
    let map = || Type::map(a(), Type::Param("B"));
    let sized = |id, member_id, it: Type| {
        [
            Overload::global(id, [it.clone()], Type::Int, size),
            Overload::member(member_id, [it], Type::Int, size),
        ]
    };
    let in_list = Overload::global("in_list", [a(), list()], Type::Bool, is_in);
    let overloads = [
        sized("size_bytes", "bytes_size", Type::Bytes),
        sized("size_list", "list_size", list()),
        sized("size_map", "map_size", map()),
        sized("size_string", "string_size", Type::String),
    ];
    vec![
        Function::new("size", overloads.into_iter().flatten().collect::<Vec<_>>()),
        Function::new(
            "@in",
            [
                in_list.cost_if_resolved(cost_in).estimate(estimate_in),
                Overload::global("in_map", [a(), map()], Type::Bool, is_in),
            ],
        ),
        Function::new(
            "_[_]",
            [
                Overload::global("index_list", [list(), Type::Int], a(), never),
                Overload::global("index_map", [map(), a()], Type::Param("B"), never),
            ],
        ),
    ]
}

fn size<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [it @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(i64::try_from(it.size()).unwrap_or(i64::MAX)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn is_in<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [value, Value::Map(map)] => match Key::from_value(value) {
            Some(key) => Ok(Value::Bool(map.get(&key)?.is_some())),
            None => Ok(Value::Bool(false)),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

fn cost_in(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    size_at(args, 1)
}

fn estimate_in(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.operand_size(1)?.scaled(1.0)))
}
