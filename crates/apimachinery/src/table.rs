//! Columns of `kubectl get`, and the texts that cells share.

use jiff::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: std::borrow::Cow<'static, str>,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: std::borrow::Cow<'static, str>,
    /// `name` on the first column, else mostly empty.
    pub format: std::borrow::Cow<'static, str>,
    pub description: std::borrow::Cow<'static, str>,
    /// 1 is shown only with `-o wide`.
    pub priority: i32,
}

impl Column {
    pub const fn new(name: &'static str, kind: &'static str) -> Self {
        Self::with_format(name, kind, "")
    }

    pub const fn with_format(name: &'static str, kind: &'static str, format: &'static str) -> Self {
        use std::borrow::Cow::Borrowed;
        Self {
            name: Borrowed(name),
            kind: Borrowed(kind),
            format: Borrowed(format),
            description: Borrowed(""),
            priority: 0,
        }
    }

    /// The `Name` column.
    pub const fn name() -> Self {
        Self::with_format("Name", "string", "name")
    }

    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// `5d3h`, `42s`; `<unknown>` without a time.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(
        || "<unknown>".to_owned(),
        |it| short_duration(now.duration_since(it).as_secs()),
    )
}

/// At most two units, as kubectl shows durations: the longer the time, the coarser the text.
pub fn short_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two_units(minutes, 'm', seconds % 60, 's'),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => two_units(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two_units(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two_units(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

fn two_units(major: i64, major_unit: char, minor: i64, minor_unit: char) -> String {
    if minor == 0 {
        format!("{major}{major_unit}")
    } else {
        format!("{major}{major_unit}{minor}{minor_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::short_duration;

    #[test]
    fn durations_are_shown_as_kubectl_shows_them() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (90, "90s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (5 * 86_400 + 3 * 3600, "5d3h"),
            (8 * 86_400 + 3600, "8d"),
            (729 * 86_400, "729d"),
            (740 * 86_400, "2y10d"),
            (730 * 86_400, "2y"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(short_duration(seconds), expected, "{seconds}");
        }
    }
}
