//! Kubernetes' protobuf of the built-in kinds, by the table in `facts/`: messages become JSON at
//! the border and JSON becomes messages there, so that nothing behind it knows protobuf. See
//! `docs/adr/0005-protobuf-by-table.md`.

mod decode;
mod encode;
mod table;
#[cfg(test)]
mod tests;
mod times;
pub(crate) mod wire;

use std::borrow::Cow;

use apimachinery::GroupVersionKind;

use decode::Decoder;
use table::Table;

pub use table::Message;

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// Of watches: frames with their length in front.
pub const MEDIA_TYPE_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub const PARTIAL_OBJECT_METADATA: &str =
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// What every object starts with; the last byte is the version of the envelope.
const MAGIC: [u8; 4] = *b"k8s\0";
/// How much of a path or a key an error shows.
const PATH_MAX: usize = 256;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the data does not start as a Kubernetes protobuf object")]
    Magic,
    #[error("the data ends too early")]
    Truncated,
    #[error("a number is longer than 64 bits")]
    Varint,
    #[error("a field has a number or a wire type that does not exist")]
    Tag,
    #[error("the wire type does not fit the field")]
    Type,
    #[error("messages are nested too deep")]
    Depth,
    #[error("the text is not UTF-8")]
    Utf8,
    #[error("the content is not JSON")]
    Json,
    #[error("the time cannot be expressed")]
    Time,
    #[error("{path}: {why}")]
    Inside { path: String, why: Box<Self> },
}

impl Error {
    fn inside(self, name: &str) -> Self {
        let name: String = name.chars().take(PATH_MAX).collect();
        match self {
            Self::Inside { path, why } if path.len() < PATH_MAX => {
                Self::Inside { path: format!("{name}.{path}"), why }
            }
            Self::Inside { path, why } => Self::Inside { path, why },
            why => Self::Inside { path: name, why: Box::new(why) },
        }
    }
}

/// The message of a definition, for kinds that have one.
pub fn message(definition: &str) -> Option<Message> {
    Table::get().find(definition)
}

/// The message of a built-in kind.
pub fn message_of(kind: &GroupVersionKind) -> Option<Message> {
    Table::get().find_kind(&kind.api_version(), &kind.kind)
}

/// The message of a built-in kind in any version that is served, or that it may have been stored
/// in.
pub fn message_named(api_version: &str, kind: &str) -> Option<Message> {
    Table::get().find_kind(api_version, kind)
}

/// What is around an object on the wire. Both names are empty if the sender left them to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub object: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(Error::Magic)?;
        if rest.is_empty() {
            return Err(Error::Truncated);
        }
        let part = |number| match decode::last(rest, number)? {
            Some(wire) => decode::message(wire),
            None => Ok(&[][..]),
        };
        let names = part(1)?;
        let name = |number| decode::last(names, number)?.map_or(Ok(""), decode::text);
        Ok(Self { api_version: name(1)?, kind: name(2)?, object: part(2)? })
    }

    /// Whether the data starts as one.
    pub fn is_at(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// The object as JSON, with its names in it.
    pub fn to_json(&self, message: Message) -> Result<Vec<u8>, Error> {
        let mut decoder = Decoder::new(Table::get(), self.object.len() * 2 + 64);
        decoder.out.push(b'{');
        for (name, value) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if !value.is_empty() {
                decoder.name(name)?;
                decoder.json(value)?;
            }
        }
        decoder.members(message, self.object)?;
        decoder.out.push(b'}');
        Ok(decoder.out)
    }
}

/// An object as it goes to clients: `json` in its envelope.
pub fn encode(message: Message, names: (&str, &str), json: &[u8]) -> serde_json::Result<Vec<u8>> {
    Ok(encode_telling(message, names, json)?.bytes)
}

/// An object in its envelope, and whether all of `json` can be read back from it.
#[derive(Debug)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub is_exact: bool,
}

pub fn encode_telling(
    message: Message,
    (api_version, kind): (&str, &str),
    json: &[u8],
) -> serde_json::Result<Encoded> {
    let mut bytes = Vec::with_capacity(json.len());
    let is_exact =
        envelope(&mut bytes, api_version, kind, |out| encode::fields(message, json, out))?;
    Ok(Encoded { bytes, is_exact })
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// An object of a built-in kind that names itself.
pub fn encode_object(json: &[u8]) -> serde_json::Result<Vec<u8>> {
    let names: Names<'_> = serde_json::from_slice(json)?;
    let message = Table::get()
        .find_kind(&names.api_version, &names.kind)
        .ok_or_else(|| serde::de::Error::custom("the kind has no protobuf"))?;
    encode(message, (&names.api_version, &names.kind), json)
}

/// A document about the API, which names itself as objects do: those of discovery are in `v1`
/// without a group, whose types are those of meta.
pub fn encode_document(json: &[u8]) -> serde_json::Result<Vec<u8>> {
    let names: Names<'_> = serde_json::from_slice(json)?;
    let package = match &*names.api_version {
        "" | "v1" => "meta.k8s.io/v1",
        other => other,
    };
    let message = Table::get().find_kind(package, &names.kind);
    let message =
        message.ok_or_else(|| serde::de::Error::custom("the document has no protobuf"))?;
    encode(message, (&names.api_version, &names.kind), json)
}

/// A list: its metadata as JSON, and each item as JSON.
pub fn encode_list<'a>(
    item: Message,
    (api_version, kind): (&str, &str),
    metadata: &[u8],
    items: impl Iterator<Item = &'a [u8]>,
) -> serde_json::Result<Vec<u8>> {
    let list_meta = message(LIST_META).expect("the table has ListMeta");
    let mut out = Vec::new();
    envelope(&mut out, api_version, kind, |out| {
        wire::put_message(out, 1, |out| encode::fields(list_meta, metadata, out))?;
        for json in items {
            wire::put_message(out, 2, |out| encode::fields(item, json, out))?;
        }
        Ok(())
    })?;
    Ok(out)
}

/// Of the length in front of an event.
pub const LENGTH_SIZE: usize = 4;

/// An event of a watch: its length, then the type and the object, which is in an envelope of its
/// own.
pub fn encode_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = vec![0; LENGTH_SIZE];
    wire::put_bytes(&mut out, 1, event.as_bytes());
    wire::put_message(&mut out, 2, |out| wire::put_bytes(out, 1, object));
    let length = u32::try_from(out.len() - LENGTH_SIZE).expect("objects are smaller than 4 GiB");
    out[..LENGTH_SIZE].copy_from_slice(&length.to_be_bytes());
    out
}

fn envelope<T>(
    out: &mut Vec<u8>,
    api_version: &str,
    kind: &str,
    object: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    out.extend_from_slice(&MAGIC);
    wire::put_message(out, 1, |out| {
        wire::put_bytes(out, 1, api_version.as_bytes());
        wire::put_bytes(out, 2, kind.as_bytes());
    });
    let value = wire::put_message(out, 2, object);
    wire::put_bytes(out, 3, b"");
    wire::put_bytes(out, 4, b"");
    value
}
