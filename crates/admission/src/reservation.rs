//! What a plugin took when it agreed to a write.

/// Dropped, it is given back: when a later plugin or stage refuses, when the store does, when
/// somebody else was faster, on a dry run, and when the request panics or nobody waits for it any
/// more. Where it cannot be known whether a write happened it is given back, too, so that whoever
/// counts must be able to count anew.
pub trait Reservation: Send {
    /// The write has happened: what was taken belongs to the object now.
    fn keep(self: Box<Self>);
}
