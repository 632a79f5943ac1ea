//! What is asked for, as plugins see it. Nothing here changes while they run.

use api::{Kind, Subresource};
use apimachinery::{GroupVersionKind, Names, User};

use crate::options::Options;
use crate::versions::Versions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(crate) const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Connect];

    /// Its place in a set of operations.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// As refusals and webhooks name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

#[derive(Clone)]
pub struct Attributes<'a> {
    pub operation: Operation,
    /// Of the resource. The object may be of another: see `kind_of_object`.
    pub kind: &'a dyn Kind,
    /// The same in the version that the client asked for: `kind` is the one that rules are for.
    pub requested: &'a Names,
    pub versions: &'a dyn Versions,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// As in the path: empty where something is created. See `Context::name`.
    pub name: &'a str,
    pub user: &'a User,
    pub options: Options<'a>,
}

impl Attributes<'_> {
    pub fn is(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.is_of(group, resource) && self.subresource == subresource
    }

    /// With all its subresources.
    pub fn is_of(&self, group: &str, resource: &str) -> bool {
        let names = self.kind.names();
        names.group == group && names.plural == resource
    }

    /// Of what is read and written at this path: a Binding, for one, below a pod.
    pub fn kind_of_object(&self) -> GroupVersionKind {
        let names = self.kind.names();
        self.below().map_or_else(|| names.gvk(), |it| it.kind_below(names))
    }

    /// Whether that is another kind than the resource's, and hence the same in all its versions.
    pub fn has_own_kind(&self) -> bool {
        self.below().is_some_and(|it| it.kind != ("", "", ""))
    }

    fn below(&self) -> Option<Subresource> {
        if self.subresource.is_empty() {
            return None;
        }
        self.kind.subresources().into_iter().find(|it| it.name == self.subresource)
    }

    /// Nothing of it will be stored, whatever anybody says.
    pub fn is_dry_run(&self) -> bool {
        self.options.is_dry_run
    }
}
