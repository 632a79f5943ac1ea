//! The encoder and decoder of each kind, compiled once, here. Other crates call them through
//! `Resource`, so that serde is instantiated for a kind in this crate alone: that keeps builds
//! short.

mod form;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::Cell;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schemas;
use form::Form;
use writer::GoWriter;

/// How often this thread has decoded and encoded objects, for tests that hold a write to what it
/// should cost. Counted in builds with debug assertions alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub decodes: u32,
    pub encodes: u32,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { decodes: 0, encodes: 0 }) };
}

/// What was counted since the last call.
pub fn take_counts() -> Counts {
    COUNTS.take()
}

fn count(change: impl FnOnce(&mut Counts)) {
    if cfg!(debug_assertions) {
        let mut counts = COUNTS.get();
        change(&mut counts);
        COUNTS.set(counts);
    }
}

/// An object of the definition. What Go takes and the struct does not (ADR 20) is mended and read
/// again.
pub(crate) fn decode<T: DeserializeOwned>(
    definition: &str,
    bytes: &[u8],
) -> Result<T, serde_json::Error> {
    count(|it| it.decodes += 1);
    serde_json::from_slice(bytes).or_else(|err| {
        let Ok(mut value) = serde_json::from_slice(bytes) else { return Err(err) };
        schemas::schema(definition).fill_in_zeros(&mut value);
        // The first refusal knows where it was.
        serde_json::from_slice(value.to_string().as_bytes()).map_err(|_| err)
    })
}

/// Whether it is the time that Go has where none was given.
pub(crate) fn is_zero_time(time: Timestamp) -> bool {
    /// Of the first of January of the year 1.
    const ZERO: i64 = -62_135_596_800;
    time.as_second() == ZERO
}

/// An object of the definition, whole, as Go writes it (ADR 23).
pub(crate) fn encode_object<T: Serialize>(definition: &str, object: &T) -> Vec<u8> {
    count(|it| it.encodes += 1);
    write(Form::of(definition), object)
}

/// What is written of an object of which nothing was said, but for its names.
pub(crate) fn zero(definition: &str) -> Option<Value> {
    Form::of(definition).map(Form::zero)
}

/// Whether a value under this name is what is written there of nothing.
pub(crate) fn is_nothing(name: &str, value: &Value) -> bool {
    form::is_nothing(name, value)
}

/// A part of an object, with what it has.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    write(None, value)
}

/// A value that others keep and compare as text, such as the data of a ControllerRevision: as Go's
/// `json.Marshal` writes it, byte for byte.
pub fn encode_raw(value: &Value) -> String {
    let mut json = serde_json::Serializer::with_formatter(Vec::new(), GoWriter::raw());
    value.serialize(&mut json).expect("a tree has nothing that is not JSON");
    String::from_utf8(json.into_inner()).expect("JSON of texts is text")
}

/// For every type of this crate, so that each has one encoder compiled, not two.
fn write<T: Serialize>(form: Option<&'static Form>, value: &T) -> Vec<u8> {
    let mut json = serde_json::Serializer::with_formatter(Vec::new(), GoWriter::new(form));
    value.serialize(&mut json).expect("API types have string keys and no failing serializers");
    json.into_inner()
}

/// A value of the definition, with what Go writes of it.
pub(crate) fn tree_as<T: Serialize>(definition: &str, value: &T) -> Value {
    serde_json::from_slice(&write(Form::of(definition), value)).unwrap_or_default()
}

/// Goes through bytes for the same reason.
pub(crate) fn tree<T: Serialize>(value: &T) -> Value {
    serde_json::from_slice(&encode(value)).unwrap_or_default()
}

/// The parts of `impl Resource` that every typed struct fills in the same way. Of kinds that select
/// pods (`apps::workload::Selecting`), `codec!(with_selector)`.
macro_rules! codec {
    () => {
        fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
            $crate::codec::decode(<Self as $crate::Resource>::FACTS.definition, bytes)
        }

        fn encode(&self) -> Vec<u8> {
            $crate::codec::encode_object(<Self as $crate::Resource>::FACTS.definition, self)
        }

        codec!(metadata);
    };
    (with_selector) => {
        fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
            let definition = <Self as $crate::Resource>::FACTS.definition;
            let object = $crate::codec::decode(definition, bytes)?;
            Ok($crate::apps::workload::with_mark(object, bytes))
        }

        fn encode(&self) -> Vec<u8> {
            $crate::codec::encode_object(<Self as $crate::Resource>::FACTS.definition, self)
        }

        codec!(metadata);
    };
    (metadata) => {
        fn metadata(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            k8s_openapi::Metadata::metadata(self)
        }

        fn metadata_mut(
            &mut self,
        ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            k8s_openapi::Metadata::metadata_mut(self)
        }
    };
}
