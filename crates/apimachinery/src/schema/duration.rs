//! Durations as OpenAPI's format has them upstream: what Go reads, and `3 days 2 hours`.

/// Names and abbreviations with nanoseconds; the last of each may be cut short or go on.
const UNITS: &[(&[&str], i64)] = &[
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "second"], 1_000_000_000),
    (&["m", "minute"], 60_000_000_000),
    (&["h", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
    (&["w", "wk", "week"], 604_800_000_000_000),
];

/// In nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    if let Some(duration) = cel::Duration::parse(text) {
        return Some(duration.nanoseconds());
    }
    let mut total: i64 = 0;
    let mut is_any = false;
    let mut rest = text;
    while let Some(at) = rest.find(|it: char| it.is_ascii_digit()) {
        let before = rest[..at].trim_end_matches(' ');
        let is_negative = before.ends_with('-') && rest[..at].len() - before.len() <= 1;
        let n_digits = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[at..at + n_digits].parse().ok()?;
        rest = rest[at + n_digits..].trim_start();
        let end = rest.find(|it: char| !it.is_alphabetic()).unwrap_or(rest.len());
        let unit = rest[..end].to_lowercase();
        rest = &rest[end..];
        if let Some(length) = length_of(&unit) {
            is_any = true;
            let part = number.wrapping_mul(length);
            total = total.wrapping_add(if is_negative { -part } else { part });
        }
    }
    is_any.then_some(total)
}

fn length_of(unit: &str) -> Option<i64> {
    let is_of = |names: &[&str]| {
        names.contains(&unit) || names.last().is_some_and(|it| unit.starts_with(it))
    };
    UNITS.iter().find(|(names, _)| is_of(names)).map(|(_, length)| *length)
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations_are_read_as_go_does_and_in_words() {
        let second = 1_000_000_000;
        let rows = [
            ("1h2m", Some(3720 * second)),
            ("1.5s", Some(1_500_000_000)),
            ("-3s", Some(-3 * second)),
            ("1 day", Some(86_400 * second)),
            ("2 weeks 3 days", Some((14 + 3) * 86_400 * second)),
            ("1 Minutes", Some(60 * second)),
            ("12 milliseconds", Some(12_000_000)),
            ("1w", Some(7 * 86_400 * second)),
            ("soon", None),
            ("", None),
            ("3 moons", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }
}
