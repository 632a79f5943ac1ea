//! What goes into the store gets memory of its own: a key or value may be a small part of a large
//! buffer that came from the network, and would keep all of it in memory for as long as the object
//! lives.

use bytes::{Bytes, BytesMut};

use crate::{Op, Put, PutValue, Txn};

/// Key and value of each put share one allocation of the right size.
pub(super) fn own(txn: &mut Txn) {
    for op in txn.then.iter_mut().chain(&mut txn.otherwise) {
        match op {
            Op::Put(put) => own_put(put),
            Op::Txn(nested) => own(nested),
            Op::Delete(_) | Op::Range(_) => {}
        }
    }
}

fn own_put(put: &mut Put) {
    let PutValue::Bytes(value) = &mut put.value else {
        // A stamped value is copied when it is stamped.
        put.key = Bytes::copy_from_slice(&put.key);
        return;
    };
    let mut bytes = BytesMut::with_capacity(put.key.len() + value.len());
    bytes.extend_from_slice(&put.key);
    bytes.extend_from_slice(value);
    *value = bytes.split_off(put.key.len()).freeze();
    put.key = bytes.freeze();
}
