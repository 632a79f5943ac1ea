//! cel-go's set extension: lists as sets.

use crate::cost::{CallEstimate, CostEstimate};
use crate::env::{Function, Library, Overload};
use crate::error::Error;
use crate::estimate::CallShape;
use crate::types::Type;
use crate::value::{List, Value};

pub fn sets() -> Library {
    let list = || Type::list(Type::Param("T"));
    let of =
        |id, implementation| Overload::global(id, [list(), list()], Type::Bool, implementation);
    let once = |it: Overload| it.cost(|args, _| cost(args, 1)).estimate(|call| estimate(call, 1.0));
    let twice =
        |it: Overload| it.cost(|args, _| cost(args, 2)).estimate(|call| estimate(call, 2.0));
    Library::new(vec![
        Function::new("sets.contains", [once(of("list_sets_contains_list", contains))]),
        Function::new("sets.equivalent", [twice(of("list_sets_equivalent_list", equivalent))]),
        Function::new("sets.intersects", [once(of("list_sets_intersects_list", intersects))]),
    ])
}

fn cost(args: &[Value<'_>], factor: u64) -> u64 {
    let product = args.iter().map(Value::size).fold(1, u64::saturating_mul);
    product.saturating_mul(factor).saturating_add(1)
}

fn estimate(call: &CallShape<'_>, factor: f64) -> Option<CallEstimate> {
    let product = call.operand_size(0)?.multiply(call.operand_size(1)?);
    Some(CallEstimate::of(product.scaled(factor).add(CostEstimate::ONE)))
}

fn lists<'s, 'a>(args: &'s [Value<'a>]) -> Result<(&'s List<'a>, &'s List<'a>), Error> {
    match args {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn has_all(list: &List<'_>, of: &List<'_>) -> Result<bool, Error> {
    for item in of.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (list, part) = lists(args)?;
    has_all(list, part).map(Value::Bool)
}

fn equivalent<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (a, b) = lists(args)?;
    Ok(Value::Bool(has_all(a, b)? && has_all(b, a)?))
}

fn intersects<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (a, b) = lists(args)?;
    for item in a.iter() {
        if b.contains(&item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
