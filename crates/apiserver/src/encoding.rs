//! What an object is as a value in the store: the JSON that clients are sent, or what upstream's
//! API server writes. Both are read, whichever is set, so that a store can have values of either.
//!
//! Upstream's form knows no difference between absent and zero, empty or null (where Kubernetes
//! makes none). So that what a server serves of its own write is what every other finds, an object
//! is *settled* on its way in: put to what can be read back.

use api::protobuf::{self, Envelope};
use api::{ApiObject, Kind};
use bytes::Bytes;
use kvstore::{KeyValue, Op};

use crate::stored_bytes::{Unstamped, api_version_of, served};

/// etcd's bound of a request.
const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// What new values are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes that clients are sent, in which the store puts the resourceVersion.
    #[default]
    Json,
    /// As upstream: built-in kinds as protobuf in its envelope, custom resources as JSON, both
    /// without a resourceVersion, which is the revision of the write.
    Protobuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("decoding it as JSON")]
    Json(#[source] serde_json::Error),
    #[error("decoding it as protobuf")]
    Protobuf(#[source] protobuf::Error),
    #[error("it is encrypted: encryption at rest is not supported")]
    Encrypted,
    #[error("it is a {found:?}, and should be a {wanted:?}")]
    Kind { found: String, wanted: String },
    #[error("it has the version {0:?}, which the kind is not read from")]
    Version(String),
}

/// An object on its way to the store.
pub(crate) struct Outgoing {
    /// As clients are sent it, but for the version.
    json: Unstamped,
    /// The value; `None`: the JSON itself, stamped by the store.
    value: Option<Bytes>,
}

impl Outgoing {
    pub(crate) fn put(&self, key: Bytes) -> Op {
        match &self.value {
            Some(value) => Op::put(key, value.clone()),
            None => Op::put_stamped(key, self.json.value.clone(), self.json.at),
        }
    }

    /// Whether upstream's store would refuse the object: by the size that it has there, in protobuf
    /// for built-in kinds.
    pub(crate) fn is_too_large(&self, kind: &dyn Kind) -> bool {
        let n_bytes = self.value.as_ref().map_or(self.json.value.len(), Bytes::len);
        if n_bytes <= OBJECT_BYTES_MAX {
            return false;
        }
        let protobuf = || encode(kind, &self.json.value);
        self.value.is_some() || protobuf().is_none_or(|it| it.bytes.len() > OBJECT_BYTES_MAX)
    }

    /// What clients are sent, if `entry` is this object.
    pub(crate) fn served_at(&self, entry: &KeyValue) -> Option<Bytes> {
        let revision = entry.mod_revision.0;
        match &self.value {
            Some(value) => (entry.value == value).then(|| self.json.stamped(revision)),
            None => self.json.is(&entry.value, revision).then(|| served(&entry.value, revision)),
        }
    }

    /// What clients are sent when it is stored at `revision`.
    pub(crate) fn at(&self, revision: u64) -> Bytes {
        self.json.stamped(revision)
    }
}

/// A value from the store.
pub(crate) enum Incoming {
    /// What clients are sent, but for the version.
    Json(Bytes),
    /// An object that has to be encoded for them.
    Object(Box<dyn ApiObject>),
}

impl Encoding {
    /// An object's JSON, in the version that is stored and without a resourceVersion, as it goes to
    /// the store.
    pub(crate) fn write(self, kind: &dyn Kind, json: Bytes) -> Outgoing {
        if self == Self::Json {
            return Outgoing { json: unstamped(&json), value: None };
        }
        match encode(kind, &json) {
            Some(protobuf) => {
                let settled = (!protobuf.is_exact).then(|| settled(kind, &protobuf.bytes));
                let json = settled.flatten().map_or(json, |it| it.encode().into());
                Outgoing { json: unstamped(&json), value: Some(protobuf.bytes.into()) }
            }
            None => Outgoing { json: unstamped(&json), value: Some(json) },
        }
    }

    /// The object as it can be read back from the store, where that is not as it is.
    pub(crate) fn settle(
        self,
        kind: &dyn Kind,
        object: &dyn ApiObject,
    ) -> Option<Box<dyn ApiObject>> {
        if self == Self::Json {
            return None;
        }
        let protobuf = encode(kind, &object.encode()).filter(|it| !it.is_exact);
        protobuf.and_then(|it| settled(kind, &it.bytes))
    }

    pub(crate) fn read(self, kind: &dyn Kind, value: &Bytes) -> Result<Incoming, Error> {
        if Envelope::is_at(value) {
            return Ok(Incoming::Object(decode(kind, value)?));
        }
        if value.starts_with(ENCRYPTED) {
            return Err(Error::Encrypted);
        }
        let json = value.slice(..value.trim_ascii_end().len());
        if kind.is_custom() {
            return Ok(Incoming::Json(json));
        }
        let found = api_version_of(&json).unwrap_or_default();
        let converted = convert(kind, found, &json)?;
        // What a server with the other encoding wrote is settled here as it would be there.
        if converted.is_none() && self == Self::Json {
            return Ok(Incoming::Json(json));
        }
        let json = converted.as_deref().unwrap_or(&json);
        let object = kind.decode(json).map_err(Error::Json)?;
        let settled = self.settle(kind, object.as_ref());
        Ok(Incoming::Object(settled.unwrap_or(object)))
    }

    /// Whether a value is not as it would be written now: of another version, or in the other form.
    /// The version of a custom resource is served as it is stored, and compared when it is written.
    pub(crate) fn is_outdated(self, kind: &dyn Kind, value: &Bytes) -> bool {
        if kind.is_custom() {
            return false;
        }
        let wanted = kind.names().api_version();
        let has_protobuf = || protobuf::message(&kind.definition()).is_some();
        if Envelope::is_at(value) {
            let found = Envelope::parse(value).map(|it| it.api_version == wanted);
            return self == Self::Json || !found.unwrap_or(true);
        }
        let found = api_version_of(value).unwrap_or_default();
        (self == Self::Protobuf && has_protobuf()) || !(found.is_empty() || found == wanted)
    }

    pub(crate) fn read_object(
        self,
        kind: &dyn Kind,
        value: &Bytes,
    ) -> Result<Box<dyn ApiObject>, Error> {
        match self.read(kind, value)? {
            Incoming::Object(object) => Ok(object),
            Incoming::Json(json) => kind.decode(&json).map_err(Error::Json),
        }
    }
}

/// What upstream's encrypted values start with.
const ENCRYPTED: &[u8] = b"k8s:enc:";

fn unstamped(json: &[u8]) -> Unstamped {
    Unstamped::new(json).expect("objects on their way to the store have metadata without a version")
}

/// `None` for what has no protobuf, which stays JSON: custom resources.
fn encode(kind: &dyn Kind, json: &[u8]) -> Option<protobuf::Encoded> {
    let names = kind.names();
    let message = protobuf::message(&kind.definition()).filter(|_| !kind.is_custom())?;
    match protobuf::encode_telling(message, (&names.api_version(), &names.kind), json) {
        Ok(encoded) => Some(encoded),
        Err(err) => {
            // Read all the same: nothing is lost but upstream's form.
            tracing::error!(kind = names.kind, error = %err, "stored as JSON");
            None
        }
    }
}

fn settled(kind: &dyn Kind, value: &[u8]) -> Option<Box<dyn ApiObject>> {
    let object = decode(kind, value);
    object.inspect_err(|err| tracing::error!(error = %stdx::error_chain(err), "not settled")).ok()
}

fn decode(kind: &dyn Kind, value: &[u8]) -> Result<Box<dyn ApiObject>, Error> {
    let envelope = Envelope::parse(value).map_err(Error::Protobuf)?;
    let names = kind.names();
    if envelope.kind != names.kind {
        let (found, wanted) = (envelope.kind.to_owned(), names.kind.clone());
        return Err(Error::Kind { found, wanted });
    }
    let found = envelope.api_version.to_owned();
    let message = protobuf::message_named(envelope.api_version, envelope.kind);
    let message = message.ok_or_else(|| Error::Version(found.clone()))?;
    let json = envelope.to_json(message).map_err(Error::Protobuf)?;
    let converted = convert(kind, &found, &json)?;
    kind.decode(converted.as_deref().unwrap_or(&json)).map_err(Error::Json)
}

/// JSON of the kind's own version; `None` if it is that already.
fn convert(kind: &dyn Kind, found: &str, json: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    if found.is_empty() || found == kind.names().api_version() {
        return Ok(None);
    }
    match kind.convert_stored(found, json) {
        Some(converted) => converted.map(Some).map_err(Error::Json),
        None => Err(Error::Version(found.to_owned())),
    }
}
