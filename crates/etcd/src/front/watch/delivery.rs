//! A response with events, encoded straight from the store's: no message is made of them only to be
//! encoded. The bytes are those of `pb::WatchResponse`.

use bytes::{Buf, BufMut};
use kvstore::{Event, KeyValue};
use prost::encoding::{
    DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, key_len,
};
use prost::{DecodeError, Message};

use crate::wire::messages as pb;

#[derive(Debug)]
pub(super) struct Delivery<'a> {
    pub(super) header: pb::ResponseHeader,
    pub(super) watch_id: i64,
    pub(super) is_fragment: bool,
    pub(super) events: &'a [Event],
}

/// Where the fields of a message go, in order. What is zero or empty is not sent.
trait Fields {
    fn number(&mut self, tag: u32, number: u64);
    fn bytes(&mut self, tag: u32, bytes: &[u8]);
    /// The fields that follow, of this length, are those of a message within.
    fn open(&mut self, tag: u32, len: usize);
}

/// Only counts.
struct Length(usize);

struct Wire<'a, B>(&'a mut B);

impl Fields for Length {
    fn number(&mut self, tag: u32, number: u64) {
        if number != 0 {
            self.0 += key_len(tag) + encoded_len_varint(number);
        }
    }

    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.open(tag, bytes.len());
            self.0 += bytes.len();
        }
    }

    fn open(&mut self, tag: u32, len: usize) {
        self.0 += key_len(tag) + encoded_len_varint(len as u64);
    }
}

impl<B: BufMut> Fields for Wire<'_, B> {
    fn number(&mut self, tag: u32, number: u64) {
        if number != 0 {
            encode_key(tag, WireType::Varint, self.0);
            encode_varint(number, self.0);
        }
    }

    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.open(tag, bytes.len());
            self.0.put_slice(bytes);
        }
    }

    fn open(&mut self, tag: u32, len: usize) {
        encode_key(tag, WireType::LengthDelimited, self.0);
        encode_varint(len as u64, self.0);
    }
}

fn len_of(write: impl FnOnce(&mut Length)) -> usize {
    let mut length = Length(0);
    write(&mut length);
    length.0
}

/// `mvccpb.KeyValue`.
fn write_entry(fields: &mut impl Fields, entry: &KeyValue) {
    fields.bytes(1, &entry.key);
    fields.number(2, entry.create_revision.0);
    fields.number(3, entry.mod_revision.0);
    fields.number(4, entry.version);
    fields.bytes(5, &entry.value);
    fields.number(6, entry.lease.map_or(0, |it| it.0.get().cast_unsigned()));
}

/// What is left of an entry that was deleted.
fn write_deleted(fields: &mut impl Fields, event: &Event) {
    fields.bytes(1, &event.key);
    fields.number(3, event.revision.0);
}

/// `mvccpb.Event`.
fn write_event(fields: &mut impl Fields, event: &Event) {
    match &event.value {
        Some(value) => {
            fields.open(2, len_of(|it| write_entry(it, value)));
            write_entry(fields, value);
        }
        None => {
            fields.number(1, pb::EventType::Delete as u64);
            fields.open(2, len_of(|it| write_deleted(it, event)));
            write_deleted(fields, event);
        }
    }
    if let Some(previous) = &event.previous {
        fields.open(3, len_of(|it| write_entry(it, previous)));
        write_entry(fields, previous);
    }
}

fn write_header(fields: &mut impl Fields, header: &pb::ResponseHeader) {
    fields.number(1, header.cluster_id);
    fields.number(2, header.member_id);
    fields.number(3, header.revision.cast_unsigned());
    fields.number(4, header.raft_term);
}

/// `etcdserverpb.WatchResponse`.
fn write_response(fields: &mut impl Fields, delivery: &Delivery<'_>) {
    fields.open(1, len_of(|it| write_header(it, &delivery.header)));
    write_header(fields, &delivery.header);
    fields.number(2, delivery.watch_id.cast_unsigned());
    fields.number(7, u64::from(delivery.is_fragment));
    for event in delivery.events {
        fields.open(11, len_of(|it| write_event(it, event)));
        write_event(fields, event);
    }
}

impl Message for Delivery<'_> {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        write_response(&mut Wire(buffer), self);
    }

    fn encoded_len(&self) -> usize {
        len_of(|it| write_response(it, self))
    }

    /// It is only sent: whoever receives it decodes a `pb::WatchResponse`.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn clear(&mut self) {
        self.events = &[];
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvstore::{Event, KeyValue, LeaseId, Revision};
    use prost::Message as _;

    use super::Delivery;
    use crate::front::kv::entry;
    use crate::front::number;
    use crate::wire::messages as pb;

    fn value(n: u64) -> KeyValue {
        KeyValue {
            key: Bytes::from(format!("/registry/{n}")),
            value: Bytes::from(vec![b'x'; usize::try_from(n).unwrap() * 77 % 500]),
            create_revision: Revision(n),
            mod_revision: Revision(n << 20),
            version: n + 1,
            lease: LeaseId::new(i64::try_from(n).unwrap() % 3 - 1),
        }
    }

    fn event(n: u64) -> Event {
        let value = Some(value(n)).filter(|_| !n.is_multiple_of(3));
        let previous = Some(self::value(n + 7)).filter(|_| n.is_multiple_of(2));
        Event {
            key: Bytes::from(format!("/registry/{n}")),
            value,
            previous,
            revision: Revision(n << 20),
        }
    }

    fn plain(event: &Event) -> pb::Event {
        let deleted = || pb::KeyValue {
            key: event.key.clone(),
            mod_revision: number(event.revision),
            ..Default::default()
        };
        let kind = match event.value {
            Some(_) => pb::EventType::Put,
            None => pb::EventType::Delete,
        };
        pb::Event {
            kind: kind as i32,
            kv: Some(event.value.clone().map_or_else(deleted, entry)),
            prev_kv: event.previous.clone().map(entry),
        }
    }

    #[test]
    fn a_delivery_is_a_watch_response() {
        for n_events in 0..40 {
            let events: Vec<Event> = (0..n_events).map(event).collect();
            let header = pb::ResponseHeader {
                cluster_id: u64::MAX - n_events,
                member_id: n_events,
                revision: i64::try_from(n_events).unwrap() * 1_000_003,
                raft_term: 2,
            };
            let watch_id = i64::try_from(n_events).unwrap() - 2;
            let is_fragment = n_events % 2 == 1;
            let response = pb::WatchResponse {
                header: Some(header),
                watch_id,
                fragment: is_fragment,
                events: events.iter().map(plain).collect(),
                ..Default::default()
            };
            let delivery = Delivery { header, watch_id, is_fragment, events: &events };
            assert_eq!(delivery.encode_to_vec(), response.encode_to_vec());
        }
    }
}
