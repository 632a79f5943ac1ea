//! `--enable-admission-plugins` and `--disable-admission-plugins`: which plugins run. The order is
//! always the same.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{ALL, Entry, names};

/// What differs from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    enabled: BTreeSet<String>,
    disabled: BTreeSet<String>,
}

/// In upstream's words, where it has some.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{flag} plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", .0.join(" "))]
    Overlapped(Vec<String>),
}

fn set(flag: &'static str, given: &[String]) -> Result<BTreeSet<String>, Error> {
    match given.iter().find(|it| !names().any(|name| name == **it)) {
        Some(name) => Err(Error::Unknown { flag, name: name.clone() }),
        None => Ok(given.iter().cloned().collect()),
    }
}

impl Selection {
    pub fn new(enable: &[String], disable: &[String]) -> Result<Self, Error> {
        let enabled = set("enable-admission-plugins", enable)?;
        let disabled = set("disable-admission-plugins", disable)?;
        let both: Vec<String> = enabled.intersection(&disabled).cloned().collect();
        if !both.is_empty() {
            return Err(Error::Overlapped(both));
        }
        Ok(Self { enabled, disabled })
    }

    pub fn includes(&self, entry: &Entry) -> bool {
        let is_on = entry.is_on && !self.disabled.contains(entry.name);
        is_on || self.enabled.contains(entry.name)
    }

    /// Those that run, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        ALL.iter().filter(|it| self.includes(it)).map(|it| it.name)
    }
}
