//! Ownership across the versions of a kind: entries of managedFields name the fields of the version
//! that they were written in, and are held against objects in that version.

use serde_json::Value;

use super::compare::{self, Comparison};
use super::{Error, Resets};
use crate::schema::SchemaRef;

/// The versions that objects of a kind can be had in.
pub trait Versions {
    /// `None`: there is no such version any longer. What was owned in it is owned by nobody.
    fn schema(&self, api_version: &str) -> Option<SchemaRef>;

    /// `object` is whole, in one of the versions.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted>;

    /// What an object of the version has before anybody writes a field: nobody owns that.
    fn zero(&self, _api_version: &str) -> Option<Value> {
        None
    }
}

/// Why an object is not to be had in another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconverted {
    /// It takes time: the caller sees to it, and calls again.
    #[error("not converted yet")]
    NotYet,
    #[error("{0}")]
    Failed(String),
}

/// One version stands for all: kinds that have no other.
impl Versions for SchemaRef {
    fn schema(&self, _api_version: &str) -> Option<SchemaRef> {
        Some(self.clone())
    }

    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, Unconverted> {
        Ok(object.clone())
    }
}

/// What one write changes, as each version shows it.
pub(super) struct Differences<'a> {
    pub(super) versions: &'a dyn Versions,
    pub(super) live: Option<&'a Value>,
    pub(super) object: &'a Value,
    /// Never owned through this door, in any version.
    pub(super) resets: Resets<'a>,
    /// Those that were looked at. The first is the version of the write.
    known: Vec<(String, Option<Comparison>)>,
}

impl<'a> Differences<'a> {
    /// `comparison` is that of the version of the write, which both objects are in.
    pub(super) fn new(
        versions: &'a dyn Versions,
        (live, object): (Option<&'a Value>, &'a Value),
        resets: Resets<'a>,
        (api_version, comparison): (&str, Comparison),
    ) -> Self {
        let known = vec![(api_version.to_owned(), Some(comparison))];
        Self { versions, live, object, resets, known }
    }

    /// `None`: there is no such version.
    pub(super) fn seen_in(&mut self, api_version: &str) -> Result<Option<&Comparison>, Error> {
        let known = self.known.iter().position(|(version, _)| version == api_version);
        let index = match known {
            Some(index) => index,
            None => {
                let comparison = self.compare(api_version)?;
                self.known.push((api_version.to_owned(), comparison));
                self.known.len() - 1
            }
        };
        Ok(self.known[index].1.as_ref())
    }

    fn compare(&self, api_version: &str) -> Result<Option<Comparison>, Error> {
        let Some(schema) = self.versions.schema(api_version) else { return Ok(None) };
        let converted = |it: &Value| self.versions.convert(it, api_version);
        let live = self.live.map(converted).transpose()?;
        let object = converted(self.object)?;
        let mut comparison = compare::compare(&schema, live.as_ref(), &object);
        self.resets.take_from(&mut comparison.changed);
        self.resets.take_from(&mut comparison.removed);
        Ok(Some(comparison))
    }
}
