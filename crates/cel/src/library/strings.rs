//! cel-go's string extension, version 2, with the costs that Kubernetes gives it. Positions are code
//! points.

use super::format;
use crate::cost::{CallEstimate, STRING_TRAVERSAL, SizeEstimate, scale, traversal};
use crate::env::{Function, Library, Overload};
use crate::error::Error;
use crate::estimate::CallShape;
use crate::syntax::Literal;
use crate::types::Type;
use crate::value::{Text, Value, check_size};

pub fn strings() -> Library {
    let mut functions = of_one_text();
    functions.extend(of_several());
    Library::new(functions)
}

fn text() -> Type {
    Type::String
}

/// Positions, parts and cases.
fn of_one_text() -> Vec<Function> {
    let of = |id, params: Vec<Type>, result, implementation| {
        Overload::member(id, params, result, implementation)
    };
    let once = |it: Overload| it.cost(cost_once).estimate(estimate_once);
    let find = |it: Overload| it.cost(cost_find).estimate(estimate_find);
    vec![
        Function::new(
            "charAt",
            [of("string_char_at_int", vec![text(), Type::Int], text(), char_at)],
        ),
        Function::new(
            "indexOf",
            [
                find(of("string_index_of_string", vec![text(); 2], Type::Int, index_of)),
                find(of(
                    "string_index_of_string_int",
                    vec![text(), text(), Type::Int],
                    Type::Int,
                    index_of,
                )),
            ],
        ),
        Function::new(
            "lastIndexOf",
            [
                find(of("string_last_index_of_string", vec![text(); 2], Type::Int, last_index_of)),
                find(of(
                    "string_last_index_of_string_int",
                    vec![text(), text(), Type::Int],
                    Type::Int,
                    last_index_of,
                )),
            ],
        ),
        Function::new("lowerAscii", [once(of("string_lower_ascii", vec![text()], text(), lower))]),
        Function::new("upperAscii", [once(of("string_upper_ascii", vec![text()], text(), upper))]),
        Function::new("trim", [once(of("string_trim", vec![text()], text(), trim))]),
        Function::new(
            "substring",
            [
                once(of("string_substring_int", vec![text(), Type::Int], text(), substring)),
                once(of(
                    "string_substring_int_int",
                    vec![text(), Type::Int, Type::Int],
                    text(),
                    substring,
                )),
            ],
        ),
    ]
}

/// Texts taken apart and put together.
fn of_several() -> Vec<Function> {
    let texts = || Type::list(Type::String);
    let of = |id, params: Vec<Type>, result, implementation| {
        Overload::member(id, params, result, implementation)
    };
    let twice = |it: Overload| it.cost(cost_twice);
    let join = |it: Overload| it.cost(cost_join).estimate(estimate_join);
    vec![
        Function::new(
            "replace",
            [
                twice(of("string_replace_string_string", vec![text(); 3], text(), replace))
                    .estimate(estimate_replace),
                twice(of(
                    "string_replace_string_string_int",
                    vec![text(), text(), text(), Type::Int],
                    text(),
                    replace,
                ))
                .estimate(estimate_replace),
            ],
        ),
        Function::new(
            "split",
            [
                twice(of("string_split_string", vec![text(); 2], texts(), split))
                    .estimate(estimate_split),
                twice(of(
                    "string_split_string_int",
                    vec![text(), text(), Type::Int],
                    texts(),
                    split,
                ))
                .estimate(estimate_split),
            ],
        ),
        Function::new(
            "join",
            [
                join(of("list_join", vec![texts()], text(), join_texts)),
                join(of("list_join_string", vec![texts(), text()], text(), join_texts)),
            ],
        ),
        Function::new(
            "format",
            [of("string_format", vec![text(), Type::list(Type::Dyn)], text(), format::format)
                .cost_if_resolved(cost_once)
                .estimate(estimate_format)],
        ),
        Function::new(
            "strings.quote",
            [Overload::global("strings_quote", [text()], text(), quote)
                .cost_if_resolved(cost_once)
                .estimate(estimate_quote)],
        ),
    ]
}

fn first_size(args: &[Value<'_>]) -> u64 {
    args.first().map_or(0, Value::size)
}

fn cost_once(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(first_size(args))
}

fn cost_twice(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    scale(first_size(args), 2.0 * STRING_TRAVERSAL)
}

/// As the traversal of a tree: by bytes, and rounded down.
fn cost_find(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    args.first().map_or(0, super::lists::traversal_of)
}

fn cost_join(_args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    scale(result.map_or(1, Value::size), 2.0 * STRING_TRAVERSAL)
}

fn estimate_once(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), size))
}

fn estimate_find(call: &CallShape<'_>) -> Option<CallEstimate> {
    super::lists::estimate_traversal(call)
}

fn estimate_format(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.operand_size(0)?.scaled(STRING_TRAVERSAL)))
}

/// Two quotes, and at most every character escaped.
fn estimate_quote(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    let max = size.max.saturating_mul(2).saturating_add(2);
    let result = SizeEstimate::new(size.min.saturating_add(2), max);
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), result))
}

fn estimate_split(call: &CallShape<'_>) -> Option<CallEstimate> {
    let size = call.operand_size(0)?;
    let max = match call.args.get(1).and_then(|it| it.literal) {
        Some(Literal::Int(n)) => u64::try_from(*n).unwrap_or(u64::MAX),
        _ => size.max,
    };
    let cost = size.scaled(2.0 * STRING_TRAVERSAL);
    Some(CallEstimate::sized(cost, SizeEstimate::new(0, max)))
}

fn estimate_replace(call: &CallShape<'_>) -> Option<CallEstimate> {
    let (size, old) = (call.operand_size(0)?, call.operand_size(1)?);
    let new = call.operand_size(2)?;
    // The longest: nothing replaced by something is put around every character.
    let (n_max, kept_max) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (size.max.div_ceil(old.min), 0)
    };
    let (n_min, kept_min) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (size.min.div_ceil(old.max), 0)
    };
    let result =
        SizeEstimate::new(n_min, n_max).multiply(new).add(SizeEstimate::new(kept_min, kept_max));
    Some(CallEstimate::sized(size.scaled(2.0 * STRING_TRAVERSAL), result))
}

fn estimate_join(call: &CallShape<'_>) -> Option<CallEstimate> {
    let list = call.target?;
    let n = call.size(list);
    let elements = call.element(list).map(|it| n.multiply(call.size(&it)));
    let mut size = elements.unwrap_or(SizeEstimate::fixed(0));
    if let Some(separator) = call.args.first() {
        let gaps = SizeEstimate::new(n.min.saturating_sub(1), n.max.saturating_sub(1));
        size = size.add(call.size(separator).multiply(gaps));
    }
    Some(CallEstimate::sized(size.scaled(STRING_TRAVERSAL), size))
}

fn out_of_range(index: i64) -> Error {
    Error::refused(format!("index out of range: {index}"))
}

/// The byte at which code point `index` starts; the end of the text is one too.
fn byte_at(text: &str, index: i64) -> Result<usize, Error> {
    let n = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    starts.nth(n).ok_or_else(|| out_of_range(index))
}

/// A part of a text, without a copy if the text is borrowed.
fn part<'a>(text: &Text<'a>, range: std::ops::Range<usize>) -> Value<'a> {
    match text {
        Text::Borrowed(text) => Value::String(Text::Borrowed(&text[range])),
        Text::Shared(text) => text[range].to_owned().into(),
    }
}

fn char_at<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(Error::NoSuchOverload) };
    let start = byte_at(text, *index)?;
    let n = text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(part(text, start..start + n))
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, what, offset) = match args {
        [Value::String(text), Value::String(what)] => (text, what, 0),
        [Value::String(text), Value::String(what), Value::Int(offset)] => (text, what, *offset),
        _ => return Err(Error::NoSuchOverload),
    };
    if what.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Ok(start) = byte_at(text, offset) else { return Ok(Value::Int(-1)) };
    let found =
        text[start..].find(what.as_str()).map(|at| offset + count(&text[start..start + at]));
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, what, offset) = match args {
        [Value::String(text), Value::String(what)] => (text, what, None),
        [Value::String(text), Value::String(what), Value::Int(offset)] => {
            (text, what, Some(*offset))
        }
        _ => return Err(Error::NoSuchOverload),
    };
    let n = count(text);
    if what.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(n)));
    }
    let offset = match offset {
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        Some(offset) if offset >= n => return Ok(Value::Int(-1)),
        Some(offset) => offset,
        None => n,
    };
    // A match may start at the offset at the latest.
    let last_start = byte_at(text, offset)?;
    let end = text.len().min(last_start + what.len());
    let end = (end..=text.len()).find(|it| text.is_char_boundary(*it)).unwrap_or(text.len());
    let found = text[..end].rfind(what.as_str()).map(|at| count(&text[..at]));
    Ok(Value::Int(found.filter(|at| *at <= offset).unwrap_or(-1)))
}

fn one<'s, 'a>(args: &'s [Value<'a>]) -> Result<&'s Text<'a>, Error> {
    match args {
        [Value::String(text)] => Ok(text),
        _ => Err(Error::NoSuchOverload),
    }
}

fn lower<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|text| text.to_ascii_lowercase().into())
}

fn upper<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|text| text.to_ascii_uppercase().into())
}

fn trim<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let text = one(args)?;
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len().max(start);
    Ok(part(text, start..end))
}

fn substring<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::String(text), Value::Int(start)] => {
            Ok(part(text, byte_at(text, *start)?..text.len()))
        }
        [Value::String(_), Value::Int(start), Value::Int(end)] if start > end => {
            let what = format!("invalid substring range. start: {start}, end: {end}");
            Err(Error::refused(what))
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            Ok(part(text, byte_at(text, *start)?..byte_at(text, *end)?))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn replace<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, old, new, n) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(n)] => {
            (text, old, new, *n)
        }
        _ => return Err(Error::NoSuchOverload),
    };
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    let n_found = text.matches(old.as_str()).take(n).count();
    check_size(text.len().saturating_add(n_found.saturating_mul(new.len())))?;
    Ok(text.replacen(old.as_str(), new, n).into())
}

fn split<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, separator, n) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(n)] => (text, separator, *n),
        _ => return Err(Error::NoSuchOverload),
    };
    if n == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut start = 0;
    while parts.len() + 1 < n && start < text.len() {
        let rest = &text[start..];
        // Nothing as the separator means every character.
        let found = if separator.is_empty() {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            (first < rest.len()).then_some((first, first))
        } else {
            rest.find(separator.as_str()).map(|at| (at, at + separator.len()))
        };
        let Some((end, next)) = found else { break };
        parts.push(part(text, start..start + end));
        start += next;
    }
    if !(separator.is_empty() && text.is_empty()) {
        parts.push(part(text, start..text.len()));
    }
    Ok(Value::list(parts))
}

fn join_texts<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(Error::NoSuchOverload),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => {
                check_size(joined.len() + text.len())?;
                joined.push_str(&text);
            }
            other => return Err(Error::refused(format!("join: invalid input: {other}"))),
        }
    }
    Ok(joined.into())
}

fn quote<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let text = one(args)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for it in text.chars() {
        match it {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(quoted.into())
}
