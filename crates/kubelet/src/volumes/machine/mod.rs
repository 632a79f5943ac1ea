//! The way of one volume onto the node and off it: which verb of its driver is next. Pure.
//!
//! ```text
//! absent --attach--> attached --stage--> staged --publish--> published
//! absent <--detach-- attached <--unstage-- staged <--unpublish-- published
//! ```
//!
//! Most drivers only publish and unpublish. What may be there counts as missing on the way up and as
//! there on the way down: so neither a verb that failed nor a kubelet that died leaves anything.

#[cfg(test)]
mod tests;

use node_api::volumes::{Found, Needs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desired {
    Published,
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Attach,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Detach,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    #[default]
    Absent,
    /// A verb failed, or an earlier kubelet left it.
    Uncertain,
    Present,
}

/// What is known of a volume on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Actual {
    pub(super) attached: Presence,
    pub(super) staged: Presence,
    pub(super) published: Presence,
    /// A container may be using it.
    pub(super) is_in_use: bool,
}

/// `None`: it is as desired, or must wait for who uses it.
pub(super) fn step(desired: Desired, actual: &Actual, needs: Needs) -> Option<Verb> {
    use Presence::{Absent, Present};
    match desired {
        Desired::Published if needs.attach && actual.attached != Present => Some(Verb::Attach),
        Desired::Published if needs.stage && actual.staged != Present => Some(Verb::Stage),
        Desired::Published => (actual.published != Present).then_some(Verb::Publish),
        Desired::Absent if actual.published != Absent => {
            (!actual.is_in_use).then_some(Verb::Unpublish)
        }
        Desired::Absent if actual.staged != Absent => Some(Verb::Unstage),
        Desired::Absent => (actual.attached != Absent).then_some(Verb::Detach),
    }
}

impl Actual {
    /// As a kubelet that knows nothing yet finds it.
    pub(super) fn found(found: &Found, is_in_use: bool) -> Self {
        let presence = |is_there| if is_there { Presence::Uncertain } else { Presence::Absent };
        Self {
            attached: presence(found.is_attached),
            staged: presence(found.is_staged),
            published: presence(found.is_published),
            is_in_use,
        }
    }

    /// This kubelet has published it; what is in it may have to change.
    pub(super) fn published_before() -> Self {
        Self {
            attached: Presence::Present,
            staged: Presence::Present,
            published: Presence::Uncertain,
            is_in_use: true,
        }
    }

    #[must_use]
    pub(super) fn after(mut self, verb: Verb, is_good: bool) -> Self {
        let (part, reached) = match verb {
            Verb::Attach => (&mut self.attached, Presence::Present),
            Verb::Stage => (&mut self.staged, Presence::Present),
            Verb::Publish => (&mut self.published, Presence::Present),
            Verb::Unpublish => (&mut self.published, Presence::Absent),
            Verb::Unstage => (&mut self.staged, Presence::Absent),
            Verb::Detach => (&mut self.attached, Presence::Absent),
        };
        *part = if is_good { reached } else { Presence::Uncertain };
        self
    }
}
