//! cel-go's list extension, version 3.

use crate::cost::{CallEstimate, CostEstimate, LIST_CREATE, STRING_TRAVERSAL, SizeEstimate};
use crate::env::{Function, Library, Overload};
use crate::error::Error;
use crate::estimate::{CallShape, Operand};
use crate::syntax::{Literal, Macro};
use crate::types::Type;
use crate::value::{List, Value, check_size};

pub fn lists() -> Library {
    let list = || Type::list(Type::Param("T"));
    let nested = Type::list(list());
    let flat = |it: Overload| it.cost(cost_flatten).estimate(estimate_flatten);
    let result = |it: Overload| it.cost(cost_result);
    let sort: Vec<Overload> = COMPARABLE.into_iter().map(|(it, id, _)| sorting(id, it)).collect();
    let sort_by: Vec<Overload> =
        COMPARABLE.into_iter().map(|(it, _, id)| sorting_by(id, it)).collect();
    Library {
        functions: vec![
            Function::new(
                "slice",
                [result(Overload::member(
                    "list_slice",
                    [list(), Type::Int, Type::Int],
                    list(),
                    slice,
                ))
                .estimate(estimate_slice)],
            ),
            Function::new(
                "flatten",
                [
                    flat(Overload::member("list_flatten", [nested], list(), flatten)),
                    flat(Overload::member(
                        "list_flatten_int",
                        [Type::list(Type::Dyn), Type::Int],
                        Type::list(Type::Dyn),
                        flatten,
                    )),
                ],
            ),
            Function::new("sort", sort),
            Function::new("@sortByAssociatedKeys", sort_by),
            Function::new(
                "lists.range",
                [result(Overload::global(
                    "lists_range",
                    [Type::Int],
                    Type::list(Type::Int),
                    range,
                ))
                .estimate(estimate_range)],
            ),
            Function::new(
                "reverse",
                [result(Overload::member("list_reverse", [list()], list(), reverse))
                    .estimate(|call| Some(allocating(1.0, call.operand_size(0)?)))],
            ),
            Function::new(
                "distinct",
                [Overload::member("list_distinct", [list()], list(), distinct)
                    .cost(cost_self_compare)
                    .estimate(|call| Some(squared(call.operand_size(0)?, &Type::Dyn)))],
            ),
        ],
        macros: Macro::LISTS,
        ..Library::default()
    }
}

/// Types with an order, and the ids of their sorts.
const COMPARABLE: [(Type, &str, &str); 8] = [
    (Type::Int, "list_int_sort", "list_int_sortByAssociatedKeys"),
    (Type::Uint, "list_uint_sort", "list_uint_sortByAssociatedKeys"),
    (Type::Double, "list_double_sort", "list_double_sortByAssociatedKeys"),
    (Type::Bool, "list_bool_sort", "list_bool_sortByAssociatedKeys"),
    (
        Type::Duration,
        "list_google.protobuf.Duration_sort",
        "list_google.protobuf.Duration_sortByAssociatedKeys",
    ),
    (
        Type::Timestamp,
        "list_google.protobuf.Timestamp_sort",
        "list_google.protobuf.Timestamp_sortByAssociatedKeys",
    ),
    (Type::String, "list_string_sort", "list_string_sortByAssociatedKeys"),
    (Type::Bytes, "list_bytes_sort", "list_bytes_sortByAssociatedKeys"),
];

fn sorting(id: &'static str, it: Type) -> Overload {
    let list = Type::list(it);
    Overload::member(id, [list.clone()], list, sort)
        .cost_if_resolved(cost_self_compare)
        .estimate(|call| estimate_sort(call, 0))
}

fn sorting_by(id: &'static str, it: Type) -> Overload {
    let list = Type::list(Type::Param("T"));
    Overload::member(id, [list.clone(), Type::list(it)], list, sort_by)
        .cost_if_resolved(|args, _| self_compare(args.get(1)))
        .estimate(|call| estimate_sort(call, 1))
}

/// A call that makes a list: one for the call, ten for the list, and so much per element.
fn allocating(factor: f64, size: SizeEstimate) -> CallEstimate {
    let base = CostEstimate::fixed(1 + LIST_CREATE);
    CallEstimate::sized(size.scaled(factor).add(base), size)
}

/// Every element compared to every other, twice; strings also read.
fn squared(size: SizeEstimate, element: &Type) -> CallEstimate {
    let is_text = matches!(element, Type::String | Type::Bytes);
    let factor = 2.0 + if is_text { STRING_TRAVERSAL } else { 0.0 };
    allocating(factor, size.multiply(size))
}

fn estimate_sort(call: &CallShape<'_>, index: usize) -> Option<CallEstimate> {
    let keys = call.operand(index)?;
    let element = match keys.of_type {
        Type::List(element) => &**element,
        _ => &Type::Dyn,
    };
    // A list of unknown elements may be of any type: the overload says which.
    let by_id = if call.overload.contains("string") || call.overload.contains("bytes") {
        &Type::String
    } else {
        element
    };
    Some(squared(call.size(keys), by_id))
}

/// The number that an argument is, if it is a literal.
fn literal_int(operand: Option<&Operand<'_>>, default: u64) -> u64 {
    match operand.and_then(|it| it.literal) {
        Some(Literal::Int(n)) => u64::try_from(*n).unwrap_or(0),
        _ => default,
    }
}

fn estimate_slice(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    let start = literal_int(call.args.first(), 0);
    let end = literal_int(call.args.get(1), size.max);
    Some(allocating(1.0, SizeEstimate::fixed(end.wrapping_sub(start))))
}

fn estimate_range(call: &CallShape<'_>) -> Option<CallEstimate> {
    let n = literal_int(call.args.first(), u64::MAX);
    Some(allocating(1.0, SizeEstimate::fixed(n)))
}

#[expect(clippy::cast_precision_loss, reason = "a depth so large saturates anyway")]
fn estimate_flatten(call: &CallShape<'_>) -> Option<CallEstimate> {
    let depth = match call.args.first() {
        Some(depth) => literal_int(Some(depth), u64::MAX),
        None => 1,
    };
    Some(allocating(depth as f64, call.operand_size(0)?))
}

fn cost_result(_args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    result.map_or(1, Value::size).saturating_add(1 + LIST_CREATE)
}

fn cost_flatten(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    let depth = match args.get(1) {
        Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
        _ => 1,
    };
    let size = args.first().map_or(0, Value::size);
    size.saturating_mul(depth).saturating_add(1 + LIST_CREATE)
}

fn cost_self_compare(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    self_compare(args.first())
}

fn self_compare(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = list else { return 1 + LIST_CREATE };
    let n = (list.len() as u64).saturating_mul(list.len() as u64);
    let is_text = matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_))));
    // Rounded down, unlike other costs.
    let compared = n.saturating_mul(2).saturating_add(if is_text { n / 10 } else { 0 });
    compared.saturating_add(1 + LIST_CREATE)
}

fn list<'s, 'a>(args: &'s [Value<'a>]) -> Result<&'s List<'a>, Error> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Error::NoSuchOverload),
    }
}

fn items<'a>(list: &List<'a>) -> Result<Vec<Value<'a>>, Error> {
    list.iter().collect()
}

fn slice<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let refused = |why: String| Err(Error::refused(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refused("negative indexes not supported".to_owned());
    };
    if from > to {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return refused(format!("list is length {}", list.len()));
    }
    let mut part = Vec::with_capacity(to - from);
    for index in from..to {
        part.extend(list.get(index)?);
    }
    Ok(Value::list(part))
}

fn flatten<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let depth = match args.get(1) {
        None => 1,
        Some(Value::Int(depth)) => *depth,
        Some(_) => return Err(Error::NoSuchOverload),
    };
    if depth < 0 {
        return Err(Error::refused("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list(args)?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, flat: &mut Vec<Value<'a>>) -> Result<(), Error> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat)?,
            other => {
                check_size(flat.len() * size_of::<Value<'_>>())?;
                flat.push(other);
            }
        }
    }
    Ok(())
}

fn sort<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let list = list(args)?;
    let keys = items(list)?;
    sorted(keys.clone(), &keys)
}

fn sort_by<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list), Value::List(keys)] = args else { return Err(Error::NoSuchOverload) };
    sorted(items(list)?, &items(keys)?)
}

fn sorted<'a>(list: Vec<Value<'a>>, keys: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let Some(first) = keys.first() else { return Ok(Value::list(list)) };
    if first.compare(first) == Err(Error::NoSuchOverload) {
        return Err(Error::refused("list elements must be comparable"));
    }
    if keys.iter().any(|it| it.type_name() != first.type_name()) {
        return Err(Error::refused("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..list.len().min(keys.len())).collect();
    order.sort_by(|a, b| keys[*a].compare(&keys[*b]).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|at| list[at].clone()).collect()))
}

fn range<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Int(n)] = args else { return Err(Error::NoSuchOverload) };
    let n_bytes = usize::try_from(*n).unwrap_or(0).saturating_mul(size_of::<Value<'_>>());
    check_size(n_bytes)?;
    Ok(Value::list((0..*n).map(Value::Int).collect()))
}

fn reverse<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut items = items(list(args)?)?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list(args)?.iter() {
        let item = item?;
        let mut is_known = false;
        for known in &unique {
            is_known = is_known || known.equals(&item)?;
        }
        if !is_known {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}

/// What going over a whole tree costs: one for each leaf, strings by their length, rounded down.
pub fn traversal_of(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => {
            list.iter().map(|item| item.map_or(1, |item| traversal_of(&item))).sum()
        }
        Value::Map(map) => {
            let keys = map.keys();
            let of = |key: &crate::value::Key<'_>| match map.get(key) {
                Ok(Some(value)) => traversal_of(&key.to_value()) + traversal_of(&value),
                _ => 1,
            };
            keys.iter().map(of).sum()
        }
        _ => 1,
    }
}

/// What searching or summing a list (or a string) can cost.
pub fn estimate_traversal(call: &CallShape<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let size = call.size(target);
    let Some(element) = call.element(target) else {
        return Some(CallEstimate::of(size.scaled(STRING_TRAVERSAL)));
    };
    let mut each = CostEstimate::ONE;
    if matches!(element.of_type, Type::String | Type::Bytes) {
        each = each.add(call.size(&element).scaled(STRING_TRAVERSAL));
    }
    Some(CallEstimate::of(size.times(each)))
}
