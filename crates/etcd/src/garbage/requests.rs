//! Requests made of any bytes: right messages with numbers and keys that meet, or are at the edge.

use bytes::Bytes;
use prost::Message;

use crate::wire::frame::encode;
use crate::wire::messages::*;
use crate::wire::methods;

/// Bytes as choices. When they are used up all is 0.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

pub(super) struct Call {
    pub(super) path: &'static str,
    /// With their prefixes.
    pub(super) messages: Vec<Bytes>,
    pub(super) is_stream: bool,
}

fn call(path: &'static str, message: &impl Message) -> Call {
    Call { path, messages: vec![encode(message)], is_stream: false }
}

/// Transactions in transactions.
const DEPTH_MAX: u8 = 3;

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn is_so(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn bytes(&mut self, n: u8) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(self.0.len().min(usize::from(n)));
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> i64 {
        match self.byte() {
            250 => i64::MIN,
            251 => i64::MAX,
            252 => i64::MAX - 1,
            253 => -i64::from(self.byte()),
            254 => 1 << (self.byte() % 63),
            small => i64::from(small) % 16,
        }
    }

    /// For fields with few values, of which some are unknown.
    fn choice(&mut self) -> i32 {
        match self.byte() {
            255 => -1,
            254 => i32::MAX,
            small => i32::from(small) % 6,
        }
    }

    fn key(&mut self) -> Bytes {
        const KEYS: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"b", b"c", b"c\xff", b"\xff\xff"];
        match self.byte() {
            it @ 0..240 => Bytes::from_static(KEYS[usize::from(it) % KEYS.len()]),
            it => Bytes::copy_from_slice(self.bytes(it - 240)),
        }
    }

    /// `None` when the bytes are used up.
    pub(super) fn call(&mut self) -> Option<Call> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.byte() % 24 {
            0 | 1 => call(methods::RANGE.path, &self.range()),
            2 | 3 => call(methods::PUT.path, &self.put()),
            4 => call(methods::DELETE_RANGE.path, &self.delete_range()),
            5 | 6 => call(methods::TXN.path, &self.txn(0)),
            7 => self.compact(),
            8 | 9 => self.watch(),
            10 | 11 => {
                let message = LeaseGrantRequest { ttl: self.number(), id: self.number() };
                call(methods::LEASE_GRANT.path, &message)
            }
            12 => call(methods::LEASE_REVOKE.path, &LeaseRevokeRequest { id: self.number() }),
            13 => self.keep_alive(),
            14 => {
                let message = LeaseTimeToLiveRequest { id: self.number(), keys: self.is_so() };
                call(methods::LEASE_TIME_TO_LIVE.path, &message)
            }
            15 => call(methods::LEASE_LEASES.path, &LeaseLeasesRequest {}),
            16 => {
                let message = MemberListRequest { linearizable: self.is_so() };
                call(methods::MEMBER_LIST.path, &message)
            }
            17 => self.alarm(),
            18 => call(methods::STATUS.path, &StatusRequest {}),
            19 => call(methods::HASH_KV.path, &HashKvRequest { revision: self.number() }),
            20 => self.upkeep(),
            21 => self.authenticate(),
            _ => self.any_bytes(),
        })
    }

    fn range(&mut self) -> RangeRequest {
        RangeRequest {
            key: self.key(),
            range_end: self.key(),
            limit: self.number(),
            revision: self.number(),
            sort_order: self.choice(),
            sort_target: self.choice(),
            serializable: self.is_so(),
            keys_only: self.is_so(),
            count_only: self.is_so(),
            min_mod_revision: self.number(),
            max_mod_revision: self.number(),
            min_create_revision: self.number(),
            max_create_revision: self.number(),
        }
    }

    fn put(&mut self) -> PutRequest {
        PutRequest {
            key: self.key(),
            value: self.key(),
            lease: self.number(),
            prev_kv: self.is_so(),
            ignore_value: self.is_so(),
            ignore_lease: self.is_so(),
        }
    }

    fn delete_range(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest { key: self.key(), range_end: self.key(), prev_kv: self.is_so() }
    }

    fn txn(&mut self, depth: u8) -> TxnRequest {
        let compare = (0..self.byte() % 3).map(|_| self.compare()).collect();
        let success = (0..self.byte() % 4).map(|_| self.op(depth)).collect();
        let failure = (0..self.byte() % 3).map(|_| self.op(depth)).collect();
        TxnRequest { compare, success, failure }
    }

    fn op(&mut self, depth: u8) -> RequestOp {
        let request = match self.byte() % 5 {
            0 => None,
            1 => Some(RequestOpUnion::Range(self.range())),
            2 => Some(RequestOpUnion::DeleteRange(self.delete_range())),
            3 if depth < DEPTH_MAX => Some(RequestOpUnion::Txn(self.txn(depth + 1))),
            _ => Some(RequestOpUnion::Put(self.put())),
        };
        RequestOp { request }
    }

    fn compare(&mut self) -> Compare {
        let target_union = match self.byte() % 6 {
            0 => None,
            1 => Some(CompareTargetUnion::Version(self.number())),
            2 => Some(CompareTargetUnion::CreateRevision(self.number())),
            3 => Some(CompareTargetUnion::ModRevision(self.number())),
            4 => Some(CompareTargetUnion::Value(self.key())),
            _ => Some(CompareTargetUnion::Lease(self.number())),
        };
        Compare {
            result: self.choice(),
            target: self.choice(),
            key: self.key(),
            target_union,
            range_end: self.key(),
        }
    }

    fn compact(&mut self) -> Call {
        let message = CompactionRequest { revision: self.number(), physical: self.is_so() };
        call(methods::COMPACT.path, &message)
    }

    fn watch(&mut self) -> Call {
        let messages = (0..1 + self.byte() % 4).map(|_| encode(&self.watch_request())).collect();
        Call { path: methods::WATCH.path, messages, is_stream: true }
    }

    fn watch_request(&mut self) -> WatchRequest {
        let request_union = match self.byte() % 6 {
            0 => None,
            1 => {
                let watch_id = self.number();
                Some(WatchRequestUnion::Cancel(WatchCancelRequest { watch_id }))
            }
            2 => Some(WatchRequestUnion::Progress(WatchProgressRequest {})),
            _ => Some(WatchRequestUnion::Create(WatchCreateRequest {
                key: self.key(),
                range_end: self.key(),
                start_revision: self.number(),
                progress_notify: self.is_so(),
                filters: (0..self.byte() % 3).map(|_| self.choice()).collect(),
                prev_kv: self.is_so(),
                watch_id: self.number(),
                fragment: self.is_so(),
            })),
        };
        WatchRequest { request_union }
    }

    fn keep_alive(&mut self) -> Call {
        let message = |choices: &mut Self| encode(&LeaseKeepAliveRequest { id: choices.number() });
        let messages = (0..1 + self.byte() % 3).map(|_| message(self)).collect();
        Call { path: methods::LEASE_KEEP_ALIVE.path, messages, is_stream: true }
    }

    fn alarm(&mut self) -> Call {
        let (action, alarm) = (self.choice(), self.choice());
        let member_id = self.number().unsigned_abs();
        call(methods::ALARM.path, &AlarmRequest { action, member_id, alarm })
    }

    fn upkeep(&mut self) -> Call {
        match self.byte() % 5 {
            0 => call(methods::DEFRAGMENT.path, &DefragmentRequest {}),
            1 => call(methods::HASH.path, &HashRequest {}),
            2 => call(methods::SNAPSHOT.path, &SnapshotRequest {}),
            3 => call(methods::AUTH_STATUS.path, &AuthStatusRequest {}),
            _ => {
                let target_id = self.number().unsigned_abs();
                call(methods::MOVE_LEADER.path, &MoveLeaderRequest { target_id })
            }
        }
    }

    fn authenticate(&mut self) -> Call {
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        let message = AuthenticateRequest { name: text(self.key()), password: text(self.key()) };
        call(methods::AUTHENTICATE.path, &message)
    }

    /// What is no message, in pieces that are no frames.
    fn any_bytes(&mut self) -> Call {
        const PATHS: [&str; 5] = [
            methods::RANGE.path,
            methods::TXN.path,
            methods::WATCH.path,
            methods::LEASE_KEEP_ALIVE.path,
            "/etcdserverpb.KV/Nothing",
        ];
        let path = PATHS[usize::from(self.byte()) % PATHS.len()];
        let piece = |choices: &mut Self| {
            let length = choices.byte();
            Bytes::copy_from_slice(choices.bytes(length))
        };
        let messages = (0..self.byte() % 4).map(|_| piece(self)).collect();
        Call { path, messages, is_stream: true }
    }
}
