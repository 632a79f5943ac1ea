//! The tree of cgroups above the containers: one for all pods, one for each class of service, one
//! for each pod.

use crate::Future;
use crate::containers::{Resources, Usage};

/// Names are paths below the node's root for pods, such as `kubepods/burstable/pod1b2c`.
pub trait Cgroups: Send + Sync {
    /// Makes it, with its parents, and sets these limits.
    fn ensure(&self, name: &str, resources: Resources) -> Future<'_, ()>;
    /// Kills what is in it and removes it with everything below.
    fn remove(&self, name: &str) -> Future<'_, ()>;
    /// Direct children, by their last name.
    fn children(&self, name: &str) -> Future<'_, Vec<String>>;
    fn usage(&self, name: &str) -> Future<'_, Usage>;
    /// Of the whole machine, pods or not.
    fn machine(&self) -> Future<'_, Usage>;
}
