//! What is asked for, as plugins see it. Nothing here changes while they run.

use api::Kind;
use apimachinery::{GroupVersionKind, User};

use crate::options::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
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
        let subresources = self.kind.subresources();
        let found = subresources.iter().find(|it| it.name == self.subresource);
        found.map_or_else(|| names.gvk(), |it| it.kind_below(names))
    }

    /// Nothing of it will be stored, whatever anybody says.
    pub fn is_dry_run(&self) -> bool {
        self.options.is_dry_run
    }
}
