//! Deletes requests for certificates that nobody needs any more: decided an hour ago, open for a
//! day, or with a certificate that has ended. Sleeps until the next is due.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, expiry};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "certificatesigningrequest-cleaner-controller",
    aliases: &["csrcleaner"],
    identity: "certificate-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start: |startup| expiry::start(startup, plan::plan),
};
