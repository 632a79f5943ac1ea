//! Times and sizes as people write them in flags.

use std::time::Duration;

use apimachinery::quantity::Amount;

/// `7d`, `1h30m`, `300s`, `250ms` or `0`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time: write it like 7d, 1h30m or 300s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit()).ok_or_else(bad)?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|it: char| it.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let millis: u64 = match unit {
            "d" => 86_400_000,
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return Err(bad()),
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        let part = number.checked_mul(millis).map(Duration::from_millis).ok_or_else(bad)?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = after;
    }
    if text.is_empty() { Err(bad()) } else { Ok(total) }
}

/// A quantity of bytes: `512Mi`, `2G`, `1000000`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size: write it like 512Mi or 2Gi");
    let quantity = Amount::parse(text).map_err(|_| bad())?;
    u64::try_from(quantity.value()).map_err(|_| bad())
}

/// In the unit that leaves two to four digits.
pub(crate) fn render_size(bytes: u64) -> String {
    const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_duration, parse_size, render_size};

    #[test]
    fn times_are_written_as_in_go_and_with_days() {
        let check = |text, seconds: Option<u64>| {
            assert_eq!(parse_duration(text).ok(), seconds.map(Duration::from_secs), "{text:?}");
        };
        check("0", Some(0));
        check("5m", Some(300));
        check("5m0s", Some(300));
        check("1h30m", Some(5_400));
        check("7d", Some(604_800));
        check("2000ms", Some(2));
        check("", None);
        check("5", None);
        check("m", None);
        check("5 m", None);
        check("-5m", None);
        check("99999999999999999999s", None);
    }

    #[test]
    fn sizes_are_quantities() {
        let check = |text, bytes| assert_eq!(parse_size(text).ok(), bytes, "{text:?}");
        check("512Mi", Some(512 << 20));
        check("2G", Some(2_000_000_000));
        check("0", Some(0));
        check("-1", None);
        check("much", None);
    }

    #[test]
    fn sizes_are_shown_in_a_fitting_unit() {
        let check = |bytes, expected| assert_eq!(render_size(bytes), expected);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check(3 << 30, "3.0 GiB");
    }
}
