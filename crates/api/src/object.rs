//! Objects as the server holds them.
//!
//! `ApiObject` is an object that is being worked on: a typed struct, or a `Dynamic` one for custom
//! resources. `Stored` is an object at rest: its bytes at one revision, with what lists and watches
//! filter by already read out of it, and the typed form shared by everybody in the process who
//! asks.

use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value};

use apimachinery::ObjectKey;

use crate::interned::Pairs;
use crate::kind::Resource;

/// One API object, with its type erased. Implemented by `Typed<T>`'s `T` and by `Dynamic`.
pub trait ApiObject: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// The JSON form with `apiVersion` and `kind`.
    fn encode(&self) -> Vec<u8>;
    fn clone_box(&self) -> Box<dyn ApiObject>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// The JSON tree. Goes through the bytes, so that each kind has one encoder compiled, not two.
    fn to_value(&self) -> Value {
        serde_json::from_slice(&self.encode()).unwrap_or_default()
    }
}

impl dyn ApiObject {
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    pub fn downcast_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }

    pub fn key(&self) -> ObjectKey {
        key_of(self.meta())
    }
}

pub fn key_of(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// An object without a Rust type: custom resources, and objects read for their metadata alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dynamic {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// Everything but apiVersion, kind and metadata.
    pub rest: Map<String, Value>,
}

impl Dynamic {
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Self::from_value(serde_json::from_slice(bytes)?)
    }

    pub fn from_value(value: Value) -> Result<Self, serde_json::Error> {
        let mut rest: Map<String, Value> = serde_json::from_value(value)?;
        let mut take = |field: &str| match rest.remove(field) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (api_version, kind) = (take("apiVersion"), take("kind"));
        let metadata = match rest.remove("metadata") {
            None | Some(Value::Null) => ObjectMeta::default(),
            Some(metadata) => serde_json::from_value(metadata)?,
        };
        Ok(Self { api_version, kind, metadata, rest })
    }

    pub fn into_value(self) -> Value {
        let mut object = self.rest;
        object.insert("apiVersion".to_owned(), Value::String(self.api_version));
        object.insert("kind".to_owned(), Value::String(self.kind));
        object
            .insert("metadata".to_owned(), serde_json::to_value(self.metadata).unwrap_or_default());
        Value::Object(object)
    }
}

impl ApiObject for Dynamic {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn encode(&self) -> Vec<u8> {
        self.clone().into_value().to_string().into_bytes()
    }

    fn clone_box(&self) -> Box<dyn ApiObject> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn to_value(&self) -> Value {
        self.clone().into_value()
    }
}

/// What lists, watches, the garbage collector and informers need of every object, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    pub key: ObjectKey,
    pub uid: String,
    pub resource_version: u64,
    pub labels: Pairs,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub is_deleting: bool,
    /// The store has it in another version or form than it would be written in now.
    pub is_outdated: bool,
    /// The selectable fields of the kind, besides metadata.name and metadata.namespace.
    pub fields: Pairs,
}

/// Reads out of an object's metadata what `Meta` keeps. A resourceVersion that is not a number
/// counts as 0.
pub fn meta_of(meta: &ObjectMeta, fields: Vec<(Cow<'static, str>, String)>) -> Meta {
    Meta {
        key: key_of(meta),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta
            .resource_version
            .as_deref()
            .and_then(|it| it.parse().ok())
            .unwrap_or_default(),
        labels: meta.labels.iter().flatten().collect(),
        owner_references: meta.owner_references.clone().unwrap_or_default(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        is_deleting: meta.deletion_timestamp.is_some(),
        is_outdated: false,
        fields: fields.into(),
    }
}

/// An object at rest. The bytes are the JSON form, with the resourceVersion inside; LIST and WATCH
/// hand them out as they are.
pub struct Stored {
    /// Shared with those who keep no more of an object than this.
    pub meta: Arc<Meta>,
    pub bytes: Bytes,
    /// The typed forms while somebody holds them: components in one process share one `Arc` of
    /// each. Seldom more than two: the whole, and a view of it.
    typed: Mutex<Vec<Weak<dyn Any + Send + Sync>>>,
    /// Which schemas it was found to fit, as `Fit` has it: of one definition at a time.
    fits: AtomicU64,
}

/// A schema that an object may be found to fit, so that nobody need look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Which definition, as it is now: in the upper bits.
    definition: u64,
    /// Which of its schemas: one bit, or none if it is too far behind to be remembered.
    schema: u64,
}

impl Fit {
    /// So many schemas of a definition are remembered.
    const SCHEMAS: usize = 24;

    pub fn new(definition: u64, schema: usize) -> Self {
        // Never nothing: that is an object which nobody looked at.
        let definition = (definition | 1 << Self::SCHEMAS) >> Self::SCHEMAS << Self::SCHEMAS;
        let schema = if schema < Self::SCHEMAS { 1 << schema } else { 0 };
        Self { definition, schema }
    }

    fn is_in(self, known: u64) -> bool {
        known & !Self::ALL == self.definition && known & self.schema != 0
    }

    const ALL: u64 = (1 << Self::SCHEMAS) - 1;
}

impl Stored {
    pub fn new(meta: impl Into<Arc<Meta>>, bytes: Bytes) -> Self {
        Self { meta: meta.into(), bytes, typed: Mutex::default(), fits: AtomicU64::new(0) }
    }

    pub fn is_known_to_fit(&self, fit: Fit) -> bool {
        fit.is_in(self.fits.load(Relaxed))
    }

    pub fn know_to_fit(&self, fit: Fit) {
        let with = |known: u64| match known & !Fit::ALL == fit.definition {
            true => known | fit.schema,
            false => fit.definition | fit.schema,
        };
        let _ = self.fits.fetch_update(Relaxed, Relaxed, |known| Some(with(known)));
    }

    /// The typed form that components share: see `View`.
    pub fn shared<T: Resource>(&self) -> Result<Arc<T>, serde_json::Error> {
        self.view()
    }

    /// The typed form, decoded by whoever asks first and shared while anybody keeps it.
    pub fn typed<T, E>(&self, decode: impl FnOnce(&[u8]) -> Result<T, E>) -> Result<Arc<T>, E>
    where
        T: Any + Send + Sync,
    {
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let held = typed.iter().filter_map(Weak::upgrade);
        if let Some(shared) = held.filter_map(|it| it.downcast::<T>().ok()).next() {
            return Ok(shared);
        }
        let shared = Arc::new(decode(&self.bytes)?);
        let erased: Arc<dyn Any + Send + Sync> = shared.clone();
        typed.retain(|it| it.strong_count() > 0);
        typed.reserve_exact(1);
        typed.push(Arc::downgrade(&erased));
        Ok(shared)
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored")
            .field("meta", &self.meta)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, Meta, Stored};

    #[test]
    fn what_an_object_fits_is_remembered_of_one_definition_at_a_time() {
        let stored = Stored::new(Meta::default(), "{}".into());
        let (old, new) = (7 << 40, 8 << 40);
        assert!(!stored.is_known_to_fit(Fit::new(0, 0)), "nobody has looked");
        stored.know_to_fit(Fit::new(old, 0));
        stored.know_to_fit(Fit::new(old, 23));
        let known = |definition, schema| stored.is_known_to_fit(Fit::new(definition, schema));
        assert!(known(old, 0) && known(old, 23) && !known(old, 1) && !known(new, 0));
        stored.know_to_fit(Fit::new(new, 1));
        assert!(known(new, 1) && !known(old, 0) && !known(new, 0));
        stored.know_to_fit(Fit::new(new, 24));
        assert!(!known(new, 24) && known(new, 1), "there is no room for so many");
    }
}
