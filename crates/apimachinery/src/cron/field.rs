//! One field of a schedule: which of its values fit.

use super::parse::Error;

/// What a field can hold.
pub(super) struct Bounds {
    pub(super) min: u32,
    pub(super) max: u32,
    /// The first of them is `min`.
    pub(super) names: &'static [&'static str],
}

pub(super) const MINUTE: Bounds = Bounds { min: 0, max: 59, names: &[] };
pub(super) const HOUR: Bounds = Bounds { min: 0, max: 23, names: &[] };
pub(super) const DAY: Bounds = Bounds { min: 1, max: 31, names: &[] };
pub(super) const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0, and only 0.
pub(super) const WEEKDAY: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Bit n is value n.
    values: u64,
    /// Was written as `*` or `?`: of two such fields for days, the other one decides.
    pub(super) is_any: bool,
}

impl Field {
    pub(super) fn all(bounds: &Bounds) -> Self {
        Self { is_any: true, ..Self::range(bounds.min, bounds.max, 1) }
    }

    pub(super) fn only(value: u32) -> Self {
        Self::range(value, value, 1)
    }

    /// `first` and `last` are within the bounds of some field.
    fn range(first: u32, last: u32, step: usize) -> Self {
        let values = (first..=last).step_by(step).fold(0, |values, it| values | 1 << it);
        Self { values, is_any: false }
    }

    pub(super) fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|it| self.values & (1 << it) != 0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.values == 0
    }

    /// Ranges with commas between; a field of commas alone is a field without values.
    pub(super) fn parse(text: &str, bounds: &Bounds) -> Result<Self, Error> {
        let mut field = Self::default();
        for range in text.split(',').filter(|it| !it.is_empty()) {
            let Self { values, is_any } = parse_range(range, bounds)?;
            field.values |= values;
            field.is_any |= is_any;
        }
        Ok(field)
    }
}

/// `*`, `n`, `n-m`, each with `/step` or without; `n/step` goes on to the end.
fn parse_range(text: &str, bounds: &Bounds) -> Result<Field, Error> {
    let mut halves = text.split('/');
    let range = halves.next().unwrap_or_default();
    let mut ends = range.split('-');
    let low = ends.next().unwrap_or_default();
    let is_wild = matches!(low, "*" | "?");
    let (mut is_any, first, mut last) = if is_wild {
        (true, bounds.min, bounds.max)
    } else {
        let first = parse_value(low, bounds)?;
        let last = ends.next().map_or(Ok(first), |it| parse_value(it, bounds))?;
        if ends.next().is_some() {
            return Err(Error::Hyphens(text.to_owned()));
        }
        (false, first, last)
    };
    let step = match halves.next() {
        None => 1,
        Some(step) => {
            let step = parse_number(step)?;
            if !range.contains('-') {
                last = bounds.max;
            }
            is_any &= step <= 1;
            step
        }
    };
    if halves.next().is_some() {
        return Err(Error::Slashes(text.to_owned()));
    }
    let text = || text.to_owned();
    if first < bounds.min {
        return Err(Error::Low { first, min: bounds.min, text: text() });
    }
    if last > bounds.max {
        return Err(Error::High { last, max: bounds.max, text: text() });
    }
    if first > last {
        return Err(Error::Backward { first, last, text: text() });
    }
    if step == 0 {
        return Err(Error::Step(text()));
    }
    Ok(Field { is_any, ..Field::range(first, last, usize::try_from(step).unwrap_or(usize::MAX)) })
}

fn parse_value(text: &str, bounds: &Bounds) -> Result<u32, Error> {
    let name = bounds.names.iter().zip(bounds.min..).find(|(it, _)| it.eq_ignore_ascii_case(text));
    match name {
        Some((_, value)) => Ok(value),
        None => parse_number(text),
    }
}

/// Numbers that no field can hold are all alike: too large.
fn parse_number(text: &str) -> Result<u32, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return Err(Error::Number { text: text.to_owned(), problem: "invalid syntax" });
    }
    let number: i64 = text
        .parse()
        .map_err(|_| Error::Number { text: text.to_owned(), problem: "value out of range" })?;
    if number < 0 {
        return Err(Error::Negative { number, text: text.to_owned() });
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}
