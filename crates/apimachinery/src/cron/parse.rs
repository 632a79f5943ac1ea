//! From the text to the schedule: an optional zone, then five fields or a name that begins with `@`.

use jiff::SignedDuration;

use super::field::{DAY, Field, HOUR, MINUTE, MONTH, WEEKDAY};
use super::{Calendar, Rhythm, Schedule, duration, zone};

/// Texts as users of upstream know them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("empty spec string")]
    Empty,
    #[error("provided bad location {name}: {problem}")]
    Zone { name: String, problem: zone::Error },
    /// Upstream's parser fails on this by accident, and the text is that of the accident.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    ZoneAlone,
    #[error("expected exactly 5 fields, found {}: [{}]", .0.len(), .0.join(" "))]
    Fields(Vec<String>),
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {problem}")]
    Number { text: String, problem: &'static str },
    #[error("negative number ({number}) not allowed: {text}")]
    Negative { number: i64, text: String },
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("beginning of range ({first}) below minimum ({min}): {text}")]
    Low { first: u32, min: u32, text: String },
    #[error("end of range ({last}) above maximum ({max}): {text}")]
    High { last: u32, max: u32, text: String },
    #[error("beginning of range ({first}) beyond end of range ({last}): {text}")]
    Backward { first: u32, last: u32, text: String },
    #[error("step of range should be a positive number: {0}")]
    Step(String),
    #[error("failed to parse duration {text}: {problem}")]
    Every { text: String, problem: duration::Error },
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
}

pub(super) fn parse(text: &str) -> Result<Schedule, Error> {
    if text.is_empty() {
        return Err(Error::Empty);
    }
    let named = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
    let (zone, text) = match named {
        None => (None, text),
        Some(named) => {
            let (name, rest) = named.split_once(' ').ok_or(Error::ZoneAlone)?;
            let bad = |problem| Error::Zone { name: name.to_owned(), problem };
            // Where the process runs is no property of a cluster: as if nothing were said.
            let zone = if name == "Local" { None } else { Some(zone::find(name).map_err(bad)?) };
            (zone, rest.trim())
        }
    };
    let rhythm = if text.starts_with('@') {
        parse_descriptor(text)?
    } else {
        Rhythm::Calendar(parse_fields(text)?)
    };
    Ok(Schedule { rhythm, zone })
}

fn parse_fields(text: &str) -> Result<Calendar, Error> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(Error::Fields(fields.into_iter().map(str::to_owned).collect()));
    };
    Ok(Calendar {
        minute: Field::parse(minute, &MINUTE)?,
        hour: Field::parse(hour, &HOUR)?,
        day: Field::parse(day, &DAY)?,
        month: Field::parse(month, &MONTH)?,
        weekday: Field::parse(weekday, &WEEKDAY)?,
    })
}

fn parse_descriptor(text: &str) -> Result<Rhythm, Error> {
    let hourly = Calendar {
        minute: Field::only(0),
        hour: Field::all(&HOUR),
        day: Field::all(&DAY),
        month: Field::all(&MONTH),
        weekday: Field::all(&WEEKDAY),
    };
    let daily = Calendar { hour: Field::only(0), ..hourly };
    let monthly = Calendar { day: Field::only(1), ..daily };
    let calendar = match text {
        "@hourly" => hourly,
        "@daily" | "@midnight" => daily,
        "@weekly" => Calendar { weekday: Field::only(0), ..daily },
        "@monthly" => monthly,
        "@yearly" | "@annually" => Calendar { month: Field::only(1), ..monthly },
        _ => return parse_interval(text),
    };
    Ok(Rhythm::Calendar(calendar))
}

/// `@every 1h30m`; parts of a second do not count.
fn parse_interval(text: &str) -> Result<Rhythm, Error> {
    let interval =
        text.strip_prefix("@every ").ok_or_else(|| Error::Descriptor(text.to_owned()))?;
    let interval = duration::parse(interval)
        .map_err(|problem| Error::Every { text: text.to_owned(), problem })?;
    Ok(Rhythm::Every(SignedDuration::from_secs(interval.as_secs().max(1))))
}
