//! The whole control plane in one thread, in memory, under paused time, from one seed.
//!
//! The same code as in production, wired the same way; only the world (clock, chance), the disk
//! (`kvstore::memory`) and the transport (in process, optionally faulty) are given. The same seed
//! gives the same history.

mod cluster;
mod extensions;
mod faults;
mod history;
mod invariants;

pub use cluster::{Cluster, Options};
pub use extensions::Extensions;
pub use faults::Faults;
pub use history::History;
pub use invariants::{
    deletions, miscounted_jobs, objects_beyond, pods_beyond, remains, replicas_outside,
    shared_identities, violations,
};
