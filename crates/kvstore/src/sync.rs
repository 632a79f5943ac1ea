//! The locks of modules whose interleavings are explored: those take them from the module they are
//! in, so that tests can put the same source among locks of a scheduler's.

pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
