//! Named formats of texts: `format.dns1123Label().validate(s)` gives what is wrong with it.

use cel::{
    CallEstimate, CallShape, Error, Function, Library, Opaque, Overload, REGEX_LENGTH,
    STRING_TRAVERSAL, Type, Value, scale, traversal,
};

use super::url::check_request_uri;
use crate::validation;

const NAME: &str = "kubernetes.NamedFormat";
/// The length of pattern that estimates assume.
const PATTERN_LENGTH_ASSUMED: f64 = 128.0;

#[derive(Debug)]
struct Format {
    name: &'static str,
    overload: &'static str,
    problems: fn(&str) -> Vec<String>,
    /// The length of the pattern that stands for what a check costs.
    pattern_length: u64,
    implementation: cel::Implementation,
}

#[derive(Debug, Clone, Copy)]
struct Named(&'static Format);

impl Opaque for Named {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.0.name == other.0.name)
    }
}

/// `format.X()` needs a function for each X, since functions capture nothing.
macro_rules! formats {
    ($($index:literal $name:literal $length:literal $problems:expr;)*) => {
        static ALL: &[Format] = &[$(Format {
            name: $name,
            overload: concat!("format.", $name),
            problems: $problems,
            pattern_length: $length,
            implementation: |_| Ok(Value::opaque(Named(&ALL[$index]))),
        }),*];
    };
}

formats! {
    0 "dns1123Label" 30 validation::is_dns_label;
    1 "dns1123Subdomain" 60 validation::is_dns_subdomain;
    2 "dns1035Label" 30 validation::is_dns1035_label;
    3 "qualifiedName" 60 validation::is_qualified_name;
    4 "dns1123LabelPrefix" 30 |it| validation::is_dns_label(&without_dash(it));
    5 "dns1123SubdomainPrefix" 60 |it| validation::is_dns_subdomain(&without_dash(it));
    6 "dns1035LabelPrefix" 30 |it| validation::is_dns1035_label(&without_dash(it));
    7 "labelValue" 40 validation::is_label_value;
    8 "uri" 1103 |it| check_request_uri(it).err().into_iter().collect();
    9 "uuid" 70 |it| unless(is_uuid(it), "does not match the UUID format");
    10 "byte" 84 |it| unless(is_base64(it), "invalid base64");
    11 "date" 71 |it| unless(is_date(it), "invalid date");
    12 "datetime" 71 |it| unless(is_datetime(it), "invalid datetime");
}

fn unless(is_valid: bool, problem: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![problem.to_owned()] }
}

/// A prefix may end with a dash: something will come after it.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let end = rest.char_indices().next_back().map_or(0, |(at, _)| at);
            format!("{}a", &rest[..end])
        }
        _ => text.to_owned(),
    }
}

/// Dashes may be left out, each for itself.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, n) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..n) {
            Some(digits) if digits.bytes().all(|it| it.is_ascii_hexdigit()) => rest = &rest[n..],
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Not empty, and padded to groups of four.
fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let n_padding = text.len() - data.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && n_padding <= 2
        && data.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'+' || it == b'/')
}

fn is_date(text: &str) -> bool {
    let is_shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, it)| match at {
            4 | 7 => it == b'-',
            _ => it.is_ascii_digit(),
        });
    is_shaped && text.parse::<jiff::civil::Date>().is_ok()
}

/// `hh:mm:ss`, a fraction, and `Z` or an offset.
fn is_datetime(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['t', 'T']) else { return false };
    let bytes = time.as_bytes();
    let is_number = |at: usize, max: &str| {
        time.get(at..at + 2).is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()) && it <= max)
    };
    let is_clock = is_number(0, "23")
        && bytes.get(2) == Some(&b':')
        && is_number(3, "59")
        && bytes.get(5) == Some(&b':')
        && is_number(6, "59");
    if !is_clock || !is_date(date) {
        return false;
    }
    let rest = &time[8..];
    let zone = rest.find(['z', 'Z', '+', '-']).map_or("", |at| &rest[at..]);
    let fraction = &rest[..rest.len() - zone.len()];
    let digits = fraction.get(1..).unwrap_or_default();
    let is_fraction =
        fraction.is_empty() || (!digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()));
    let is_offset = zone.len() == 6
        && zone.bytes().enumerate().all(|(at, it)| match at {
            0 => it == b'+' || it == b'-',
            3 => it == b':',
            _ => it.is_ascii_digit(),
        });
    is_fraction && (zone.eq_ignore_ascii_case("z") || is_offset)
}

pub(super) fn library() -> Library {
    let it = || Type::opaque(NAME);
    let problems = Type::optional(Type::list(Type::String));
    let validate = Overload::member("format-validate", [it(), Type::String], problems, validate)
        .cost(cost)
        .estimate(estimate);
    let named = Overload::global("format-named", [Type::String], Type::optional(it()), named);
    let mut functions =
        vec![Function::new("validate", [validate]), Function::new("format.named", [named])];
    functions.extend(ALL.iter().map(|format| {
        let overload = Overload::global(format.overload, [], it(), format.implementation);
        Function::new(format.overload, [overload])
    }));
    Library::new(functions)
}

fn named<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(name)] = args else { return Err(Error::NoSuchOverload) };
    let found = ALL.iter().find(|it| it.name == name.as_str());
    Ok(found.map_or(Value::NONE, |it| Value::some(Value::opaque(Named(it)))))
}

fn validate<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [format, Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    let format = format.downcast_ref::<Named>().ok_or(Error::NoSuchOverload)?;
    let problems = (format.0.problems)(text);
    if problems.is_empty() {
        return Ok(Value::NONE);
    }
    Ok(Value::some(Value::list(problems.into_iter().map(Value::from).collect())))
}

fn cost(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    let [format, text] = args else { return 1 };
    let Some(format) = format.downcast_ref::<Named>() else { return 1 };
    let pattern = scale(format.0.pattern_length, REGEX_LENGTH);
    traversal(text.size() + 1).saturating_mul(pattern)
}

fn estimate(call: &CallShape<'_>) -> Option<CallEstimate> {
    let read = call.operand_size(1)?.scaled(STRING_TRAVERSAL);
    Some(CallEstimate::of(read.scaled(PATTERN_LENGTH_ASSUMED * REGEX_LENGTH)))
}
