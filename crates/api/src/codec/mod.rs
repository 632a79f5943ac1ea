//! The encoder and decoder of each kind, compiled once, here. Other crates call them through
//! `Resource`, so that serde is instantiated for a kind in this crate alone: that keeps builds
//! short.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;

use apimachinery::schema::may_have_zero_time;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::ser::Formatter;

use crate::schemas;

/// JSON as Go writes it, whose numbers clients know: a float that is whole has no point (`minimum:
/// 7` of a schema, not `7.0`).
struct GoNumbers;

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

/// An object of the definition, whole.
pub(crate) fn encode_object<T: Serialize>(definition: &str, object: &T) -> Vec<u8> {
    count(|it| it.encodes += 1);
    let json = encode(object);
    if !may_have_zero_time(&json) {
        return json;
    }
    schemas::schema(definition).with_zero_times(&json).unwrap_or(json)
}

/// For every type of this crate, so that each has one encoder compiled, not two.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut json = serde_json::Serializer::with_formatter(Vec::new(), GoNumbers);
    value.serialize(&mut json).expect("API types have string keys and no failing serializers");
    json.into_inner()
}

/// Goes through bytes for the same reason.
pub(crate) fn tree<T: Serialize>(value: &T) -> Value {
    serde_json::from_slice(&encode(value)).unwrap_or_default()
}

impl Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(writer, "{digits}e+{exponent}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    }
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
            let definition = <Self as $crate::Resource>::FACTS.definition;
            let unmarked = $crate::apps::workload::without_mark(self);
            $crate::codec::encode_object(definition, unmarked.as_ref().unwrap_or(self))
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
