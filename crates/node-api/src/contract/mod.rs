//! One suite for every implementation, fake or real: async functions that panic where a promise is
//! broken.
//!
//! Each takes the implementation and a [`Fixture`] that says what to run on it. What it made it
//! removes again.

pub mod cgroups;
pub mod containers;
pub mod images;
pub mod network;
pub mod sandboxes;
pub mod volumes;
mod waiting;

#[cfg(test)]
mod tests;

use crate::containers::ContainerConfig;
use crate::sandboxes::SandboxConfig;

/// What to run: the suite knows what a program should do, the fixture which program does it.
pub trait Fixture: Sync {
    /// For a pod whose name is `name` and whose uid was never used before. The hostname is the
    /// name.
    fn sandbox(&self, name: &str) -> SandboxConfig;
    /// A container called `name`, with its image already on the node and a log path of its own.
    fn container(&self, name: &str, program: Program) -> ContainerConfig;
    fn command(&self, command: Command) -> Vec<String>;
}

/// What a container should do.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// Until a signal ends it: SIGTERM does, within a second.
    RunsForever,
    /// Only SIGKILL ends it.
    IgnoresStop,
    Exits(i32),
    /// Its executable does not exist.
    CannotStart,
}

/// What a command in a container that `RunsForever` should do.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// Writes `out` to stdout and `err` to stderr, without a line's end, and exits with 3.
    Says,
    /// Writes what it reads.
    Echoes,
    RunsForever,
}
