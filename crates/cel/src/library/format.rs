//! `string.format`: clauses `%s %d %f %e %b %x %X %o` with a precision, as version 2 of the string
//! extension has them, and the check of literal formats before anything is evaluated.

use std::fmt::Write as _;

use super::conversions::text_of;
use crate::error::Error;
use crate::types::Type;
use crate::value::{List, Map, Value, check_size};

const PRECISION: usize = 6;
/// Beyond this, digits are noise and cost memory.
const PRECISION_MAX: usize = 1000;

/// A clause: what to do, and the precision.
#[derive(Debug, Clone, Copy)]
struct Clause {
    verb: char,
    precision: usize,
}

enum Piece<'f> {
    Text(&'f str),
    Clause(Clause),
}

/// The pieces of a format; the error says what is wrong with it.
fn pieces(format: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        pieces.push(Piece::Text(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            pieces.push(Piece::Text("%"));
            rest = after;
            continue;
        }
        let (clause, after) = clause(rest)?;
        pieces.push(Piece::Clause(clause));
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let wrong = |what: &str| format!("could not parse formatting clause: {what}");
    let (precision, rest) = match text.strip_prefix('.') {
        None => (PRECISION, text),
        Some(rest) => {
            let n = rest.bytes().take_while(u8::is_ascii_digit).count();
            if n == rest.len() {
                let what =
                    "error while parsing precision: could not find end of precision specifier";
                return Err(wrong(what));
            }
            let precision = rest[..n].parse().ok().filter(|it| *it <= PRECISION_MAX);
            let what = "error while parsing precision: error while converting precision to integer";
            (precision.ok_or_else(|| wrong(what))?, &rest[n..])
        }
    };
    let Some(verb) = rest.chars().next() else { return Err("unexpected end of string".to_owned()) };
    if !"sdfebxXo".contains(verb) {
        return Err(wrong(&format!("unrecognized formatting clause \"{verb}\"")));
    }
    Ok((Clause { verb, precision }, &rest[verb.len_utf8()..]))
}

pub(super) fn format<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(format), Value::List(list)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let mut out = String::new();
    let mut index = 0;
    for piece in pieces(format).map_err(Error::refused)? {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause) => {
                let arg = list.get(index)?;
                let arg =
                    arg.ok_or_else(|| Error::refused(format!("index {index} out of range")))?;
                let text = apply(clause, &arg)
                    .map_err(|why| Error::refused(format!("error during formatting: {why}")))?;
                check_size(out.len() + text.len())?;
                out.push_str(&text);
                index += 1;
            }
        }
    }
    Ok(out.into())
}

/// What a clause is for, in the words of its error.
fn refusal(verb: char, name: &str) -> String {
    let what = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
             durations, and timestamps"
        }
    };
    format!("{what}, was given {name}")
}

fn apply(clause: Clause, arg: &Value<'_>) -> Result<String, String> {
    let refused = || refusal(clause.verb, arg.type_name());
    Ok(match (clause.verb, arg) {
        ('s', arg) => text(arg)?,
        ('d', Value::Int(it)) => it.to_string(),
        ('d', Value::Uint(it)) => it.to_string(),
        ('f', arg) => fixed(double(arg).ok_or_else(refused)?, clause.precision),
        ('e', arg) => scientific(double(arg).ok_or_else(refused)?, clause.precision),
        ('b', Value::Bool(it)) => u8::from(*it).to_string(),
        ('b', Value::Int(it)) => signed(*it, format!("{:b}", it.unsigned_abs())),
        ('b', Value::Uint(it)) => format!("{it:b}"),
        ('o', Value::Int(it)) => signed(*it, format!("{:o}", it.unsigned_abs())),
        ('o', Value::Uint(it)) => format!("{it:o}"),
        ('x' | 'X', arg) => {
            let digits = hex(arg).ok_or_else(refused)?;
            if clause.verb == 'X' { digits.to_uppercase() } else { digits }
        }
        _ => return Err(refused()),
    })
}

fn signed(value: i64, digits: String) -> String {
    if value < 0 { format!("-{digits}") } else { digits }
}

fn hex(arg: &Value<'_>) -> Option<String> {
    let of_bytes = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
    };
    match arg {
        Value::Int(it) => Some(signed(*it, format!("{:x}", it.unsigned_abs()))),
        Value::Uint(it) => Some(format!("{it:x}")),
        Value::String(text) => Some(of_bytes(text.as_bytes())),
        Value::Bytes(bytes) => Some(of_bytes(bytes)),
        _ => None,
    }
}

/// A double, or the texts that stand for those without digits.
fn double(arg: &Value<'_>) -> Option<f64> {
    match arg {
        Value::Double(it) => Some(*it),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn without_digits(it: f64) -> Option<String> {
    if it.is_nan() {
        return Some("NaN".to_owned());
    }
    it.is_infinite().then(|| if it > 0.0 { "\u{221e}" } else { "-\u{221e}" }.to_owned())
}

/// With commas between groups of thousands, as en-US has them.
fn fixed(it: f64, precision: usize) -> String {
    if let Some(text) = without_digits(it) {
        return text;
    }
    let plain = format!("{:.precision$}", it.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut out = String::new();
    if it.is_sign_negative() && it != 0.0 {
        out.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A mantissa, a multiplication sign and ten with the exponent raised, as en-US has it.
fn scientific(it: f64, precision: usize) -> String {
    if let Some(text) = without_digits(it) {
        return text;
    }
    let plain = format!("{it:.precision$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("\u{207b}", digits),
        None => ("", exponent),
    };
    let raised = |it: char| match it {
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        other => char::from_u32(0x2070 + other as u32 - '0' as u32).unwrap_or(other),
    };
    let digits: String = format!("{digits:0>2}").chars().map(raised).collect();
    format!("{mantissa}\u{d7}10{sign}{digits}")
}

fn text(arg: &Value<'_>) -> Result<String, String> {
    match arg {
        Value::Null => Ok("null".to_owned()),
        Value::List(list) => list_text(list),
        Value::Map(map) => map_text(map),
        Value::Optional(_) | Value::Opaque(_) => Err(refusal('s', arg.type_name())),
        other => match text_of(other) {
            Ok(Value::String(text)) => Ok(text.as_str().to_owned()),
            Ok(_) => Err(refusal('s', arg.type_name())),
            Err(err) => Err(err.to_string()),
        },
    }
}

/// A value inside a list or map: strings in quotes, times as calls.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Bytes(_) => format!("b{:?}", text(value)?),
        Value::Timestamp(it) => format!("timestamp(\"{it}\")"),
        Value::Duration(it) => format!("duration(\"{it}\")"),
        Value::Double(it) if it.is_finite() => format!("{it:.PRECISION$}"),
        Value::Double(_) => format!("{:?}", text(value)?),
        other => text(other)?,
    })
}

fn list_text(list: &List<'_>) -> Result<String, String> {
    let mut out = "[".to_owned();
    for (index, item) in list.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        let text = nested(&item.map_err(|err| err.to_string())?)?;
        check_size(out.len() + text.len()).map_err(|err| err.to_string())?;
        out.push_str(&text);
    }
    out.push(']');
    Ok(out)
}

fn map_text(map: &Map<'_>) -> Result<String, String> {
    let mut parts = Vec::new();
    for key in map.keys() {
        let value = map.get(&key).map_err(|err| err.to_string())?.unwrap_or(Value::Null);
        parts.push((nested(&key.to_value())?, nested(&value)?));
    }
    parts.sort();
    let parts: Vec<String> =
        parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", parts.join(", ")))
}

/// Whether a literal format fits the types of its arguments. The error has the argument, if it is
/// one that does not fit.
pub(crate) fn check(format: &str, types: &[&Type]) -> Result<(), (Option<usize>, String)> {
    let mut index = 0;
    for piece in pieces(format).map_err(|what| (None, what))? {
        let Piece::Clause(Clause { verb, .. }) = piece else { continue };
        let Some(it) = types.get(index) else {
            return Err((None, format!("index {index} out of range")));
        };
        if !is_fit(verb, it) {
            let what = format!("error during formatting: {}", refusal(verb, it.runtime_name()));
            return Err((Some(index), what));
        }
        index += 1;
    }
    if types.len() > index {
        let n = types.len();
        let what =
            format!("too many arguments supplied to string.format (expected {index}, got {n})");
        return Err((None, what));
    }
    Ok(())
}

fn is_fit(verb: char, it: &Type) -> bool {
    match (verb, it) {
        (_, Type::Dyn | Type::Error) => true,
        ('s', it) => !matches!(it, Type::Optional(_) | Type::Opaque(_) | Type::Object(_)),
        ('f' | 'e', it) => matches!(it, Type::Double | Type::String),
        ('b', it) => matches!(it, Type::Int | Type::Uint | Type::Bool),
        ('x' | 'X', it) => matches!(it, Type::Int | Type::Uint | Type::String | Type::Bytes),
        (_, it) => matches!(it, Type::Int | Type::Uint),
    }
}
