//! Resource quantities (`250m`, `1Gi`): exact decimal arithmetic with Kubernetes' suffixes and
//! canonical form. The range is that of upstream: magnitudes beyond 2^63-1 saturate, fractions
//! below a nano round up.

use std::fmt;
use std::ops::{Add, Sub};

const NANOS: i128 = 1_000_000_000;
const NANOS_MAX: i128 = (i64::MAX as i128) * NANOS;

/// A quantity in nano units. How it was written (its `Family`) is not part of the amount, so that
/// `1` and `1000m` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount {
    nanos: i128,
}

/// Which suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Family {
    /// `n u m k M G T P E`
    #[default]
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`
    Binary,
    /// `e3`
    Exponent,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
pub struct Error;

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Amount {
    pub const ZERO: Self = Self { nanos: 0 };

    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map(|(amount, _)| amount)
    }

    /// The amount with the family of suffixes it was written in.
    pub fn parse_with_family(text: &str) -> Result<(Self, Family), Error> {
        parse(text)
    }

    /// Whole units.
    pub fn new(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS }
    }

    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * (NANOS / 1000) }
    }

    /// Rounded up, as `Quantity.Value()` is.
    pub fn value(self) -> i64 {
        divide_away_from_zero(self.nanos, NANOS)
    }

    /// Rounded up, as `Quantity.MilliValue()` is.
    pub fn millis(self) -> i64 {
        divide_away_from_zero(self.nanos, NANOS / 1000)
    }

    /// The nearest floating-point number.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::saturated(self.nanos.saturating_add(other.nanos))
    }

    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::saturated(self.nanos.saturating_sub(other.nanos))
    }

    #[must_use]
    pub fn saturating_mul(self, factor: i64) -> Self {
        Self::saturated(self.nanos.saturating_mul(i128::from(factor)))
    }

    fn saturated(nanos: i128) -> Self {
        Self { nanos: nanos.clamp(-NANOS_MAX, NANOS_MAX) }
    }

    /// The canonical text in a family; binary falls back to decimal for small and fractional
    /// amounts.
    pub fn render(self, family: Family) -> String {
        let is_small = self.nanos.unsigned_abs() < 1024 * NANOS.unsigned_abs();
        match family {
            Family::Binary if !is_small && self.nanos % NANOS == 0 => self.render_binary(),
            Family::Exponent => {
                let (mantissa, exponent) = self.mantissa();
                if exponent == 0 { mantissa.to_string() } else { format!("{mantissa}e{exponent}") }
            }
            Family::Binary | Family::Decimal => {
                let (mantissa, exponent) = self.mantissa();
                let index = usize::try_from(exponent / 3 + 3).unwrap_or(0);
                format!("{mantissa}{}", DECIMAL_SUFFIXES.get(index).unwrap_or(&""))
            }
        }
    }

    /// The shortest mantissa whose exponent is a multiple of three.
    fn mantissa(self) -> (i128, i32) {
        if self.nanos == 0 {
            return (0, 0);
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        while mantissa % 1000 == 0 && exponent < 18 {
            mantissa /= 1000;
            exponent += 3;
        }
        (mantissa, exponent)
    }

    fn render_binary(self) -> String {
        let (mut value, mut power) = (self.nanos / NANOS, 0);
        while value % 1024 == 0 && power + 1 < BINARY_SUFFIXES.len() {
            value /= 1024;
            power += 1;
        }
        format!("{value}{}", BINARY_SUFFIXES[power])
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

/// Decimal suffixes.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Family::Decimal))
    }
}

/// The canonical text of a quantity: `1000m` becomes `1`, `1024Mi` becomes `1Gi`; `None` when
/// malformed.
pub fn canonical(text: &str) -> Option<String> {
    parse(text).ok().map(|(amount, family)| amount.render(family))
}

/// What a quantity is counted in; decimal when malformed.
pub fn family(text: &str) -> Family {
    parse(text).map_or(Family::Decimal, |it| it.1)
}

fn divide_away_from_zero(value: i128, by: i128) -> i64 {
    let truncated = value / by;
    let rounded = if value % by == 0 { truncated } else { truncated + value.signum() };
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}

/// A suffix as factors: 2^binary * 10^decimal.
struct Suffix {
    binary: u32,
    decimal: i64,
    family: Family,
}

fn parse(text: &str) -> Result<(Amount, Family), Error> {
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(Error);
    }
    let Suffix { binary, decimal, family } = parse_suffix(suffix)?;
    let nanos = scale(whole, fraction, binary, decimal).min(NANOS_MAX);
    let is_small = nanos < NANOS;
    let family = if family == Family::Binary && is_small { Family::Decimal } else { family };
    Ok((Amount { nanos: if is_negative { -nanos } else { nanos } }, family))
}

fn parse_suffix(text: &str) -> Result<Suffix, Error> {
    if let Some(power) = DECIMAL_SUFFIXES.iter().position(|it| *it == text) {
        return Ok(Suffix { binary: 0, decimal: power as i64 * 3 - 9, family: Family::Decimal });
    }
    if let Some(power) = BINARY_SUFFIXES.iter().position(|it| *it == text) {
        return Ok(Suffix { binary: power as u32 * 10, decimal: 0, family: Family::Binary });
    }
    let exponent = text.strip_prefix(['e', 'E']).ok_or(Error)?;
    let decimal = exponent.parse::<i64>().map_err(|_| Error)?.clamp(-1000, 1000);
    Ok(Suffix { binary: 0, decimal, family: Family::Exponent })
}

/// Nanos of `whole.fraction * 2^binary * 10^decimal`, rounded up; too much gives the largest
/// `i128`.
fn scale(whole: &str, fraction: &str, binary: u32, decimal: i64) -> i128 {
    // So many digits still fit, also times the largest binary factor (2^60).
    let digits_max = if binary > 0 { 20 } else { 36 };
    let mut mantissa: i128 = 0;
    let mut n_digits = 0;
    let mut dropped = 0;
    let mut is_inexact = false;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if n_digits == digits_max {
            dropped += 1;
            is_inexact |= digit != b'0';
            continue;
        }
        mantissa = mantissa * 10 + i128::from(digit - b'0');
        n_digits += i64::from(mantissa != 0);
    }
    if mantissa == 0 {
        return 0;
    }
    mantissa <<= binary;
    let power = decimal + 9 + dropped - fraction.len() as i64;
    if power >= 0 {
        let scaled = u32::try_from(power)
            .ok()
            .and_then(|it| 10_i128.checked_pow(it))
            .and_then(|it| mantissa.checked_mul(it))
            .unwrap_or(i128::MAX);
        return scaled.saturating_add(i128::from(is_inexact));
    }
    let divisor = u32::try_from(-power).ok().and_then(|it| 10_i128.checked_pow(it));
    let Some(divisor) = divisor else {
        return 1;
    };
    mantissa / divisor + i128::from(is_inexact || mantissa % divisor != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_canonical() {
        for (text, expected) in [
            ("0", Some("0")),
            ("1000m", Some("1")),
            ("1500m", Some("1500m")),
            ("0.5", Some("500m")),
            (".5", Some("500m")),
            ("1.", Some("1")),
            ("1024Mi", Some("1Gi")),
            ("1.5Gi", Some("1536Mi")),
            ("0.5Gi", Some("512Mi")),
            ("0.5Ki", Some("512")),
            ("1Ki", Some("1Ki")),
            ("1024", Some("1024")),
            ("1000", Some("1k")),
            ("1e3", Some("1e3")),
            ("1E3", Some("1e3")),
            ("10e2", Some("1e3")),
            ("1E", Some("1E")),
            ("12e-3", Some("12e-3")),
            ("100000000000000000000", Some("9223372036854775807")),
            ("-1.5", Some("-1500m")),
            ("+3", Some("3")),
            ("0.0000000001", Some("1n")),
            ("1n", Some("1n")),
            ("1.0000000000000000000000000001", Some("1000000001n")),
            ("", None),
            (".", None),
            ("1.1.M", None),
            ("0.1mi", None),
            ("1i", None),
            ("1e", None),
            ("aoeu", None),
            ("1 ", None),
        ] {
            assert_eq!(canonical(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn values_round_up() {
        for (text, value, millis) in [
            ("1m", 1, 1),
            ("1500m", 2, 1500),
            ("1n", 1, 1),
            ("1Gi", 1 << 30, (1 << 30) * 1000),
            ("9E", 9_000_000_000_000_000_000, i64::MAX),
            ("-1500m", -2, -1500),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.value(), amount.millis()), (value, millis), "{text}");
        }
    }

    #[test]
    fn sums_are_exact_and_saturate() {
        let parse = |it| Amount::parse(it).unwrap();
        assert_eq!(parse("100m") + parse("900m"), Amount::new(1));
        assert_eq!(parse("1Gi") - parse("512Mi"), parse("512Mi"));
        assert_eq!(parse("9E") + parse("9E"), parse("100E"));
    }

    const PATTERN: &str =
        "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9])?";

    proptest! {
        #[test]
        fn canonical_is_idempotent_and_keeps_the_amount(text in PATTERN) {
            let once = canonical(&text).unwrap();
            prop_assert_eq!(Amount::parse(&text).unwrap(), Amount::parse(&once).unwrap());
            // `1.953125Ki` is written `2000`, which no longer says that it was binary.
            let loses_family = text.contains('i') && !once.contains('i');
            if !loses_family {
                prop_assert_eq!(canonical(&once).unwrap(), once);
            }
        }

        #[test]
        fn order_follows_the_value(a in PATTERN, b in PATTERN) {
            let (a, b) = (Amount::parse(&a).unwrap(), Amount::parse(&b).unwrap());
            prop_assert_eq!(a <= b, (b - a) >= Amount::ZERO);
            if a <= b {
                prop_assert!(a.value() <= b.value() && a.millis() <= b.millis());
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _ = canonical(&text);
        }
    }
}
