//! Random work as numbers: a number stands for one step, and a smaller number for a simpler one, so
//! that whoever shrinks the numbers shrinks the history.

use bytes::Bytes;

use crate::{
    Compare, KeyRange, LeaseId, Op, Put, PutLease, PutValue, RangeRequest, Relation, Revision,
    Target, Txn, Want,
};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Txn(Txn),
    /// At once, so that they may share a commit.
    Burst(Vec<Txn>),
    /// Hundredths of what is retained.
    Compact(u64),
    Reopen,
    Grant(LeaseId),
    Revoke(LeaseId),
    KeepAlive(LeaseId),
    /// A watch that nobody reads until the end: of all, or of part.
    Watch(KeyRange),
}

/// Choices taken from a number, the first from its lowest part. When it is used up all choices are
/// the first one.
struct Choices(u128);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        let bound = u128::from(bound);
        let choice = self.0 % bound;
        self.0 /= bound;
        u64::try_from(choice).expect("below a u64")
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let n = self.below(from.len() as u64);
        from[usize::try_from(n).expect("an index")].clone()
    }
}

impl Step {
    pub(super) fn of(word: u128) -> Self {
        let mut choices = Choices(word);
        match choices.below(24) {
            0..14 => Self::Txn(txn(&mut choices, 1)),
            14..17 => {
                let n = 2 + choices.below(3);
                Self::Burst((0..n).map(|_| txn(&mut choices, 0)).collect())
            }
            17 => Self::Grant(lease(&mut choices)),
            18 => Self::Revoke(lease(&mut choices)),
            19 => Self::KeepAlive(lease(&mut choices)),
            20 => Self::Watch(range(&mut choices)),
            21 => Self::Compact(choices.pick(&[100, 0, 50, 25, 75, 99])),
            _ => Self::Reopen,
        }
    }
}

fn lease(choices: &mut Choices) -> LeaseId {
    let id = 1 + choices.below(3);
    LeaseId::new(i64::try_from(id).expect("small")).expect("not zero")
}

const KEYS: [&str; 6] = ["a", "b", "a1", "a2", "b\0", "c"];

fn key(choices: &mut Choices) -> Bytes {
    Bytes::from_static(choices.pick(&KEYS).as_bytes())
}

fn range(choices: &mut Choices) -> KeyRange {
    let key = key(choices);
    match choices.below(5) {
        0 => KeyRange::one(&key),
        1 => KeyRange::prefix(&key),
        2 => KeyRange::prefix(b""),
        3 => KeyRange { start: key, end: Bytes::new() },
        _ => KeyRange { start: key, end: Bytes::from_static(choices.pick(&KEYS).as_bytes()) },
    }
}

fn txn(choices: &mut Choices, depth: u64) -> Txn {
    let mut ops = |most: u64| {
        let n = choices.below(most);
        (0..n).map(|_| op(choices, depth)).collect::<Vec<_>>()
    };
    let mut then = ops(3);
    let otherwise = if then.len() == 2 { ops(3) } else { Vec::new() };
    then.insert(0, put(choices));
    let n_compares = choices.below(3);
    let compares = (0..n_compares).map(|_| compare(choices)).collect();
    let txn = Txn { compares, then, otherwise, ..Txn::default() };
    let txn = if choices.below(3) == 2 { txn.relaxed() } else { txn };
    if choices.below(3) == 2 { txn.without_previous_values() } else { txn }
}

fn op(choices: &mut Choices, depth: u64) -> Op {
    match choices.below(8) {
        0..3 => put(choices),
        3 => Op::delete(&key(choices)),
        4 => Op::Delete(range(choices)),
        5 => Op::Range(request(choices)),
        6 if depth > 0 => Op::Txn(txn(choices, depth - 1)),
        _ => put(choices),
    }
}

fn put(choices: &mut Choices) -> Op {
    let key = key(choices);
    let text = choices.below(100).to_string();
    let value = match choices.below(10) {
        0..7 => PutValue::Bytes(text.into()),
        7..9 => PutValue::Stamped { bytes: text.into(), at: 1 },
        _ => PutValue::Kept,
    };
    let lease = match choices.below(12) {
        0..10 => PutLease::None,
        10 => PutLease::Bound(lease(choices)),
        _ => PutLease::Kept,
    };
    Op::Put(Put { key, value, lease })
}

fn request(choices: &mut Choices) -> RangeRequest {
    let range = range(choices);
    let at = match choices.below(3) {
        0 | 1 => None,
        _ => Some(Revision(1 + choices.below(12))),
    };
    let limit = usize::try_from(choices.below(3)).expect("small");
    RangeRequest { range, at, limit, want: choices.pick(&[Want::Entries, Want::Keys, Want::Count]) }
}

fn compare(choices: &mut Choices) -> Compare {
    use Relation::{Equal, Greater, Less, NotEqual};
    let keys = range(choices);
    let target = match choices.below(5) {
        0 => Target::ModRevision(Revision(choices.below(12))),
        1 => Target::CreateRevision(Revision(choices.below(12))),
        2 => Target::Version(choices.below(4)),
        3 => Target::Value(choices.below(100).to_string().into()),
        _ => Target::Lease(LeaseId::new(i64::try_from(choices.below(4)).expect("small"))),
    };
    Compare { keys, relation: choices.pick(&[NotEqual, Equal, Less, Greater]), target }
}
