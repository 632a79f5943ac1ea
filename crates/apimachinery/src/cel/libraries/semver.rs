//! Semantic versions as values, parsed and ordered as by blang/semver 4.

use std::cmp::Ordering;

use cel::{Error, Function, Library, Opaque, Overload, Type, Value};

use super::reading;

const NAME: &str = "kubernetes.Semver";

/// Build metadata says nothing about order or equality, and is only checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    prerelease: Vec<Part>,
}

/// Numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Opaque for Version {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }
}

pub fn semver_type() -> Type {
    Type::opaque(NAME)
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

/// A number of one of the three places.
fn number(text: &str, place: &str) -> Result<u64, String> {
    let lower = place.to_lowercase();
    if !text.bytes().all(|it| it.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {lower} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{place} number must not contain leading zeroes {text:?}"));
    }
    parse_uint(text)
}

/// With the complaints of Go's `strconv.ParseUint`.
fn parse_uint(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|it| it.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let what = "Numeric PreRelease version must not contain leading zeroes";
            return Err(format!("{what} {text:?}"));
        }
        return parse_uint(text).map(Part::Number);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Part::Word(text.to_owned()))
}

impl Version {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(a, b)| (a, Some(b)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(a, b)| (a, Some(b)));
        let patch = number(patch, "Patch")?;
        let prerelease = pre.map_or(Ok(Vec::new()), |it| it.split('.').map(part).collect())?;
        for it in build.into_iter().flat_map(|it| it.split('.')) {
            if it.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(it) {
                return Err(format!("Invalid character(s) found in build meta data {it:?}"));
            }
        }
        Ok(Self { major, minor, patch, prerelease })
    }

    /// Takes `v1`, `1.2` and `01.02.03`, too.
    pub fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|it| it.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn without_leading_zeros(text: &str) -> String {
    if text.len() <= 1 {
        return text.to_owned();
    }
    let rest = text.trim_start_matches('0');
    if rest.starts_with(|it: char| it.is_ascii_digit()) {
        rest.to_owned()
    } else {
        format!("0{rest}")
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = (self.major, self.minor, self.patch);
        // One with a prerelease comes before the same without.
        let is_release = (self.prerelease.is_empty(), other.prerelease.is_empty());
        numbers
            .cmp(&(other.major, other.minor, other.patch))
            .then(is_release.0.cmp(&is_release.1))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

pub(super) fn library() -> Library {
    let it = semver_type;
    let text = || Type::String;
    let parsing =
        |overload: Overload| overload.cost(reading::once).estimate(reading::estimate_once);
    let two = || [it(), it()];
    Library::new(vec![
        Function::new(
            "semver",
            [
                parsing(Overload::global("string_to_semver", [text()], it(), semver)),
                parsing(Overload::global(
                    "string_bool_to_semver",
                    [text(), Type::Bool],
                    it(),
                    semver,
                )),
            ],
        ),
        Function::new(
            "isSemver",
            [
                parsing(Overload::global("is_semver_string", [text()], Type::Bool, is)),
                parsing(Overload::global(
                    "is_semver_string_bool",
                    [text(), Type::Bool],
                    Type::Bool,
                    is,
                )),
            ],
        ),
        Function::new(
            "isGreaterThan",
            [Overload::member("semver_is_greater_than", two(), Type::Bool, is_greater)],
        ),
        Function::new(
            "isLessThan",
            [Overload::member("semver_is_less_than", two(), Type::Bool, is_less)],
        ),
        Function::new(
            "compareTo",
            [Overload::member("semver_compare_to", two(), Type::Int, compare)],
        ),
        Function::new("major", [Overload::member("semver_major", [it()], Type::Int, major)]),
        Function::new("minor", [Overload::member("semver_minor", [it()], Type::Int, minor)]),
        Function::new("patch", [Overload::member("semver_patch", [it()], Type::Int, patch)]),
    ])
}

fn parse(args: &[Value<'_>]) -> Result<Result<Version, String>, Error> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Version::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_normalized(text)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    parse(args)?.map(Value::opaque).map_err(Error::refused)
}

fn is<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(parse(args)?.is_ok()))
}

fn one<'s>(args: &'s [Value<'_>]) -> Result<&'s Version, Error> {
    args.first().and_then(Value::downcast_ref).ok_or(Error::NoSuchOverload)
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    Ok(one(args)?.cmp(one(&args[1..])?))
}

fn is_greater<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    order(args).map(|it| Value::Bool(it.is_gt()))
}

fn is_less<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    order(args).map(|it| Value::Bool(it.is_lt()))
}

fn compare<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    order(args).map(|it| Value::Int(it as i64))
}

fn wrapped(n: u64) -> Value<'static> {
    Value::Int(n.cast_signed())
}

fn major<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| wrapped(it.major))
}

fn minor<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| wrapped(it.minor))
}

fn patch<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| wrapped(it.patch))
}
