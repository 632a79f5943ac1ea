//! What shares a place in the store: objects are stored in one version, and served in several,
//! perhaps of several groups.
//!
//! Conversions of built-in kinds and of custom resources are pure and done where they are needed,
//! with nothing to wait for and nothing boxed; where there is nothing to convert, which is nearly
//! always, objects are shared as they are. Other conversions (a webhook's) take their time, for
//! many objects at once: see `Converter`.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use api::{ApiObject, Kind, Meta, Stored};
use apimachinery::schema::Absent;
use apimachinery::{ApiError, Names, Reason};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::stored_bytes::{api_version_of, with_api_version, with_version};

/// Converts objects by asking somebody.
pub trait Converter: Send + Sync {
    /// The objects, which are whole JSON, in `api_version`: as many, in the same order.
    fn convert<'a>(
        &'a self,
        objects: Vec<Bytes>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Bytes>, ApiError>>;
}

pub struct Family {
    /// What objects are stored as. Of a definition whose stored version is not served: another of
    /// its kinds.
    stored: Arc<dyn Kind>,
    stored_api_version: String,
    /// By apiVersion: what is served, and what is stored.
    versions: BTreeMap<String, Arc<dyn Kind>>,
    converter: Option<Arc<dyn Converter>>,
    /// What clients can ask for.
    served: Vec<Names>,
}

impl Family {
    /// `kinds` are not none, and all of one place in the store.
    pub(super) fn new(kinds: &[Arc<dyn Kind>], converter: Option<Arc<dyn Converter>>) -> Self {
        let mut versions: BTreeMap<String, Arc<dyn Kind>> =
            kinds.iter().map(|it| (it.names().api_version(), it.clone())).collect();
        let first = &kinds[0];
        // A hub that is not served is still what is stored.
        let hub = kinds.iter().find_map(|it| it.hub()).map(|hub| {
            let api_version = hub.names().api_version();
            versions.entry(api_version).or_insert(hub).clone()
        });
        let names = first.names();
        let own = |it: &&Arc<dyn Kind>| it.names().version == first.storage_version();
        let stored = hub.unwrap_or_else(|| kinds.iter().find(own).unwrap_or(first).clone());
        let stored_api_version = match first.is_custom() {
            true => format!("{}/{}", names.group, first.storage_version()),
            false => stored.names().api_version(),
        };
        let served = kinds.iter().map(|it| it.names().clone()).collect();
        Self { stored, stored_api_version, versions, converter, served }
    }

    /// The kind that objects are stored as, and that knows what to make of what is stored.
    pub fn stored(&self) -> &Arc<dyn Kind> {
        &self.stored
    }

    /// What clients can ask for.
    pub(crate) fn served(&self) -> &[Names] {
        &self.served
    }

    /// The apiVersions that objects can be read in.
    pub(crate) fn decodable(&self) -> impl Iterator<Item = &str> {
        self.versions.keys().map(String::as_str)
    }

    pub fn kind_of(&self, api_version: &str) -> Option<&Arc<dyn Kind>> {
        self.versions.get(api_version)
    }

    /// Whether objects are served as `kind` as they are stored.
    pub fn is_stored_as(&self, kind: &dyn Kind) -> bool {
        !kind.is_custom() && kind.names() == self.stored.names()
    }

    /// Whether conversions have to be waited for.
    pub fn is_slow(&self) -> bool {
        self.converter.is_some()
    }

    /// What is stored, as `kind` is served; nothing if that takes time.
    pub fn serve_now(
        &self,
        kind: &dyn Kind,
        stored: &Arc<Stored>,
    ) -> Option<Result<Arc<Stored>, ApiError>> {
        if self.is_stored_as(kind) {
            return Some(Ok(stored.clone()));
        }
        let api_version = kind.names().api_version();
        if self.is_slow() && api_version_of(&stored.bytes) != Some(&api_version) {
            return None;
        }
        let read = kind.read_stored(stored).map(|it| stamped(it, stored));
        let bytes = read.as_ref().unwrap_or(&stored.bytes);
        let converted = self.convert_one(bytes, &api_version);
        let converted = converted.map_err(|why| self.refuse(stored, kind, &why));
        Some(converted.map(|it| match it.or(read) {
            None => stored.clone(),
            Some(bytes) => Arc::new(Stored::new(stored.meta.clone(), bytes)),
        }))
    }

    /// What is stored, as `kind` is served, all at once. Each is converted from the version that it
    /// is stored in.
    pub async fn serve(
        &self,
        kind: &dyn Kind,
        mut objects: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        if self.is_stored_as(kind) {
            return Ok(objects);
        }
        let mut others = Vec::new();
        for (index, object) in objects.iter_mut().enumerate() {
            match self.serve_now(kind, object) {
                Some(served) => *object = served?,
                None => others.push(index),
            }
        }
        let Some(converter) = self.converter.as_ref().filter(|_| !others.is_empty()) else {
            return Ok(objects);
        };
        let whole = |it: &Arc<Stored>| {
            let completed = kind.complete_stored(it);
            completed.map_or_else(|| it.bytes.clone(), |completed| stamped(completed, it))
        };
        let asked = others.iter().map(|index| whole(&objects[*index])).collect();
        let converted = converter.convert(asked, &kind.names().api_version()).await?;
        if converted.len() != others.len() {
            let (n_converted, n_asked) = (converted.len(), others.len());
            return Err(miscounted(n_converted, n_asked));
        }
        for (index, json) in others.into_iter().zip(converted) {
            let stored = &mut objects[index];
            // Others may write JSON in another way than we do, and what nobody knows.
            let object = kind.decode(&json);
            let object = object.map_err(|err| self.refuse(stored, kind, &err.to_string()))?;
            let meta = meta_in(kind, object.as_ref(), &stored.meta);
            *stored = Arc::new(Stored::new(meta, stamped(object, stored)));
        }
        Ok(objects)
    }

    /// The JSON of an object of this family in another version.
    pub async fn convert(&self, json: Bytes, api_version: &str) -> Result<Bytes, ApiError> {
        if api_version_of(&json) == Some(api_version) {
            return Ok(json);
        }
        let Some(converter) = &self.converter else {
            let converted = self.convert_one(&json, api_version);
            return converted.map(|it| it.unwrap_or(json)).map_err(unreadable);
        };
        let mut converted = converter.convert(vec![json], api_version).await?;
        let n_converted = converted.len();
        let json = converted.pop().filter(|_| n_converted == 1);
        let json = json.ok_or_else(|| miscounted(n_converted, 1))?;
        // Others may write JSON in another way than we do, and what nobody knows.
        self.written(&json)
    }

    /// As we write it, without what its version does not know.
    fn written(&self, json: &[u8]) -> Result<Bytes, ApiError> {
        let object = self.stored.decode_any(json, Absent::Left).map_err(unreadable)?;
        Ok(object.encode().into())
    }

    /// The JSON of an object that the rules have been applied to, as it goes to the store.
    pub async fn to_stored(&self, json: &Bytes) -> Result<Bytes, ApiError> {
        // Built-in kinds are worked on as they are stored.
        if !self.stored.is_custom() {
            return Ok(json.clone());
        }
        let converted = self.convert(json.clone(), &self.stored_api_version).await?;
        // What the stored version does not know is not stored. A webhook's answer was read by it.
        match !self.is_slow() && converted != *json {
            true => self.written(&converted),
            false => Ok(converted),
        }
    }

    /// `None` if there is nothing to convert.
    pub(crate) fn convert_one(
        &self,
        json: &Bytes,
        api_version: &str,
    ) -> Result<Option<Bytes>, String> {
        if self.stored.is_custom() {
            return Ok(with_api_version(json, api_version));
        }
        let from = api_version_of(json).unwrap_or_default();
        if from == api_version {
            return Ok(None);
        }
        let no_such = |it: &str| format!("there is no version {it:?}");
        let source = self.kind_of(from).ok_or_else(|| no_such(from))?;
        let kind = self.kind_of(api_version).ok_or_else(|| no_such(api_version))?;
        let object = source.decode(json).map_err(|err| err.to_string())?;
        let hub = source.to_hub(object);
        let mut served = kind.served_from(hub.as_ref()).unwrap_or(hub);
        let version = served.meta_mut().resource_version.take();
        let json = Bytes::from(served.encode());
        let version = version.and_then(|it| it.parse().ok());
        Ok(Some(version.map(|it| with_version(&json, it)).unwrap_or(json)))
    }

    /// `why` is what is wrong with the object, and tells nothing of this server.
    fn refuse(&self, stored: &Stored, kind: &dyn Kind, why: &str) -> ApiError {
        let (names, key) = (kind.names(), &stored.meta.key);
        let resource = names.group_resource();
        let version = names.api_version();
        let what = format!("{resource} \"{key}\" cannot be had in {version}: {why}");
        ApiError::new(Reason::InternalError, format!("Internal error occurred: {what}"))
    }
}

impl admission::Versions for Family {
    fn served(&self) -> &[Names] {
        &self.served
    }

    fn convert<'a>(
        &'a self,
        json: Bytes,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        Box::pin(self.convert(json, api_version))
    }
}

fn miscounted(n_converted: usize, n_asked: usize) -> ApiError {
    let why = format!("a conversion returned {n_converted} objects for {n_asked}");
    ApiError::new(Reason::InternalError, format!("Internal error occurred: {why}"))
}

fn unreadable(why: impl Into<Box<dyn Error + Send + Sync>>) -> ApiError {
    ApiError::internal("the object cannot be had in the version that is needed").with_source(why)
}

/// What was read of a stored object, at its revision.
fn stamped(mut object: Box<dyn ApiObject>, stored: &Stored) -> Bytes {
    object.meta_mut().resource_version = None;
    with_version(&object.encode(), stored.meta.resource_version)
}

/// What is selected by, of an object that somebody else has converted. All else is as it was.
fn meta_in(kind: &dyn Kind, object: &dyn ApiObject, stored: &Meta) -> Meta {
    let labels = object.meta().labels.iter().flatten().collect();
    Meta { labels, fields: kind.fields(object).into(), ..stored.clone() }
}
