//! Prometheus' text format, version 0.0.4, written as Go's library writes it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What upstream v1.36 answers with (prometheus/common 0.67).
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The place on the page where one series is being written.
pub struct Sample<'a> {
    pub(crate) page: &'a mut String,
    pub(crate) name: &'static str,
    /// `a="1",b="2"`, or nothing.
    pub(crate) labels: &'a str,
}

impl Sample<'_> {
    /// One line. `more` is a label of its own: the bound of a bucket, or which quantile it is.
    pub(crate) fn value(&mut self, suffix: &str, more: Option<(&str, f64)>, value: f64) {
        let Self { page, name, labels } = self;
        let _ = write!(page, "{name}{suffix}");
        let comma = if labels.is_empty() { "" } else { "," };
        match more {
            Some((label, of)) => {
                let _ = write!(page, "{{{labels}{comma}{label}=\"{}\"}}", number(of));
            }
            None if labels.is_empty() => {}
            None => {
                let _ = write!(page, "{{{labels}}}");
            }
        }
        let _ = writeln!(page, " {}", number(value));
    }
}

pub(crate) fn render_labels<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{}\"", escape_value(value));
    }
    text
}

pub(crate) fn escape_help(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '\n']) {
        Cow::Owned(text.replace('\\', "\\\\").replace('\n', "\\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn escape_value(text: &str) -> Cow<'_, str> {
    if text.contains('"') {
        Cow::Owned(escape_help(text).replace('"', "\\\""))
    } else {
        escape_help(text)
    }
}

/// The shortest text that is this number again, as Go's `strconv.AppendFloat(.., 'g', -1, 64)`
/// writes it: with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // `d.ddde-9`: Rust's shortest digits are Go's.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::{number, render_labels};

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-1.0, "-1"),
            (12.0, "12"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (10e-9 * 10.0 * 10.0 * 10.0, "9.999999999999999e-06"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_763_380_000.25, "1.76338000025e+09"),
            (123_456_789.0, "1.23456789e+08"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn values_are_escaped() {
        let labels = render_labels([("a", "x\"y\\z\n"), ("b", "")].into_iter());
        assert_eq!(labels, r#"a="x\"y\\z\n",b="""#);
    }
}
