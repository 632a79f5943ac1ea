//! What a transaction must be like before anybody looks at the keys: bounded, and clear about each
//! key.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{Error, KeyRange, Op, PUT_BYTES_MAX, PutValue, TXN_OPS_MAX, Txn};

/// How deep transactions may lie in transactions: each level is a level of recursion.
const DEPTH_MAX: usize = 8;

pub(crate) fn check_txn(txn: &Txn) -> Result<(), Error> {
    match (&txn.then[..], &txn.otherwise[..]) {
        // Most are like this, and nothing in them can be in the way of anything else.
        ([Op::Put(put)], []) if txn.compares.len() <= 1 => check_size(&put.key, &put.value),
        _ => check_depth(txn, DEPTH_MAX).map(drop),
    }
}

/// The keys that a branch writes.
#[derive(Default)]
struct Written<'a> {
    puts: BTreeSet<&'a Bytes>,
    deletes: Vec<&'a KeyRange>,
}

fn check_depth(txn: &Txn, depth: usize) -> Result<Written<'_>, Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooLarge {
        what: "the nesting of a transaction",
        size: DEPTH_MAX + 1,
        max: DEPTH_MAX,
    })?;
    let n_ops = txn.compares.len().max(txn.then.len()).max(txn.otherwise.len());
    if n_ops > TXN_OPS_MAX {
        let what = "the number of operations or compares";
        return Err(Error::TooLarge { what, size: n_ops, max: TXN_OPS_MAX });
    }
    let mut written = check_branch(&txn.then, depth)?;
    // The branches exclude each other, so they may write the same keys.
    let other = check_branch(&txn.otherwise, depth)?;
    written.puts.extend(other.puts);
    written.deletes.extend(other.deletes);
    Ok(written)
}

fn check_branch(ops: &[Op], depth: usize) -> Result<Written<'_>, Error> {
    let mut written = Written::default();
    for op in ops {
        match op {
            Op::Put(put) => {
                check_size(&put.key, &put.value)?;
                written.add(Written { puts: BTreeSet::from([&put.key]), deletes: vec![] })?;
            }
            Op::Delete(range) => {
                written.add(Written { puts: BTreeSet::new(), deletes: vec![range] })?;
            }
            Op::Range(_) => {}
            Op::Txn(txn) => written.add(check_depth(txn, depth)?)?,
        }
    }
    Ok(written)
}

impl<'a> Written<'a> {
    fn add(&mut self, other: Self) -> Result<(), Error> {
        let twice = other.puts.iter().find(|it| {
            self.puts.contains(*it) || self.deletes.iter().any(|range| range.contains(it))
        });
        let deleted = self.puts.iter().find(|it| other.deletes.iter().any(|r| r.contains(it)));
        if let Some(key) = twice.or(deleted) {
            return Err(Error::DuplicateKey { key: (*key).clone() });
        }
        self.puts.extend(other.puts);
        self.deletes.extend(other.deletes);
        Ok(())
    }
}

fn check_size(key: &Bytes, value: &PutValue) -> Result<(), Error> {
    let value = match value {
        PutValue::Bytes(bytes) | PutValue::Stamped { bytes, .. } => bytes.len(),
        PutValue::Kept => 0,
    };
    let size = key.len() + value;
    if size > PUT_BYTES_MAX {
        let what = "the number of bytes of a key and its value";
        return Err(Error::TooLarge { what, size, max: PUT_BYTES_MAX });
    }
    Ok(())
}
