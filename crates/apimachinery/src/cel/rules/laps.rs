//! How long rules take, for whoever wants to know. Nothing here reads a clock.

/// Told of each part of a schema when its rules are compiled, and of each value that rules are for, or
/// for what is in it: what is inside is told of by itself, too, and before.
pub trait Laps {
    /// What `end` will be given.
    fn begin(&self) -> u64;

    fn end(&self, begin: u64);
}

/// Nobody wants to know.
impl Laps for () {
    fn begin(&self) -> u64 {
        0
    }

    fn end(&self, _begin: u64) {}
}
