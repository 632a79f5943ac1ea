//! The list of plugins. The settings of one of them are read as what they are in the place where
//! they stand, so that what is wrong with them has a line.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{API_VERSIONS, Error, File, KIND, Settings};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "T: Settings")]
pub(super) struct Document<T> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(super) plugins: Vec<Item<T>>,
}

impl<T> Document<T> {
    pub(super) fn validate(&self, file: &File) -> Result<(), Error> {
        let refused = |field: &str, what: String| {
            Err(Error::Refused { path: file.path.clone(), field: field.to_owned(), what })
        };
        if self.kind != KIND {
            return refused("kind", format!("{:?} is not {KIND:?}", self.kind));
        }
        match API_VERSIONS.contains(&self.api_version.as_str()) {
            true => Ok(()),
            false => refused(
                "apiVersion",
                format!("{:?} is not {}", self.api_version, API_VERSIONS.join(" or ")),
            ),
        }
    }
}

/// Settings that nobody looks into yet.
#[derive(Debug, Deserialize)]
pub(super) struct Unread(IgnoredAny);

impl Settings for Unread {
    const PLUGIN: &'static str = "";
    const KINDS: &'static [(&'static str, &'static str)] = &[];

    fn api_version_and_kind(&self) -> (&str, &str) {
        ("", "")
    }
}

#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) name: String,
    pub(super) place: Place<T>,
}

/// Where a plugin's settings are.
#[derive(Debug)]
pub(super) enum Place<T> {
    Nowhere,
    File(PathBuf),
    /// Read for the plugin that `T` is of, or for all where they are not looked into.
    Within(T),
}

impl<'de, T: Settings> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Settings> Visitor<'de> for Fields<T> {
    type Value = Item<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plugin with name, path or configuration")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Item<T>, A::Error> {
        let is_wanted = |name: &str| T::PLUGIN.is_empty() || T::PLUGIN == name;
        let (mut name, mut path) = (None::<String>, None::<String>);
        let mut settings: Option<T> = None;
        // Settings that come before the name of whose they are.
        let mut early: Option<Value> = None;
        while let Some(field) = fields.next_key::<String>()? {
            match (field.as_str(), name.as_deref()) {
                ("name", _) => name = Some(fields.next_value()?),
                ("path", _) => path = fields.next_value()?,
                ("configuration", Some(name)) if is_wanted(name) => {
                    settings = fields.next_value()?;
                }
                ("configuration", Some(_)) => {
                    fields.next_value::<IgnoredAny>()?;
                }
                ("configuration", None) => early = fields.next_value()?,
                (other, _) => {
                    return Err(A::Error::unknown_field(other, &["name", "path", "configuration"]));
                }
            }
        }
        let name = name.ok_or_else(|| A::Error::missing_field("name"))?;
        if let Some(early) = early.filter(|it| !it.is_null() && is_wanted(&name)) {
            settings = Some(serde_json::from_value(early).map_err(A::Error::custom)?);
        }
        let path = path.filter(|it| !it.is_empty()).map(PathBuf::from);
        let place = match (settings, path) {
            (Some(settings), _) => Place::Within(settings),
            (None, Some(path)) => Place::File(path),
            (None, None) => Place::Nowhere,
        };
        Ok(Item { name, place })
    }
}
