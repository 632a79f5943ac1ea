//! Sets of completion indexes in text: `0,2-4,7`, growing, each below the number of completions.

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "the fragment {0:?} violates the requirement that an index interval can have at most two \
         parts separated by '-'"
    )]
    Parts(String),
    #[error("cannot convert string to integer for index: {0:?}")]
    Number(String),
    #[error("too large index: {0:?}")]
    TooLarge(String),
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order { previous: i32, current: i32 },
}

/// First and last, both included.
type Interval = (i32, i32);

/// How many there are.
pub fn count(text: &str, completions: i32) -> Result<i32, Error> {
    let mut n_indexes = 0_i32;
    let mut previous = None;
    for interval in intervals(text, completions) {
        let (first, last) = interval?;
        if let Some(previous) = previous.filter(|it| *it >= first) {
            return Err(Error::Order { previous, current: first });
        }
        n_indexes = n_indexes.saturating_add(last - first + 1);
        previous = Some(last);
    }
    Ok(n_indexes)
}

/// The first index that is in both. What cannot be read does not count: `count` tells of it.
pub fn overlap(one: &str, other: &str, completions: i32) -> Option<i32> {
    let sorted = |text| {
        let mut all: Vec<Interval> = intervals(text, completions).flatten().collect();
        all.sort_unstable();
        all
    };
    let (one, other) = (sorted(one), sorted(other));
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(&&left), Some(&&right)) = (one.peek(), other.peek()) {
        let first = left.0.max(right.0);
        if first <= left.1.min(right.1) {
            return Some(first);
        }
        if left.1 < right.1 {
            one.next();
        } else {
            other.next();
        }
    }
    None
}

fn intervals(text: &str, completions: i32) -> impl Iterator<Item = Result<Interval, Error>> {
    let parts = text.split(',').filter(move |_| !text.is_empty());
    parts.map(move |it| parse_interval(it, completions))
}

fn parse_interval(text: &str, completions: i32) -> Result<Interval, Error> {
    let mut ends = text.split('-');
    let (first, last) = (ends.next().unwrap_or_default(), ends.next());
    if ends.next().is_some() {
        return Err(Error::Parts(text.to_owned()));
    }
    let first = parse_index(first, completions)?;
    let last = last.map_or(Ok(first), |it| {
        let last = parse_index(it, completions)?;
        if last > first { Ok(last) } else { Err(Error::Order { previous: first, current: last }) }
    })?;
    Ok((first, last))
}

fn parse_index(text: &str, completions: i32) -> Result<i32, Error> {
    let index: i64 = text.parse().map_err(|_| Error::Number(text.to_owned()))?;
    i32::try_from(index)
        .ok()
        .filter(|it| *it < completions)
        .ok_or_else(|| Error::TooLarge(text.to_owned()))
}
