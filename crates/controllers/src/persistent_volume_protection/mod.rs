//! Keeps a PersistentVolume that is being deleted for as long as it is bound to a claim.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use api::core::PersistentVolume;
use reconcile::itself;

pub(crate) use self::garbage::plan_any;
use crate::protection::Protection;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "persistentvolume-protection-controller",
    aliases: &["pv-protection"],
    identity: "pv-protection-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let terms = (plan::FINALIZER, "claims");
    let reconciler = Protection::new(startup, &mut controller, terms, plan::users);
    controller.watches(itself::<PersistentVolume>).run(reconciler);
}
