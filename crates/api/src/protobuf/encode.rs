//! From JSON, as this server writes it, to a protobuf message, in one pass over the text. Names
//! that the table does not have are left out, and so is null.

use std::cell::Cell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::table::{Count, Field, Inlined, Message, Shape, Slot, Table};
use super::{times, wire};

/// Writes the fields of an object.
struct Fields<'a> {
    table: &'static Table,
    message: Message,
    out: &'a mut Vec<u8>,
    loss: &'a Loss,
}

/// Whether something of the JSON cannot be told from the message: a zero, null or an empty list
/// that a reader of the message takes for absent, or a part of a second.
#[derive(Default)]
struct Loss(Cell<bool>);

impl Loss {
    fn add(&self, is_lost: bool) {
        self.0.set(self.0.get() | is_lost);
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // The fields of inlined messages can stand anywhere in the object: each message is gathered
        // apart.
        let mut inlined: Vec<(Inlined, Vec<u8>)> = Vec::new();
        while let Some(slot) =
            map.next_key_seed(Name { table: self.table, message: self.message })?
        {
            let Some(Slot { field, inlined_in }) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let out = match inlined_in {
                [0, _] => &mut *self.out,
                place => part_of(&mut inlined, place),
            };
            map.next_value_seed(Value { table: self.table, field, out, loss: self.loss })?;
        }
        while let Some(at) = inlined.iter().position(|(place, _)| place[1] != 0) {
            let ([outer, number], bytes) = inlined.swap_remove(at);
            wire::put_bytes(part_of(&mut inlined, [outer, 0]), number, &bytes);
        }
        for ([number, _], bytes) in inlined {
            wire::put_bytes(self.out, number, &bytes);
        }
        Ok(())
    }
}

fn part_of(parts: &mut Vec<(Inlined, Vec<u8>)>, place: Inlined) -> &mut Vec<u8> {
    let at = parts.iter().position(|it| it.0 == place).unwrap_or_else(|| {
        parts.push((place, Vec::new()));
        parts.len() - 1
    });
    &mut parts[at].1
}

/// Finds a field by its name, which need not be copied for that.
struct Name {
    table: &'static Table,
    message: Message,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<Slot>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<Slot>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.table.slot(self.message, name))
    }
}

/// Writes one field with what JSON has for it.
struct Value<'a> {
    table: &'static Table,
    field: Field,
    out: &'a mut Vec<u8>,
    loss: &'a Loss,
}

impl Value<'_> {
    /// The same place for a part of this value.
    fn of(&mut self, field: Field) -> Value<'_> {
        Value { table: self.table, field, out: self.out, loss: self.loss }
    }

    /// A reader takes zero for absent, unless the field is kept.
    fn is_zero(&self, is_zero: bool) {
        self.loss.add(is_zero && !self.field.is_kept);
    }

    fn unexpected<E: serde::de::Error>(&self) -> E {
        E::custom(format_args!("{}: the value is not of the field's type", self.field.name))
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.field.shape != Shape::Raw || self.field.count != Count::One {
            return deserializer.deserialize_any(self);
        }
        let text = <Box<RawValue> as serde::Deserialize>::deserialize(deserializer)?;
        // An element of a list can be null, a field that is null is not there.
        if text.get() != "null" || self.field.is_kept {
            wire::put_message(self.out, self.field.number, |out| {
                wire::put_bytes(out, 1, text.get().as_bytes());
            });
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for {}", self.field.name)
    }

    /// What Go writes where there is nothing: it is read back as that, and written so again.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        let number = self.field.number;
        match self.field.shape {
            Shape::Bool => {
                self.is_zero(!value);
                wire::put_int(self.out, number, value.into());
            }
            Shape::SchemaOrBool => {
                wire::put_message(self.out, number, |out| wire::put_int(out, 1, value.into()));
            }
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(self.unexpected()),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "what JSON wrote as a whole number can be a double"
    )]
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        let number = self.field.number;
        match self.field.shape {
            Shape::Int32 | Shape::Int64 => {
                self.is_zero(value == 0);
                wire::put_int(self.out, number, value);
            }
            Shape::Double => return self.visit_f64(value as f64),
            Shape::Quantity => return self.visit_str(&value.to_string()),
            Shape::IntOrString => wire::put_message(self.out, number, |out| {
                wire::put_int(out, 1, 0);
                wire::put_int(out, 2, value);
                wire::put_bytes(out, 3, b"");
            }),
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        match self.field.shape {
            Shape::Double => {
                self.is_zero(value == 0.0);
                wire::put_double(self.out, self.field.number, value);
            }
            Shape::Quantity => return self.visit_str(&value.to_string()),
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let number = self.field.number;
        match self.field.shape {
            Shape::Text => {
                self.is_zero(value.is_empty());
                wire::put_bytes(self.out, number, value.as_bytes());
            }
            Shape::Bytes => {
                let bytes = STANDARD.decode(value).map_err(E::custom)?;
                self.is_zero(bytes.is_empty());
                wire::put_bytes(self.out, number, &bytes);
            }
            Shape::Quantity => {
                self.loss.add(value.is_empty());
                wire::put_message(self.out, number, |out| {
                    wire::put_bytes(out, 1, value.as_bytes())
                });
            }
            Shape::IntOrString => wire::put_message(self.out, number, |out| {
                wire::put_int(out, 1, 1);
                wire::put_int(out, 2, 0);
                wire::put_bytes(out, 3, value.as_bytes());
            }),
            Shape::Time | Shape::MicroTime => {
                let Some((seconds, nanos)) = times::parse(value) else {
                    return Err(self.unexpected());
                };
                let kept = if self.field.shape == Shape::Time { 0 } else { nanos / 1000 * 1000 };
                self.loss.add(kept != nanos);
                wire::put_message(self.out, number, |out| {
                    wire::put_int(out, 1, seconds);
                    wire::put_int(out, 2, kept);
                });
            }
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let number = self.field.number;
        if self.field.count == Count::List {
            let element = Field { count: Count::One, is_kept: true, ..self.field };
            let start = self.out.len();
            while seq.next_element_seed(self.of(element))?.is_some() {}
            self.loss.add(self.out.len() == start);
            return Ok(());
        }
        let element = match self.field.shape {
            Shape::Strings => Field::text(1),
            Shape::SchemaOrStrings => Field::text(2),
            Shape::SchemaOrArray => {
                Field { shape: Shape::Message(self.table.schema()), ..Field::text(2) }
            }
            _ => return Err(self.unexpected()),
        };
        let (table, loss) = (self.table, self.loss);
        wire::put_message(self.out, number, |out| {
            while seq.next_element_seed(Value { table, field: element, out, loss })?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (table, number, loss) = (self.table, self.field.number, self.loss);
        if self.field.count == Count::Map {
            let value = Field { count: Count::One, number: 2, is_kept: true, ..self.field };
            let start = self.out.len();
            while let Some(key) = map.next_key::<String>()? {
                wire::put_message(self.out, number, |out| {
                    wire::put_bytes(out, 1, key.as_bytes());
                    map.next_value_seed(Value { table, field: value, out, loss })
                })?;
            }
            loss.add(self.out.len() == start);
            return Ok(());
        }
        let schema = table.schema();
        let at = match self.field.shape {
            Shape::Message(message) => {
                return wire::put_message(self.out, number, |out| {
                    Fields { table, message, out, loss }.visit_map(map)
                });
            }
            Shape::SchemaOrArray | Shape::SchemaOrStrings => 1,
            Shape::SchemaOrBool => 2,
            _ => return Err(self.unexpected()),
        };
        wire::put_message(self.out, number, |out| {
            if at == 2 {
                // A schema allows what fits it.
                wire::put_int(out, 1, 1);
            }
            wire::put_message(out, at, |out| {
                Fields { table, message: schema, out, loss }.visit_map(map)
            })
        })
    }
}

/// The fields of the JSON object `json` as a message. Whether a reader of the message finds all of
/// them.
pub(super) fn fields(message: Message, json: &[u8], out: &mut Vec<u8>) -> serde_json::Result<bool> {
    let loss = Loss::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Fields { table: Table::get(), message, out, loss: &loss }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(!loss.0.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::decode::Decoder;

    const NESTED: &str = "package a/v1 a v1\n\
        Outer name=1:string! *=3:Middle\n\
        Middle verbs=1:[]string *=2:Inner\n\
        Inner groups=1:[]string\n\
        package apiextensions/v1 b b/v1\n\
        JSONSchemaProps";

    #[test]
    fn an_inlined_message_may_inline_another() {
        let table: &'static Table = Box::leak(Box::new(Table::parse(NESTED)));
        let message = table.find("a.Outer").expect("it is listed");
        let check = |json: &str, expected: &[u8]| {
            let (mut out, loss) = (Vec::new(), Loss::default());
            let fields = Fields { table, message, out: &mut out, loss: &loss };
            fields.deserialize(&mut serde_json::Deserializer::from_str(json)).expect("it encodes");
            assert_eq!(out, expected, "{json}");
            let mut decoder = Decoder::new(table, 64);
            decoder.members(message, &out).expect("it decodes");
            assert_eq!(format!("{{{}}}", String::from_utf8_lossy(&decoder.out)), json);
        };
        check(r#"{"name":"n"}"#, b"\x0a\x01n");
        check(r#"{"name":"n","verbs":["v"]}"#, b"\x0a\x01n\x1a\x03\x0a\x01v");
        check(r#"{"name":"n","groups":["g"]}"#, b"\x0a\x01n\x1a\x05\x12\x03\x0a\x01g");
        check(
            r#"{"name":"n","verbs":["v"],"groups":["g"]}"#,
            b"\x0a\x01n\x1a\x08\x0a\x01v\x12\x03\x0a\x01g",
        );
    }
}
