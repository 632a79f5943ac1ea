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
        use std::borrow::Cow::Borrowed;
        Self {
            name: Borrowed(name),
            kind: Borrowed(kind),
            format: Borrowed(""),
            description: Borrowed(""),
            priority: 0,
        }
    }

    /// The `Name` column.
    pub const fn name() -> Self {
        use std::borrow::Cow::Borrowed;
        Self {
            name: Borrowed("Name"),
            kind: Borrowed("string"),
            format: Borrowed("name"),
            description: Borrowed(""),
            priority: 0,
        }
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

/// Two units at most, as kubectl shows durations.
pub fn short_duration(seconds: i64) -> String {
    let _ = seconds;
    todo!("apimachinery")
}
