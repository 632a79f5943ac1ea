//! Deletes requests for pods' certificates a while after they were made: whoever waits for one has
//! it by then, or asks anew. Sleeps until the next is due.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, expiry};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "podcertificaterequest-cleaner-controller",
    aliases: &[],
    identity: "podcertificaterequestcleaner",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start: |startup| expiry::start(startup, plan::plan),
};
