//! `isSorted sum min max indexOf lastIndexOf` of lists. Each goes over the list once.

use std::cmp::Ordering;

use cel::library::{estimate_traversal, traversal_of};
use cel::{Duration, Error, Function, Implementation, Library, List, Overload, Type, Value};

type Result1<'a> = Result<Value<'a>, Error>;

/// One overload per type of elements; the ids are upstream's.
macro_rules! by_type {
    ($pattern:literal, [$($name:literal => $type:expr),*], $result:expr, $function:expr) => {
        vec![$(
            listing(concat!("list_", $name, $pattern), $type, $result($type), $function)
        ),*]
    };
}

macro_rules! by_type_twice {
    ($part:literal, [$($name:literal => $type:expr),*], $function:expr) => {
        vec![$(
            listing(concat!("list_", $name, $part, $name), $type, $type, $function)
        ),*]
    };
}

macro_rules! comparable {
    ($macro:ident, $pattern:literal, $($more:tt)*) => {
        $macro!($pattern, [
            "int" => Type::Int, "uint" => Type::Uint, "double" => Type::Double,
            "bool" => Type::Bool, "duration" => Type::Duration,
            "timestamp" => Type::Timestamp, "string" => Type::String, "bytes" => Type::Bytes
        ], $($more)*)
    };
}

fn listing(id: &'static str, item: Type, result: Type, implementation: Implementation) -> Overload {
    costed(Overload::member(id, [Type::list(item)], result, implementation))
}

fn costed(overload: Overload) -> Overload {
    overload.cost(|args, _| args.first().map_or(0, traversal_of)).estimate(estimate_traversal)
}

pub(super) fn library() -> Library {
    let item = || Type::Param("A");
    let search = |id, implementation| {
        let params = [Type::list(item()), item()];
        [costed(Overload::member(id, params, Type::Int, implementation))]
    };
    let is_bool = |_: Type| Type::Bool;
    let sums = vec![
        listing("list_int_sum_int", Type::Int, Type::Int, sum_ints),
        listing("list_uint_sum_uint", Type::Uint, Type::Uint, sum_uints),
        listing("list_double_sum_double", Type::Double, Type::Double, sum_doubles),
        listing("list_duration_sum_duration", Type::Duration, Type::Duration, sum_durations),
    ];
    Library::new(vec![
        Function::new("isSorted", comparable!(by_type, "_is_sorted_bool", is_bool, is_sorted)),
        Function::new("sum", sums),
        Function::new("max", comparable!(by_type_twice, "_max_", max)),
        Function::new("min", comparable!(by_type_twice, "_min_", min)),
        Function::new("indexOf", search("list_a_index_of_int", index_of)),
        Function::new("lastIndexOf", search("list_a_last_index_of_int", last_index_of)),
    ])
}

fn list<'s, 'a>(args: &'s [Value<'a>]) -> Result<&'s List<'a>, Error> {
    match args {
        [Value::List(list), ..] => Ok(list),
        _ => Err(Error::NoSuchOverload),
    }
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let mut before: Option<Value<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        if let Some(before) = &before
            && before.compare(&item)? == Ordering::Greater
        {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum_ints<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let mut sum = 0i64;
    for item in list(args)?.iter() {
        let Value::Int(item) = item? else { return Err(Error::NoSuchOverload) };
        sum = sum.checked_add(item).ok_or(Error::IntOverflow)?;
    }
    Ok(Value::Int(sum))
}

fn sum_uints<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let mut sum = 0u64;
    for item in list(args)?.iter() {
        let Value::Uint(item) = item? else { return Err(Error::NoSuchOverload) };
        sum = sum.checked_add(item).ok_or(Error::UintOverflow)?;
    }
    Ok(Value::Uint(sum))
}

fn sum_doubles<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let mut sum = 0f64;
    for item in list(args)?.iter() {
        let Value::Double(item) = item? else { return Err(Error::NoSuchOverload) };
        sum += item;
    }
    Ok(Value::Double(sum))
}

fn sum_durations<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let mut sum = 0i64;
    for item in list(args)?.iter() {
        let Value::Duration(item) = item? else { return Err(Error::NoSuchOverload) };
        sum = sum.checked_add(item.nanoseconds()).ok_or(Error::IntOverflow)?;
    }
    Ok(Value::Duration(Duration::from_nanoseconds(sum)))
}

/// The first of those that are extreme.
fn extreme<'a>(args: &[Value<'a>], name: &str, better: Ordering) -> Result1<'a> {
    let mut found: Option<Value<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        let is_better = match &found {
            Some(found) => item.compare(found)? == better,
            None => true,
        };
        if is_better {
            found = Some(item);
        }
    }
    found.ok_or_else(|| Error::refused(format!("{name} called on empty list")))
}

fn max<'a>(args: &[Value<'a>]) -> Result1<'a> {
    extreme(args, "max", Ordering::Greater)
}

fn min<'a>(args: &[Value<'a>]) -> Result1<'a> {
    extreme(args, "min", Ordering::Less)
}

fn position(index: Option<usize>) -> Value<'static> {
    Value::Int(index.map_or(-1, |it| i64::try_from(it).unwrap_or(i64::MAX)))
}

fn is_at(list: &List<'_>, index: usize, item: &Value<'_>) -> Result<bool, Error> {
    list.get(index)?.map_or(Ok(false), |it| it.equals(item))
}

fn index_of<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let [Value::List(list), item] = args else { return Err(Error::NoSuchOverload) };
    for index in 0..list.len() {
        if is_at(list, index, item)? {
            return Ok(position(Some(index)));
        }
    }
    Ok(position(None))
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Result1<'a> {
    let [Value::List(list), item] = args else { return Err(Error::NoSuchOverload) };
    for index in (0..list.len()).rev() {
        if is_at(list, index, item)? {
            return Ok(position(Some(index)));
        }
    }
    Ok(position(None))
}
