//! Quantities (`250m`, `1Gi`) as values.

use std::cmp::Ordering;

use cel::{Error, Function, Library, Opaque, Overload, Type, Value};

use super::reading;
use crate::quantity::Amount;

const NAME: &str = "kubernetes.Quantity";
/// Numbers with more digits are kept by upstream as decimals, which are no integers.
const INTEGER_DIGITS_MAX: usize = 18;

/// A quantity as an expression sees it.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    amount: Amount,
    /// Whether it was written with a scale below one (`1.5`, `1000m`): then it is no integer,
    /// whatever its value is.
    is_scaled: bool,
}

impl Opaque for Quantity {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.amount == other.amount)
    }
}

pub fn quantity_type() -> Type {
    Type::opaque(NAME)
}

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Ok(amount) = Amount::parse(text) else {
            return Err(Error::refused(why_not(text)));
        };
        Ok(Self { amount, is_scaled: is_scaled(text) })
    }

    fn of_int(n: i64) -> Self {
        Self { amount: Amount::new(n), is_scaled: false }
    }

    fn as_int(self) -> Option<i64> {
        (!self.is_scaled).then(|| self.amount.value())
    }

    fn add(self, other: Self) -> Self {
        let amount = self.amount.saturating_add(other.amount);
        Self { amount, is_scaled: self.joined_scale(other) }
    }

    fn sub(self, other: Self) -> Self {
        let amount = self.amount.saturating_sub(other.amount);
        Self { amount, is_scaled: self.joined_scale(other) }
    }

    /// A sum has the finer scale, where zero has none.
    fn joined_scale(self, other: Self) -> bool {
        let counts = |it: Self| it.is_scaled && !it.amount.is_zero();
        counts(self) || counts(other) || (self.is_scaled && other.amount.is_zero())
    }
}

/// Splits off the number: sign, digits and dots.
fn split_number(text: &str) -> (&str, &str) {
    let unsigned = text.trim_start_matches(['+', '-']);
    let sign = text.len() - unsigned.len();
    let digits = unsigned.find(|it: char| !it.is_ascii_digit() && it != '.');
    text.split_at(sign + digits.unwrap_or(unsigned.len()))
}

/// Which of the three complaints fits.
fn why_not(text: &str) -> String {
    let (number, suffix) = split_number(text);
    let digits = number.trim_start_matches(['+', '-']);
    let has_number = digits.bytes().any(|it| it.is_ascii_digit());
    let letters = suffix.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    let is_formed = has_number
        && number.len() - digits.len() <= 1
        && digits.matches('.').count() <= 1
        && exponent.bytes().all(|it| it.is_ascii_digit());
    if is_formed {
        "unable to parse quantity's suffix".to_owned()
    } else {
        crate::quantity::Error.to_string()
    }
}

/// `1.5` has the scale -1, `1.5k` has 2, `5m` has -3.
fn is_scaled(text: &str) -> bool {
    let (number, suffix) = split_number(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let n_digits = whole.trim_start_matches(['+', '-']).trim_start_matches('0').len();
    let n_fraction = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let exponent = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        binary if binary.ends_with('i') => return !fraction.is_empty(),
        exponent => exponent[1..].parse().unwrap_or(0),
    };
    exponent < n_fraction || n_digits + fraction.len() > INTEGER_DIGITS_MAX
}

pub(super) fn library() -> Library {
    let it = quantity_type;
    let parsing =
        |overload: Overload| overload.cost(reading::once).estimate(reading::estimate_once);
    let two = || [it(), it()];
    let with_int = || [it(), Type::Int];
    Library::new(vec![
        Function::new(
            "quantity",
            [parsing(Overload::global("string_to_quantity", [Type::String], it(), quantity))],
        ),
        Function::new(
            "isQuantity",
            [parsing(Overload::global("is_quantity_string", [Type::String], Type::Bool, is))],
        ),
        // Not a member, unlike the others: as upstream.
        Function::new("sign", [Overload::global("quantity_sign", [it()], Type::Int, sign)]),
        Function::new(
            "isGreaterThan",
            [Overload::member("quantity_is_greater_than", two(), Type::Bool, is_greater)],
        ),
        Function::new(
            "isLessThan",
            [Overload::member("quantity_is_less_than", two(), Type::Bool, is_less)],
        ),
        Function::new(
            "compareTo",
            [Overload::member("quantity_compare_to", two(), Type::Int, compare)],
        ),
        Function::new(
            "asApproximateFloat",
            [Overload::member("quantity_get_float", [it()], Type::Double, as_float)],
        ),
        Function::new(
            "asInteger",
            [Overload::member("quantity_get_int", [it()], Type::Int, as_integer)],
        ),
        Function::new(
            "isInteger",
            [Overload::member("quantity_is_integer", [it()], Type::Bool, is_integer)],
        ),
        Function::new(
            "add",
            [
                Overload::member("quantity_add", two(), it(), add),
                Overload::member("quantity_add_int", with_int(), it(), add),
            ],
        ),
        Function::new(
            "sub",
            [
                Overload::member("quantity_sub", two(), it(), sub),
                Overload::member("quantity_sub_int", with_int(), it(), sub),
            ],
        ),
    ])
}

fn quantity<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Quantity::parse(text).map(Value::opaque)
}

fn is<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Bool(Amount::parse(text).is_ok()))
}

fn one(args: &[Value<'_>]) -> Result<Quantity, Error> {
    let found = args.first().and_then(Value::downcast_ref::<Quantity>);
    found.copied().ok_or(Error::NoSuchOverload)
}

/// Two of them; the second may be an integer.
fn two(args: &[Value<'_>]) -> Result<(Quantity, Quantity), Error> {
    let second = match args.get(1) {
        Some(Value::Int(n)) => Quantity::of_int(*n),
        _ => one(&args[1..])?,
    };
    Ok((one(args)?, second))
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    two(args).map(|(a, b)| a.amount.cmp(&b.amount))
}

fn sign<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Int(one(args)?.amount.cmp(&Amount::ZERO) as i64))
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

fn as_float<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Double(it.amount.as_f64()))
}

fn is_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Bool(it.as_int().is_some()))
}

fn as_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = one(args)?.as_int();
    value.map(Value::Int).ok_or_else(|| Error::refused("cannot convert value to integer"))
}

fn add<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    two(args).map(|(a, b)| Value::opaque(a.add(b)))
}

fn sub<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    two(args).map(|(a, b)| Value::opaque(a.sub(b)))
}
