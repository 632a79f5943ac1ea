//! May they: RBAC and the Node authorizer, over compiled rules in memory.

use apimachinery::User;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: String,
    /// Resource requests have these; `""` is the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Non-resource requests have only this.
    pub path: String,
    pub is_resource: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow {
        reason: String,
    },
    /// Nobody allowed it.
    NoOpinion {
        reason: String,
    },
}

/// Proof that authorization happened; only this crate makes one.
#[derive(Clone, Debug)]
pub struct Authorized {
    user: User,
    attributes: Attributes,
}

impl Authorized {
    pub fn user(&self) -> &User {
        &self.user
    }

    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}
