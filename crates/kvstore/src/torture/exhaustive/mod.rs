//! Every small history, compacted through every revision at every time, read and watched from every
//! revision.
//!
//! A history is a sequence of seven kinds of transactions over three keys: puts of one and of two
//! keys, deletes of one key, a put together with a delete, and a delete of everything. For each
//! history there is one store for each pair of a moment between two of its transactions and a
//! revision that is compacted then, and one that is started again at its end and then compacted
//! through one revision after the other. At the end of each, the answers of ranges and of resumed
//! watches at and after every revision, of all keys, of one, and of those from the second on, are
//! compared with the reference's, and so are a watch that was opened first and never read, and each
//! transaction's answer. Histories that only differ in the names of keys count as different, since
//! engines sort keys.
//!
//! | steps | histories | stores |
//! |---|---|---|
//! | up to 3 | 400 | 1,072 |
//! | up to 4 | 2,801 | 12,986 |
//! | up to 5 | 19,608 | 144,775 |
//! | up to 6 | 137,257 | 1,500,304 |

mod check;
mod tried;

use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stdx::Random;

use self::check::History;
use self::tried::{AtOnce, Blocking, Tried};
use super::bench::Engine;
use crate::contract::{delete, put};
use crate::embedded::torture::{Inline, Memory};
use crate::{KeyRange, Op, Txn};

/// What one step of a history can be.
const N_STEPS: u32 = 7;

fn step(n: u32) -> Txn {
    Txn::of(match n {
        0 => vec![put("a", "1")],
        1 => vec![put("b", "1")],
        2 => vec![delete("a")],
        3 => vec![delete("b")],
        4 => vec![put("a", "2"), put("c", "2")],
        5 => vec![put("b", "3"), delete("a")],
        _ => vec![Op::Delete(KeyRange::prefix(b""))],
    })
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub histories: u64,
    pub stores: u64,
    /// Answers that were compared.
    pub checks: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.stores += other.stores;
        self.checks += other.checks;
    }
}

/// All histories of up to `length` steps, on all cores. Engines are without threads, and the
/// embedded one is on a simulated disk: so everything happens at once, and the same way each time.
pub fn exhaustive(engine: Engine, length: u32) -> Tally {
    match engine {
        Engine::Memory => all(length, AtOnce::new),
        Engine::Embedded { ring_commits, value_bytes } => {
            all(length, || Inline::new(Memory { ring_commits, value_bytes }))
        }
    }
}

/// Some histories of `length` steps on an engine as it is used: with its threads, on a real disk.
pub fn sampled(engine: Engine, seed: u64, rounds: u64, length: u32) -> Tally {
    let random = Random::from_seed(seed);
    let mut tally = Tally::default();
    for _ in 0..rounds {
        let number = random.below(u64::from(N_STEPS).pow(length));
        tally += History::new(&steps_of(number, length)).check(&|| Blocking::new(engine));
    }
    tally
}

fn all<T: Tried>(length: u32, open: impl Fn() -> T + Sync) -> Tally {
    let histories = |length| (0..u64::from(N_STEPS).pow(length)).map(move |it| (it, length));
    let histories: Vec<(u64, u32)> = (0..=length).flat_map(histories).collect();
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        let mut tally = Tally::default();
        while let Some((number, length)) = histories.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally += History::new(&steps_of(*number, *length)).check(&open);
        }
        *total.lock().expect("nobody panics with it") += tally;
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    // A panic of one of them is a panic here.
    std::thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work))));
    total.into_inner().expect("nobody panicked with it")
}

fn steps_of(mut number: u64, length: u32) -> Vec<u32> {
    let mut steps = Vec::new();
    for _ in 0..length {
        steps.push(
            u32::try_from(number % u64::from(N_STEPS)).expect("it is below the kinds of steps"),
        );
        number /= u64::from(N_STEPS);
    }
    steps
}
