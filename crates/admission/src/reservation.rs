//! What a plugin took when it agreed to a write.

use std::sync::Arc;

use api::ApiObject;
use apimachinery::GroupVersionResource;

/// Dropped without having been kept, it is given back: when a later plugin or stage refuses, when
/// the store does, when somebody else was faster, on a dry run, and when the request panics or
/// nobody waits for it any more. Where it cannot be known whether a write happened it is given
/// back, too, so that whoever counts must be able to count anew; what is taken by [`Self::beside`]
/// needs neither.
pub trait Reservation: Send {
    /// The write has happened: what was taken belongs to the object now. It is dropped when the
    /// request is over.
    fn keep(&mut self);

    /// Changes of other objects that happen in one transaction with the write, or not at all.
    fn beside(&self) -> Vec<Beside> {
        Vec::new()
    }
}

/// One object as it will be together with the write. If somebody has changed it meanwhile neither
/// happens, and the request is admitted anew.
#[derive(Clone)]
pub struct Beside {
    pub resource: GroupVersionResource,
    /// Its resourceVersion is that of the object that it replaces.
    pub object: Arc<dyn ApiObject>,
}
