//! No key may be put twice in a transaction, or put and deleted. etcd looks for that too, but
//! overlooks deletions of ranges without an end.

use std::collections::BTreeSet;

use bytes::Bytes;
use kvstore::{Error, KeyRange, Op, Txn};

/// What some operations write.
#[derive(Default)]
struct Written<'a> {
    puts: BTreeSet<&'a Bytes>,
    deletes: Vec<&'a KeyRange>,
}

pub(super) fn check(txn: &Txn) -> Result<(), Error> {
    match of_txn(txn) {
        Ok(_) => Ok(()),
        Err(key) => Err(Error::DuplicateKey { key: key.clone() }),
    }
}

/// Fails with a key that is written twice.
fn of_txn(txn: &Txn) -> Result<Written<'_>, &Bytes> {
    let mut written = of_branch(&txn.then)?;
    // Only one of the branches runs, so they may write the same.
    let otherwise = of_branch(&txn.otherwise)?;
    written.puts.extend(otherwise.puts);
    written.deletes.extend(otherwise.deletes);
    Ok(written)
}

fn of_branch(ops: &[Op]) -> Result<Written<'_>, &Bytes> {
    let mut all = Written::default();
    for op in ops {
        let more = match op {
            Op::Put(put) => Written { puts: BTreeSet::from([&put.key]), deletes: Vec::new() },
            Op::Delete(range) => Written { puts: BTreeSet::new(), deletes: vec![range] },
            Op::Range(_) => continue,
            Op::Txn(txn) => of_txn(txn)?,
        };
        let is_deleted =
            |deletes: &[&KeyRange], key: &Bytes| deletes.iter().any(|it| it.contains(key));
        let twice =
            more.puts.iter().find(|it| all.puts.contains(*it) || is_deleted(&all.deletes, it));
        if let Some(key) =
            twice.or_else(|| all.puts.iter().find(|it| is_deleted(&more.deletes, it)))
        {
            return Err(key);
        }
        all.puts.extend(more.puts);
        all.deletes.extend(more.deletes);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use kvstore::{Error, KeyRange, Op, Txn};

    #[test]
    fn a_key_is_written_once() {
        let check = |ops: Vec<Op>, expected: Option<&str>| {
            let twice = match super::check(&Txn::of(ops)) {
                Err(Error::DuplicateKey { key }) => Some(key),
                _ => None,
            };
            assert_eq!(twice.as_deref(), expected.map(str::as_bytes));
        };
        let put = |key: &'static str| Op::put(key, "");
        let nested = |ops: Vec<Op>| Op::Txn(Txn::of(ops));
        check(vec![put("a"), put("b")], None);
        check(vec![put("a"), put("a")], Some("a"));
        check(vec![put("a"), Op::delete(b"a")], Some("a"));
        check(vec![Op::Delete(KeyRange::prefix(b"")), put("b")], Some("b"));
        check(vec![put("a"), nested(vec![put("a")])], Some("a"));
        check(vec![nested(vec![Op::delete(b"a")]), put("a")], Some("a"));
        check(vec![Op::delete(b"a"), Op::Delete(KeyRange::prefix(b"a"))], None);
        let branches = Txn { otherwise: vec![put("a")], ..Txn::of(vec![put("a")]) };
        check(vec![Op::Txn(branches)], None);
    }
}
