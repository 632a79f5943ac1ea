//! `find` and `findAll` with patterns of RE2.

use std::sync::Arc;

use cel::library::{Pattern, pattern};
use cel::{
    CallEstimate, CallShape, Error, Function, Library, Overload, Prepared, REGEX_LENGTH,
    STRING_TRAVERSAL, SizeEstimate, Type, Value, scale, traversal,
};

pub(super) fn library() -> Library {
    let text = || Type::String;
    let of = |overload: Overload| overload.cost(cost).estimate(estimate);
    let texts = || Type::list(Type::String);
    Library::new(vec![
        Function::new(
            "find",
            [of(Overload::member("string_find_string", [text(), text()], text(), find))
                .prepare(prepare_find)],
        ),
        Function::new(
            "findAll",
            [
                of(Overload::member("string_find_all_string", [text(), text()], texts(), find_all))
                    .prepare(prepare_find_all),
                of(Overload::member(
                    "string_find_all_string_int",
                    [text(), text(), Type::Int],
                    texts(),
                    find_all,
                ))
                .prepare(prepare_find_all),
            ],
        ),
    ])
}

fn compile(text: &str) -> Result<Pattern, Error> {
    pattern(text).map_err(|err| Error::refused(format!("Illegal regex: {err}")))
}

/// A constant pattern is compiled once, and must be one.
fn constant(constants: &[Option<&Value<'static>>]) -> Option<Result<Pattern, Error>> {
    match constants.get(1) {
        Some(Some(Value::String(text))) => Some(pattern(text)),
        _ => None,
    }
}

fn prepare_find(constants: &[Option<&Value<'static>>]) -> Option<Result<Prepared, Error>> {
    let prepare =
        |regex| -> Prepared { Arc::new(move |args: &[Value<'_>]| find_with(args, &regex)) };
    constant(constants).map(|it| it.map(prepare))
}

fn prepare_find_all(constants: &[Option<&Value<'static>>]) -> Option<Result<Prepared, Error>> {
    let prepare =
        |regex| -> Prepared { Arc::new(move |args: &[Value<'_>]| find_all_with(args, &regex)) };
    constant(constants).map(|it| it.map(prepare))
}

fn find<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [_, Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    find_with(args, &compile(text)?)
}

fn find_all<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [_, Value::String(text), ..] = args else { return Err(Error::NoSuchOverload) };
    find_all_with(args, &compile(text)?)
}

fn find_with<'a>(args: &[Value<'a>], regex: &Pattern) -> Result<Value<'a>, Error> {
    let [Value::String(text), ..] = args else { return Err(Error::NoSuchOverload) };
    let found = regex.on(text).find(text).map_or("", |it| it.as_str());
    Ok(found.to_owned().into())
}

/// At most so many as the third argument says; a negative number is no bound.
fn find_all_with<'a>(args: &[Value<'a>], regex: &Pattern) -> Result<Value<'a>, Error> {
    let (text, n) = match args {
        [Value::String(text), _] => (text, usize::MAX),
        [Value::String(text), _, Value::Int(n)] => {
            (text, usize::try_from(*n).unwrap_or(usize::MAX))
        }
        _ => return Err(Error::NoSuchOverload),
    };
    let found = regex.on(text).find_iter(text).take(n).map(|it| it.as_str().to_owned().into());
    Ok(Value::list(found.collect()))
}

fn cost(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, Value::size);
    traversal(size(0) + 1).saturating_mul(scale(size(1), REGEX_LENGTH))
}

/// At worst every character is a result.
fn estimate(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (text, of) = (call.operand_size(0)?, call.operand_size(1)?);
    let read = text.add(SizeEstimate::fixed(1)).scaled(STRING_TRAVERSAL);
    let cost = read.multiply(of.scaled(REGEX_LENGTH));
    Some(CallEstimate::sized(cost, SizeEstimate::new(0, text.max)))
}
