//! Times: seconds and nanoseconds in protobuf, RFC 3339 in JSON; whole seconds, or with six digits.

use jiff::Timestamp;

/// `None` for years that cannot be written.
pub(super) fn render(seconds: i64, nanos: i64, is_micro: bool) -> Option<String> {
    let time = Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()?;
    let precision = if is_micro { 6 } else { 0 };
    Some(format!("{time:.precision$}"))
}

pub(super) fn parse(text: &str) -> Option<(i64, i64)> {
    let time: Timestamp = text.parse().ok()?;
    Some((time.as_second(), i64::from(time.subsec_nanosecond())))
}
