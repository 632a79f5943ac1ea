//! Keeps a VolumeAttributesClass that is being deleted for as long as a claim or a volume names it.
//!
//! As upstream, what is named first after the last look is not seen.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use api::core::{PersistentVolume, PersistentVolumeClaim};
use api::storage::VolumeAttributesClass;
use apimachinery::ObjectKey;
use informer::Indexer;
use reconcile::itself;

pub(crate) use self::garbage::plan_any;
use crate::protection::Protection;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "volumeattributesclass-protection-controller",
    aliases: &[],
    identity: "volumeattributesclass-protection-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Index: the classes that a claim or a volume names.
const BY_CLASS: &str = "volume-attributes-class";

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let claims: Indexer<PersistentVolumeClaim> =
        controller.indexed_cache(&[(BY_CLASS, plan::classes_of_claim)]);
    let volumes: Indexer<PersistentVolume> =
        controller.indexed_cache(&[(BY_CLASS, plan::classes_of_volume)]);
    let users = move |class: &VolumeAttributesClass| {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        plan::users(&claims.by_index(BY_CLASS, name), &volumes.by_index(BY_CLASS, name))
    };
    let terms = (plan::FINALIZER, "claims and volumes");
    let reconciler = Protection::new(startup, &mut controller, terms, users);
    controller
        .watches(itself::<VolumeAttributesClass>)
        .watches(|it: &PersistentVolumeClaim| keys(plan::classes_of_claim(it)))
        .watches(|it: &PersistentVolume| keys(plan::classes_of_volume(it)))
        .run(reconciler);
}

fn keys(classes: Vec<String>) -> impl Iterator<Item = ObjectKey> {
    classes.into_iter().map(|it| ObjectKey::new("", it))
}
