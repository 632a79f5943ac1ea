//! Any bytes as the messages of a call to any method, in any pieces.
#![no_main]

use bytes::Bytes;
use etcd::wire::frame::{Decoder, decode};
use etcd::wire::messages::*;

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<Vec<u8>>)| {
    let (method, pieces) = input;
    let mut decoder = Decoder::new(1 << 16);
    for piece in pieces {
        decoder.push(Bytes::from(piece));
        while let Ok(Some(message)) = decoder.next_message() {
            let _ = match method % 8 {
                0 => decode::<RangeRequest>(message).map(drop),
                1 => decode::<PutRequest>(message).map(drop),
                2 => decode::<DeleteRangeRequest>(message).map(drop),
                3 => decode::<TxnRequest>(message).map(drop),
                4 => decode::<WatchRequest>(message).map(drop),
                5 => decode::<TxnResponse>(message).map(drop),
                6 => decode::<WatchResponse>(message).map(drop),
                _ => decode::<LeaseTimeToLiveResponse>(message).map(drop),
            };
        }
    }
});
