//! One request as plugins see it.

use api::ApiObject;
use apimachinery::{ApiError, GroupResource, GroupVersionKind, GroupVersionResource, User};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As refusals name it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One request as plugins see it. The old and the new object are whole and never change under a plugin.
pub struct Attributes<'a> {
    pub operation: Operation,
    pub kind: GroupVersionKind,
    pub resource: GroupVersionResource,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty on create with generateName.
    pub name: &'a str,
    pub user: &'a User,
    pub is_dry_run: bool,
    /// Absent on delete. For subresources with a kind of their own (binding, eviction, token) it is that kind.
    pub object: Option<&'a mut dyn ApiObject>,
    /// Absent on create.
    pub old: Option<&'a dyn ApiObject>,
}

impl Attributes<'_> {
    pub(crate) fn is(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.resource.group == group
            && self.resource.resource == resource
            && self.subresource == subresource
    }

    pub(crate) fn object_as<T: 'static>(&self) -> Option<&T> {
        self.object.as_deref().and_then(|it| it.as_any().downcast_ref())
    }

    pub(crate) fn object_as_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.object.as_deref_mut().and_then(|it| it.as_any_mut().downcast_mut())
    }

    pub(crate) fn old_as<T: 'static>(&self) -> Option<&T> {
        self.old.and_then(|it| it.as_any().downcast_ref())
    }

    /// The name in refusals: an object that has none yet is called by the prefix its name will have.
    fn shown_name(&self) -> &str {
        let meta = self.object.as_deref().map(ApiObject::meta);
        let generated = meta.and_then(|it| it.name.as_deref().or(it.generate_name.as_deref()));
        if self.name.is_empty() { generated.unwrap_or_default() } else { self.name }
    }

    /// `pods "web" is forbidden: <why>`
    pub(crate) fn forbidden(&self, why: &str) -> ApiError {
        let Self { resource, .. } = self;
        let resource = GroupResource::new(resource.group.as_str(), resource.resource.as_str());
        ApiError::forbidden(&resource, self.shown_name(), why)
    }
}
