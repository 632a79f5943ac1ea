//! One write as bytes of the old file's log: kind, length of the key, creation, version, previous
//! write, key, value. Numbers are little endian. Key and value of a parsed record share one
//! allocation.

use bytes::{Buf as _, Bytes};
#[cfg(test)]
use bytes::{BufMut as _, BytesMut};

#[cfg(test)]
use crate::Event;
use crate::{KeyValue, Revision};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const HEADER_BYTES: usize = 1 + 4 + 8 + 8 + 8;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Bytes,
    /// `None`: the key was deleted.
    pub(super) value: Option<KeyValue>,
    /// When the key was written before, if it existed.
    pub(super) previous: Option<Revision>,
}

impl Record {
    /// As the old program wrote it.
    #[cfg(test)]
    pub(super) fn render(event: &Event) -> BytesMut {
        let (kind, create, version, value): (_, _, _, &[u8]) = match &event.value {
            Some(it) => (PUT, it.create_revision.0, it.version, &it.value),
            None => (DELETE, 0, 0, &[]),
        };
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + event.key.len() + value.len());
        bytes.put_u8(kind);
        bytes.put_u32_le(u32::try_from(event.key.len()).expect("keys are short"));
        bytes.put_u64_le(create);
        bytes.put_u64_le(version);
        // No write has revision 0, so 0 is "none".
        bytes.put_u64_le(event.previous.as_ref().map_or(0, |it| it.mod_revision.0));
        bytes.put_slice(&event.key);
        bytes.put_slice(value);
        bytes
    }

    /// `None` when the bytes are no record.
    pub(super) fn parse(revision: Revision, bytes: &[u8]) -> Option<Self> {
        let mut rest = Bytes::copy_from_slice(bytes);
        if rest.len() < HEADER_BYTES {
            return None;
        }
        let kind = rest.get_u8();
        let key_bytes = usize::try_from(rest.get_u32_le()).ok()?;
        let create_revision = Revision(rest.get_u64_le());
        let version = rest.get_u64_le();
        let previous = Some(rest.get_u64_le()).filter(|it| *it != 0).map(Revision);
        if rest.len() < key_bytes {
            return None;
        }
        let key = rest.split_to(key_bytes);
        let value = match kind {
            DELETE if rest.is_empty() => None,
            PUT => Some(KeyValue {
                key: key.clone(),
                value: rest,
                create_revision,
                mod_revision: revision,
                version,
                lease: None,
            }),
            _ => return None,
        };
        Some(Self { key, value, previous })
    }
}

/// What is taken has all of the bytes behind the header, as they are there.
pub(in crate::embedded) fn check_parser(bytes: &[u8]) {
    let Some(Record { key, value, .. }) = Record::parse(Revision(9), bytes) else { return };
    let value = value.map_or_else(Bytes::new, |it| it.value);
    assert_eq!([&key[..], &value[..]].concat(), bytes[HEADER_BYTES..]);
}

pub(super) fn unreadable(at: Revision) -> redb::Error {
    redb::Error::Corrupted(format!("the record of revision {} is unreadable", at.0))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Record;
    use crate::{Event, KeyValue, Revision};

    fn entry(value: &'static str, at: u64) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(value.as_bytes()),
            create_revision: Revision(2),
            mod_revision: Revision(at),
            version: 3,
            lease: None,
        }
    }

    #[test]
    fn a_record_reads_back_as_written_and_a_cut_one_does_not() {
        for (value, previous) in [
            (Some(entry("new", 9)), Some(entry("old", 7))),
            (Some(entry("", 9)), None),
            (None, Some(entry("x", 2))),
        ] {
            let key = Bytes::from_static(b"k");
            let event = Event { key: key.clone(), value, previous, revision: Revision(9) };
            let bytes = Record::render(&event);
            let expected = Record {
                key,
                value: event.value.clone(),
                previous: event.previous.as_ref().map(|it| it.mod_revision),
            };
            assert_eq!(Record::parse(Revision(9), &bytes), Some(expected));
            assert_eq!(Record::parse(Revision(9), &bytes[..20]), None);
        }
    }
}
