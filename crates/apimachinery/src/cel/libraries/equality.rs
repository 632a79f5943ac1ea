//! What `==` of Kubernetes' types is estimated to cost. Upstream knows nothing better for `!=` than
//! for things of any size.

use cel::{
    CallEstimate, CallShape, CostEstimate, Error, Function, Library, Overload, STRING_TRAVERSAL,
    SizeEstimate, Type, Value,
};

/// Names of formats are not longer.
const FORMAT_SIZE_MAX: u64 = 64;

pub(super) fn library() -> Library {
    let any = || Type::Param("A");
    let of = |id| Overload::global(id, [any(), any()], Type::Bool, never);
    Library::new(vec![
        Function::new("_==_", [of("equals").estimate(estimate_equal)]),
        Function::new("_!=_", [of("not_equals").estimate(estimate_by_size)]),
    ])
}

/// Equality is part of the language; only its estimate is declared here.
fn never<'a>(_args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

fn estimate_equal(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (left, right) = (call.operand(0)?, call.operand(1)?);
    let cost = match (left.of_type, right.of_type) {
        (Type::Opaque(a), Type::Opaque(b)) if a == b => match &**a {
            "kubernetes.NamedFormat" => up_to(FORMAT_SIZE_MAX),
            "kubernetes.URL" => up_to(right.computed.map_or(1, |size| size.max)),
            _ => CostEstimate::ONE,
        },
        _ => return estimate_by_size(call),
    };
    Some(CallEstimate::of(cost))
}

fn up_to(size: u64) -> CostEstimate {
    SizeEstimate::new(1, size).scaled(STRING_TRAVERSAL)
}

/// The smaller side is gone over at most.
fn estimate_by_size(call: &CallShape<'_>) -> Option<CallEstimate> {
    let max = |index: usize| {
        let computed = call.operand(index).and_then(|it| it.computed);
        computed.unwrap_or(SizeEstimate::UNKNOWN).max
    };
    let max = max(0).min(max(1));
    let range = SizeEstimate::new(u64::from(max > 0), max);
    Some(CallEstimate::of(range.scaled(STRING_TRAVERSAL)))
}
