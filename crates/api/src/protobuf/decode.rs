//! From a protobuf message to JSON, as the same object would be written in JSON by its author.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;

use super::table::{Count, Field, Message, Shape, Table};
use super::wire::{Reader, Wire};
use super::{Error, times};

/// Messages in messages; a schema of this depth is deeper than JSON can be.
const DEPTH_MAX: usize = 64;

/// What the wire had for one field, in order.
type Values<'a, 'b> = &'b [(usize, Wire<'a>)];

pub(super) struct Decoder<'t> {
    table: &'t Table,
    pub(super) out: Vec<u8>,
    depth: usize,
}

impl<'t> Decoder<'t> {
    pub(super) fn new(table: &'t Table, capacity: usize) -> Self {
        Self { table, out: Vec::with_capacity(capacity), depth: 0 }
    }

    /// `"name":value` of every field, after what the object has already.
    pub(super) fn members(&mut self, message: Message, bytes: &[u8]) -> Result<(), Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::Depth);
        }
        self.depth += 1;
        let fields = self.table.fields(message);
        let mut reader = Reader::new(bytes);
        let mut values: Vec<(usize, Wire<'_>)> = Vec::new();
        while let Some((number, wire)) = reader.next()? {
            // Fields that are not known are left out without a word, as in every protobuf.
            if let Ok(at) = fields.binary_search_by_key(&number, |it| it.number) {
                values.push((at, wire));
            }
        }
        values.sort_by_key(|it| it.0);
        for group in values.chunk_by(|left, right| left.0 == right.0) {
            let field = &fields[group[0].0];
            self.field(field, group).map_err(|err| err.inside(field.name))?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, message: Message, bytes: &[u8]) -> Result<(), Error> {
        self.out.push(b'{');
        self.members(message, bytes)?;
        self.out.push(b'}');
        Ok(())
    }

    fn field(&mut self, field: &Field, values: Values<'_, '_>) -> Result<(), Error> {
        match field.count {
            Count::Inline => match field.shape {
                Shape::Message(message) => self.members(message, &merged(values)?),
                _ => Ok(()),
            },
            Count::One => self.single(field, values),
            Count::List => {
                self.name(field.name)?;
                self.out.push(b'[');
                for (_, wire) in values {
                    self.elements(field.shape, *wire)?;
                }
                self.out.push(b']');
                Ok(())
            }
            Count::Map => {
                self.name(field.name)?;
                self.map(field.shape, values)
            }
        }
    }

    fn single(&mut self, field: &Field, values: Values<'_, '_>) -> Result<(), Error> {
        let merged;
        let wire = match values {
            [(_, wire)] => *wire,
            // The last scalar wins; parts of a message are one message.
            [.., (_, last)] if is_scalar(field.shape) => *last,
            _ => {
                merged = self::merged(values)?;
                Wire::Bytes(&merged)
            }
        };
        if !field.is_kept && is_zero(field.shape, wire) {
            return Ok(());
        }
        self.name(field.name)?;
        self.value(field.shape, wire)
    }

    /// An element of a list, or several if they are packed.
    fn elements(&mut self, shape: Shape, wire: Wire<'_>) -> Result<(), Error> {
        let is_number = matches!(shape, Shape::Int32 | Shape::Int64 | Shape::Bool);
        let Wire::Bytes(bytes) = wire else { return self.element(shape, wire) };
        if !is_number {
            return self.element(shape, wire);
        }
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let value = reader.varint()?;
            self.element(shape, Wire::Varint(value))?;
        }
        Ok(())
    }

    fn element(&mut self, shape: Shape, wire: Wire<'_>) -> Result<(), Error> {
        self.comma();
        self.value(shape, wire)
    }

    fn map(&mut self, shape: Shape, values: Values<'_, '_>) -> Result<(), Error> {
        let mut entries: BTreeMap<&str, Wire<'_>> = BTreeMap::new();
        for (_, wire) in values {
            let Wire::Bytes(bytes) = *wire else { return Err(Error::Type) };
            let empty = if is_scalar(shape) && !matches!(shape, Shape::Text | Shape::Bytes) {
                Wire::Varint(0)
            } else {
                Wire::Bytes(&[])
            };
            let (mut key, mut value) = ("", empty);
            let mut reader = Reader::new(bytes);
            while let Some((number, wire)) = reader.next()? {
                match number {
                    1 => key = text(wire)?,
                    2 => value = wire,
                    _ => {}
                }
            }
            entries.insert(key, value);
        }
        self.out.push(b'{');
        for (key, wire) in entries {
            self.name(key)?;
            self.value(shape, wire).map_err(|err| err.inside(key))?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn value(&mut self, shape: Shape, wire: Wire<'_>) -> Result<(), Error> {
        match shape {
            Shape::Text => self.json(text(wire)?),
            Shape::Int32 | Shape::Int64 => self.json(&int(shape, wire)?),
            Shape::Bool => self.json(&(varint(wire)? != 0)),
            Shape::Bytes => self.json(&STANDARD.encode(message(wire)?)),
            Shape::Double => match wire {
                Wire::Fixed64(bits) => self.json(&f64::from_bits(bits)),
                _ => Err(Error::Type),
            },
            Shape::Message(inner) => self.object(inner, message(wire)?),
            Shape::Raw => self.raw(message(wire)?),
            Shape::Strings => {
                let list = Field { count: Count::List, ..Field::text(1) };
                self.list_of(&list, message(wire)?)
            }
            Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrStrings => {
                self.schema_or(shape, message(wire)?)
            }
            Shape::Quantity => {
                let found = last(message(wire)?, 1)?.map_or(Ok(""), text)?;
                self.json(if found.is_empty() { "0" } else { found })
            }
            Shape::IntOrString => self.int_or_string(message(wire)?),
            Shape::Time | Shape::MicroTime => {
                let bytes = message(wire)?;
                let seconds = last(bytes, 1)?.map_or(Ok(0), varint)?.cast_signed();
                let nanos = last(bytes, 2)?.map_or(Ok(0), varint)?.cast_signed();
                let is_micro = shape == Shape::MicroTime;
                match times::render(seconds, if is_micro { nanos } else { 0 }, is_micro) {
                    Some(text) => self.json(&text),
                    None => Err(Error::Time),
                }
            }
        }
    }

    fn int_or_string(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let is_text = last(bytes, 1)?.map_or(Ok(0), varint)? == 1;
        if is_text {
            return self.json(last(bytes, 3)?.map_or(Ok(""), text)?);
        }
        let wire = last(bytes, 2)?.unwrap_or(Wire::Varint(0));
        self.json(&int(Shape::Int32, wire)?)
    }

    /// A value that JSON writes in one of two forms.
    fn schema_or(&mut self, shape: Shape, bytes: &[u8]) -> Result<(), Error> {
        let schema = Shape::Message(self.table.schema());
        let (at, other) = if shape == Shape::SchemaOrBool { (2, 1) } else { (1, 2) };
        if let Some(wire) = last(bytes, at)? {
            return self.value(schema, wire);
        }
        match shape {
            Shape::SchemaOrBool => {
                let allows = last(bytes, other)?.map_or(Ok(0), varint)?;
                self.json(&(allows != 0))
            }
            Shape::SchemaOrArray => {
                self.list_of(&Field { shape: schema, ..Field::text(other) }, bytes)
            }
            _ => self.list_of(&Field::text(other), bytes),
        }
    }

    fn list_of(&mut self, field: &Field, bytes: &[u8]) -> Result<(), Error> {
        self.out.push(b'[');
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            if number == field.number {
                self.element(field.shape, wire)?;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// JSON text goes as it is, if it is JSON.
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let text = last(bytes, 1)?.map_or(Ok(&[][..]), message)?;
        if text.is_empty() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        serde_json::from_slice::<IgnoredAny>(text).map_err(|_| Error::Json)?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn comma(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[') | None) {
            self.out.push(b',');
        }
    }

    pub(super) fn name(&mut self, name: &str) -> Result<(), Error> {
        self.comma();
        self.json(name)?;
        self.out.push(b':');
        Ok(())
    }

    pub(super) fn json<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value).map_err(|_| Error::Json)
    }
}

fn is_scalar(shape: Shape) -> bool {
    matches!(
        shape,
        Shape::Text | Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Bytes | Shape::Double
    )
}

/// What JSON leaves out unless the table says that it is kept. Messages stay: whether they are
/// there can mean something.
fn is_zero(shape: Shape, wire: Wire<'_>) -> bool {
    match wire {
        Wire::Varint(value) => value == 0,
        Wire::Fixed64(bits) => bits == 0,
        Wire::Fixed32 => false,
        Wire::Bytes(bytes) => {
            let is_empty_when_zero = matches!(
                shape,
                Shape::Text | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Raw
            );
            bytes.is_empty() && is_empty_when_zero
        }
    }
}

/// The bytes of a message, which may have come in parts.
fn merged<'a>(values: Values<'a, '_>) -> Result<Cow<'a, [u8]>, Error> {
    if let [(_, wire)] = values {
        return Ok(Cow::Borrowed(message(*wire)?));
    }
    let mut bytes = Vec::new();
    for (_, wire) in values {
        bytes.extend_from_slice(message(*wire)?);
    }
    Ok(Cow::Owned(bytes))
}

/// The value of a field in a small message: the last, as for all scalars.
pub(super) fn last(bytes: &[u8], number: u32) -> Result<Option<Wire<'_>>, Error> {
    let mut reader = Reader::new(bytes);
    let mut found = None;
    while let Some((at, wire)) = reader.next()? {
        if at == number {
            found = Some(wire);
        }
    }
    Ok(found)
}

pub(super) fn text(wire: Wire<'_>) -> Result<&str, Error> {
    std::str::from_utf8(message(wire)?).map_err(|_| Error::Utf8)
}

pub(super) fn message(wire: Wire<'_>) -> Result<&[u8], Error> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(Error::Type),
    }
}

fn varint(wire: Wire<'_>) -> Result<u64, Error> {
    match wire {
        Wire::Varint(value) => Ok(value),
        _ => Err(Error::Type),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an int32 is the low half of its varint")]
fn int(shape: Shape, wire: Wire<'_>) -> Result<i64, Error> {
    let value = varint(wire)?.cast_signed();
    Ok(if shape == Shape::Int32 { i64::from(value as i32) } else { value })
}
