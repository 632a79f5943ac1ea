//! Stores to be tried: each engine behind one type, with a directory of its own that goes when it
//! does.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Store;
use crate::embedded::{Embedded, Options};
use crate::memory::Memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Memory,
    /// With this many commits in memory for watches, and this many bytes of them for values: with
    /// few, most of it is read from disk.
    Embedded {
        ring_commits: usize,
        value_bytes: usize,
    },
}

impl Engine {
    pub const IN_MEMORY: Self = Self::Embedded { ring_commits: 4096, value_bytes: 32 << 20 };
    pub const OLD_ON_DISK: Self = Self::Embedded { ring_commits: 2, value_bytes: 1 << 10 };
    pub const ON_DISK: Self = Self::Embedded { ring_commits: 1, value_bytes: 0 };
    pub const VALUES_ON_DISK: Self = Self::Embedded { ring_commits: 4096, value_bytes: 0 };
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::IN_MEMORY, Self::OLD_ON_DISK, Self::ON_DISK, Self::VALUES_ON_DISK];
}

/// One store that may be closed and opened again.
pub struct Bench {
    engine: Engine,
    scratch: Scratch,
    store: Option<Arc<dyn Store>>,
}

impl Bench {
    pub fn new(engine: Engine) -> Self {
        let mut bench = Self { engine, scratch: Scratch::new(), store: None };
        bench.reopen();
        bench
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().expect("it is open but while it is opened")
    }

    /// Closes and opens the store, if it keeps anything. Nobody else may hold it.
    pub fn reopen(&mut self) {
        match self.engine {
            Engine::Memory => {
                self.store.get_or_insert_with(|| Arc::new(Memory::new()));
            }
            Engine::Embedded { ring_commits, value_bytes } => {
                self.store = None;
                let options = Options { ring_commits, value_bytes, ..Options::default() };
                let opened = Embedded::open(self.scratch.path(), options);
                self.store = Some(opened.expect("the store opens"));
            }
        }
    }
}

/// A directory that is removed at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kvstore-torture-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("there is room for a directory");
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind harms nobody, and dropping must not panic.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `round` for each seed from `seed` on. A panic names the seed that leads to it.
pub(super) fn run_seeds<F: Future<Output = ()>>(
    name: &str,
    seed: u64,
    rounds: u64,
    round: impl Fn(u64) -> F,
) {
    for seed in (seed..).take(usize::try_from(rounds).unwrap_or(usize::MAX)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime starts");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(round(seed));
        }));
        assert!(outcome.is_ok(), "{name}: broken with seed {seed}; to see it again: ({seed}, 1)");
    }
}
