//! Long runs that try to break a store: each kind is one function of a seed and a number of rounds,
//! and says which seed broke it. The test suite runs a little of each.

mod bench;
mod crashes;
mod exhaustive;
mod kill;
mod linearizable;
mod models;
mod steps;
mod watches;

pub use bench::{Bench, Engine};
pub use crashes::{engine, log};
pub use exhaustive::{Tally, exhaustive, sampled};
pub use kill::{Child, kill, kill_child};
pub use linearizable::linearizable;
pub use models::{check_words, models};
pub use watches::watches;
