//! What std lacks: an injected clock and randomness, backoff, a pace, ranges of addresses, locks of files,
//! and the one printer of error chains.
//!
//! Knows nothing of Kubernetes. Everything here is deterministic when given a seed and paused time.

mod backoff;
mod cidr;
mod clock;
mod error_chain;
mod file_lock;
mod pace;
mod random;

pub use backoff::Backoff;
pub use cidr::{Cidr, Family, ParseCidrError};
pub use clock::{Clock, PausedClock, SharedClock, SystemClock};
pub use error_chain::error_chain;
pub use file_lock::lock_file;
pub use pace::Pace;
pub use random::Random;

/// What the control plane takes from outside itself: time and chance. Disk and network come in
/// through `kvstore::Store` and `client::Transport`.
#[derive(Clone)]
pub struct World {
    pub clock: SharedClock,
    pub random: Random,
}

impl World {
    /// The real world: the system's clock and the operating system's randomness.
    pub fn system() -> Self {
        Self { clock: std::sync::Arc::new(SystemClock), random: Random::from_os() }
    }

    /// A world that repeats itself: wall time follows tokio's (paused) time, chance follows `seed`.
    /// Must be called inside a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        Self { clock: std::sync::Arc::new(PausedClock::new()), random: Random::from_seed(seed) }
    }
}
