//! Durations as Go writes them: `1h30m`, `1.5s`, `-2ms`.

use jiff::SignedDuration;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("time: invalid duration {0:?}")]
    Form(String),
    #[error("time: missing unit in duration {0:?}")]
    NoUnit(String),
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    Unit { unit: String, text: String },
}

/// Nanoseconds of each unit. The micro sign and the Greek letter look alike.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

pub(super) fn parse(text: &str) -> Result<SignedDuration, Error> {
    let malformed = || Error::Form(text.to_owned());
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|it: char| !is_of_number(it)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(is_of_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let digits = Digits::parse(number).ok_or_else(malformed)?;
        if unit.is_empty() {
            return Err(Error::NoUnit(text.to_owned()));
        }
        let (_, nanos) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| Error::Unit { unit: unit.to_owned(), text: text.to_owned() })?;
        let part = digits.times(*nanos).ok_or_else(malformed)?;
        total = total.checked_add(part).ok_or_else(malformed)?;
        rest = after;
    }
    Ok(SignedDuration::from_nanos(if is_negative { -total } else { total }))
}

fn is_of_number(it: char) -> bool {
    it.is_ascii_digit() || it == '.'
}

/// `12.5` is 125 tenths.
struct Digits {
    value: u128,
    scale: u128,
}

impl Digits {
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let mut digits = Self { value: 0, scale: 1 };
        for digit in whole.bytes() {
            digits.value = digits.value * 10 + u128::from(digit - b'0');
            if digits.value > i64::MAX.unsigned_abs().into() {
                return None;
            }
        }
        // What comes later is less than a nanosecond, whatever the unit.
        for digit in fraction.bytes().take(15) {
            digits.value = digits.value * 10 + u128::from(digit - b'0');
            digits.scale *= 10;
        }
        Some(digits)
    }

    fn times(&self, nanos: u64) -> Option<i64> {
        i64::try_from(self.value.checked_mul(nanos.into())? / self.scale).ok()
    }
}
