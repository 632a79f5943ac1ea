//! Sets and maps: what their keys and data are made of, and their elements.
//!
//! A key of several fields is one value in which each field is padded to four bytes, as registers
//! are.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use stdx::Family;

use super::numbers::{data, set};

/// The type of one field. The kernel knows only lengths; the names are for `nft list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Ipv4Address,
    Ipv6Address,
    Protocol,
    Port,
    /// A number in the byte order of the machine.
    Mark,
    InterfaceName,
}

impl Type {
    pub const fn address(family: Family) -> Self {
        match family {
            Family::V4 => Self::Ipv4Address,
            Family::V6 => Self::Ipv6Address,
        }
    }

    /// As in nft's `datatype.h`.
    const fn number(self) -> u32 {
        match self {
            Self::Ipv4Address => 7,
            Self::Ipv6Address => 8,
            Self::Protocol => 12,
            Self::Port => 13,
            Self::Mark => 19,
            Self::InterfaceName => 41,
        }
    }

    const fn length(self) -> u32 {
        match self {
            Self::Protocol => 1,
            Self::Port => 2,
            Self::Ipv4Address | Self::Mark => 4,
            Self::Ipv6Address | Self::InterfaceName => 16,
        }
    }
}

/// nft keeps the types of a concatenation in one number, six bits each.
fn type_number(fields: &[Type]) -> u32 {
    fields.iter().fold(0, |number, it| number << 6 | it.number())
}

fn type_length(fields: &[Type]) -> u32 {
    match fields {
        [single] => single.length(),
        fields => fields.iter().map(|it| it.length().next_multiple_of(4)).sum(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    Verdict,
    Value(Cow<'static, [Type]>),
}

/// What a set is, without what is in it. With data it is a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub key: Cow<'static, [Type]>,
    pub data: Option<DataType>,
    /// Keys are ranges: see [`Element::range`].
    pub is_interval: bool,
    /// Rules add the elements, and they may expire. We never read, add or remove any. The number
    /// bounds the set.
    pub dynamic: Option<u32>,
}

/// What the kernel says of a set, for comparing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    pub flags: u32,
    pub key_type: u32,
    pub key_length: u32,
    pub data_type: u32,
    pub data_length: u32,
    pub size: u32,
}

impl Set {
    pub fn of(key: impl Into<Cow<'static, [Type]>>) -> Self {
        Self { key: key.into(), data: None, is_interval: false, dynamic: None }
    }

    pub fn map(
        key: impl Into<Cow<'static, [Type]>>,
        data: impl Into<Cow<'static, [Type]>>,
    ) -> Self {
        Self { data: Some(DataType::Value(data.into())), ..Self::of(key) }
    }

    pub fn verdict_map(key: impl Into<Cow<'static, [Type]>>) -> Self {
        Self { data: Some(DataType::Verdict), ..Self::of(key) }
    }

    pub fn interval(self) -> Self {
        Self { is_interval: true, ..self }
    }

    pub fn dynamic(self, size: u32) -> Self {
        Self { dynamic: Some(size), ..self }
    }

    pub fn signature(&self) -> Signature {
        let mut flags = 0;
        flags |= if self.data.is_some() { set::MAP } else { 0 };
        flags |= if self.is_interval { set::INTERVAL } else { 0 };
        flags |= if self.is_concatenated_interval() { set::CONCATENATION } else { 0 };
        flags |= if self.dynamic.is_some() { set::DYNAMIC | set::TIMEOUT } else { 0 };
        let (data_type, data_length) = match &self.data {
            None => (0, 0),
            // The kernel answers with the length of its own structure; what matters is the type.
            Some(DataType::Verdict) => (data::TYPE_VERDICT, 0),
            Some(DataType::Value(fields)) => (type_number(fields), type_length(fields)),
        };
        Signature {
            flags,
            key_type: type_number(&self.key),
            key_length: type_length(&self.key),
            data_type,
            data_length,
            size: self.dynamic.unwrap_or(0),
        }
    }

    /// Ranges over several fields are kept otherwise than over one (`nft_set_pipapo`,
    /// `nft_set_rbtree`).
    pub(super) fn is_concatenated_interval(&self) -> bool {
        self.is_interval && self.key.len() > 1
    }

    pub(super) fn field_lengths(&self) -> impl Iterator<Item = u32> {
        self.key.iter().map(|it| it.length())
    }
}

/// A key or data: fields one after the other, each padded to four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Vec<u8>);

impl Value {
    pub fn new() -> Self {
        Self::default()
    }

    /// Without padding, as the key of a set with one short field is.
    pub fn raw(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn bytes(mut self, field: &[u8]) -> Self {
        if self.0.is_empty() {
            self.0.reserve_exact(20);
        }
        self.0.extend_from_slice(field);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn address(self, address: impl Into<IpAddr>) -> Self {
        match address.into() {
            IpAddr::V4(it) => self.bytes(&it.octets()),
            IpAddr::V6(it) => self.bytes(&it.octets()),
        }
    }

    pub fn protocol(self, protocol: u8) -> Self {
        self.bytes(&[protocol])
    }

    pub fn port(self, port: u16) -> Self {
        self.bytes(&port.to_be_bytes())
    }

    pub fn mark(self, mark: u32) -> Self {
        self.bytes(&mark.to_ne_bytes())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    Goto(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    Value(Value),
    Verdict(Verdict),
}

/// What an element is found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub start: Value,
    /// The last key of a range over several fields.
    pub end: Option<Value>,
    /// The element ends, exclusively, a range over one field.
    pub is_range_end: bool,
}

impl From<Value> for Key {
    fn from(start: Value) -> Self {
        Self { start, end: None, is_range_end: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub key: Key,
    pub data: Option<Data>,
    pub timeout: Option<Duration>,
}

impl Element {
    pub fn of(key: impl Into<Key>) -> Self {
        Self { key: key.into(), data: None, timeout: None }
    }

    pub fn with(key: impl Into<Key>, data: Data) -> Self {
        Self { key: key.into(), data: Some(data), timeout: None }
    }

    /// All keys from `first` to `last`, both included, of a set of ranges over several fields.
    pub fn range(first: Value, last: Value) -> Self {
        Self::of(Key { start: first, end: Some(last), is_range_end: false })
    }
}
