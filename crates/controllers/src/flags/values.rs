//! Values of flags, with their bounds.

use std::time::Duration;

use jiff::SignedDuration;

/// More tasks than this are a mistake, not a wish.
const WORKERS_MAX: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("must be a number from 1 to {WORKERS_MAX}")]
    Workers,
    #[error("must be a duration such as 90s, 1m30s or 500ms")]
    Duration(#[source] jiff::Error),
    #[error("must not be negative")]
    Negative,
    #[error("must be a number such as 0.1, and not negative")]
    Rate,
    #[error("must be true or false")]
    Boolean,
}

/// How many work at once.
pub(crate) fn at_least_one(text: &str) -> Result<usize, Error> {
    let workers = text.parse().ok().filter(|it| (1..=WORKERS_MAX).contains(it));
    workers.ok_or(Error::Workers)
}

/// As Go's flags take it; after `=` alone, or without a value.
pub(crate) fn boolean(text: &str) -> Result<bool, Error> {
    features::parse_bool(text).ok_or(Error::Boolean)
}

/// A duration as Go prints it.
pub(crate) fn duration(text: &str) -> Result<Duration, Error> {
    let duration: SignedDuration = text.parse().map_err(Error::Duration)?;
    Duration::try_from(duration).map_err(|_| Error::Negative)
}

/// How often in a second, or a share of a whole.
pub(crate) fn rate(text: &str) -> Result<f64, Error> {
    text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0).ok_or(Error::Rate)
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_read_as_go_prints_them() {
        let check =
            |text, millis| assert_eq!(duration(text).unwrap().as_millis(), millis, "{text}");
        check("50s", 50_000);
        check("1m0s", 60_000);
        check("1h2m3s", 3_723_000);
        check("1.5h", 5_400_000);
        check("500ms", 500);
        check("0s", 0);
        for text in ["", "5", "soon", "5 parsecs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
