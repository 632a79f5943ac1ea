//! What it costs to read a text once or twice, which is what most conversions cost.

use cel::{CallEstimate, CallShape, STRING_TRAVERSAL, Value, scale, traversal};

fn size(args: &[Value<'_>]) -> u64 {
    args.first().map_or(0, Value::size)
}

pub(super) fn once(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(size(args))
}

pub(super) fn twice(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    scale(size(args), 2.0 * STRING_TRAVERSAL)
}

pub(super) fn estimate_once(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.operand_size(0)?.scaled(STRING_TRAVERSAL)))
}

pub(super) fn estimate_twice(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.operand_size(0)?.scaled(2.0 * STRING_TRAVERSAL)))
}

/// For results that are as long as what they are made from.
pub(super) fn estimate_same_size(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), size))
}
