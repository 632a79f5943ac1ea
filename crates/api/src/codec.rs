//! The encoder and decoder of each kind, compiled once, here. Other crates call them through `Resource`, so
//! that serde is instantiated for a kind in this crate alone: that keeps builds short.

use std::cell::Cell;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::Formatter;

/// JSON as Go writes it, whose numbers clients know: a float that is whole has no point (`minimum: 7` of a schema, not `7.0`).
struct GoNumbers;

/// How often this thread has decoded and encoded objects, for tests that hold a write to what it should cost. Counted in builds
/// with debug assertions alone.
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

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    count(|it| it.decodes += 1);
    serde_json::from_slice(bytes)
}

/// A whole object.
pub(crate) fn encode_object<T: Serialize>(object: &T) -> Vec<u8> {
    count(|it| it.encodes += 1);
    encode(object)
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

/// The parts of `impl Resource` that every typed struct fills in the same way.
macro_rules! codec {
    () => {
        fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
            $crate::codec::decode(bytes)
        }

        fn encode(&self) -> Vec<u8> {
            $crate::codec::encode_object(self)
        }

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

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let check = |value: f64, expected: &str| {
            assert_eq!(String::from_utf8(encode(&value)).unwrap(), expected);
        };
        check(7.0, "7");
        check(0.0, "0");
        check(-0.5, "-0.5");
        check(1_000_000_000_000.0, "1000000000000");
        check(1e20, "100000000000000000000");
        check(1e21, "1e+21");
        check(-1.5e300, "-1.5e+300");
        check(0.000_001, "0.000001");
        check(1.5e-7, "1.5e-7");
        check(f64::NAN, "null");
    }
}
