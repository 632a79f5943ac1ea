//! Time zones by the names of the IANA database, which is built in: no file of the machine counts.

use jiff::tz::TimeZone;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown time zone {0}")]
    Unknown(String),
    #[error("time: invalid location name")]
    Name,
}

/// Capitals count. The empty name is UTC.
pub fn find(name: &str) -> Result<TimeZone, Error> {
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err(Error::Name);
    }
    let unknown = || Error::Unknown(name.to_owned());
    let zone = TimeZone::get(name).map_err(|_| unknown())?;
    // The database itself finds names in any case, and knows a name for what is not known.
    let is_it = zone.iana_name() == Some(name) && !zone.is_unknown();
    is_it.then_some(zone).ok_or_else(unknown)
}
