//! An object on its way through a write, in the forms that stages need: typed, as bytes, as a tree.
//! Each is made at most once between two changes, and dropped when it is stale.

use std::sync::{Arc, OnceLock};

use api::{ApiObject, Dynamic, Kind, Resource};
use bytes::Bytes;
use serde_json::Value;

/// One object in the forms that plugins want.
pub trait Forms: Send + Sync {
    fn object(&self) -> &dyn ApiObject;
    fn json(&self) -> &Arc<Json>;

    fn bytes(&self) -> &Bytes {
        self.json().bytes()
    }

    fn tree(&self) -> &Value {
        self.json().tree()
    }
}

/// An object as JSON, which becomes a tree when somebody asks for that.
#[derive(Debug)]
pub struct Json {
    bytes: Bytes,
    tree: OnceLock<Value>,
}

impl Json {
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, tree: OnceLock::new() }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Null, if it is no JSON.
    pub fn tree(&self) -> &Value {
        self.tree.get_or_init(|| serde_json::from_slice(&self.bytes).unwrap_or_default())
    }
}

pub struct Draft {
    object: Box<dyn ApiObject>,
    /// Grows with every change.
    generation: u64,
    json: OnceLock<Arc<Json>>,
}

impl Draft {
    pub fn new(object: Box<dyn ApiObject>) -> Self {
        Self { object, generation: 0, json: OnceLock::new() }
    }

    pub fn object(&self) -> &dyn ApiObject {
        self.object.as_ref()
    }

    /// What was made of it is stale from here on.
    pub fn change(&mut self) -> &mut dyn ApiObject {
        self.touch();
        self.object.as_mut()
    }

    pub fn replace(&mut self, object: Box<dyn ApiObject>) {
        self.touch();
        self.object = object;
    }

    /// A change of which it is known how it looks in the bytes, so that they need not be made anew.
    pub fn amend(
        &mut self,
        change: impl FnOnce(&mut dyn ApiObject),
        bytes: impl FnOnce(&Bytes, &dyn ApiObject) -> Option<Bytes>,
    ) {
        let before = self.json.take();
        change(self.change());
        if let Some(bytes) = before.and_then(|it| bytes(it.bytes(), self.object.as_ref())) {
            let _ = self.json.set(Arc::new(Json::new(bytes)));
        }
    }

    fn touch(&mut self) {
        self.generation += 1;
        self.json.take();
    }

    /// Equal while nobody has changed it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn bytes(&self) -> &Bytes {
        Forms::bytes(self)
    }

    pub fn tree(&self) -> &Value {
        Forms::tree(self)
    }

    pub fn into_object(self) -> Box<dyn ApiObject> {
        self.object
    }
}

impl Forms for Draft {
    fn object(&self) -> &dyn ApiObject {
        self.object()
    }

    fn json(&self) -> &Arc<Json> {
        self.json.get_or_init(|| Arc::new(Json::new(self.object.encode().into())))
    }
}

type Decoded = Result<Box<dyn ApiObject>, serde_json::Error>;

/// How JSON becomes the object that a request is about.
#[derive(Clone, Copy)]
pub enum Codec<'a> {
    /// It is of the resource's own kind.
    Kind(&'a dyn Kind),
    /// It is of another, as what is posted to a subresource.
    Function(fn(&[u8]) -> Decoded),
}

impl Codec<'_> {
    pub fn of<T: Resource>() -> Self {
        Self::Function(|bytes| {
            let mut object = T::decode(bytes)?;
            object.apply_defaults();
            Ok(Box::new(object))
        })
    }

    /// Of objects that have no type, and no defaults.
    pub fn dynamic() -> Self {
        Self::Function(|bytes| Ok(Box::new(Dynamic::decode(bytes)?)))
    }

    /// With its defaults.
    pub(crate) fn decode(self, bytes: &[u8]) -> Decoded {
        match self {
            Self::Kind(kind) => {
                let mut object = kind.decode(bytes)?;
                kind.apply_defaults(object.as_mut());
                Ok(object)
            }
            Self::Function(decode) => decode(bytes),
        }
    }
}
