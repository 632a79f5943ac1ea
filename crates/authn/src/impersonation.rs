//! Acting as somebody else: which permissions that takes, and who one is then. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{ApiError, User};

use crate::{Authenticated, GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, tokens};

/// Whom the `Impersonate-*` headers name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Target {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One permission with the verb `impersonate` that the real user must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

const GROUP_AUTHENTICATION: &str = "authentication.k8s.io";

/// An impersonation that was asked for. `confirm` it once the real user has passed every check.
#[must_use]
#[derive(Debug)]
pub struct Impersonation {
    checks: Vec<Check>,
    user: User,
}

impl Impersonation {
    /// What `target` takes, and whom it gives. Names without a user are refused.
    pub fn new(target: Target) -> Result<Self, ApiError> {
        if target.user.is_empty() {
            return Err(ApiError::internal("impersonation was requested without a user name"));
        }
        let checks = checks(&target);
        Ok(Self { checks, user: resulting(target) })
    }

    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The identity to go on with. The caller vouches that `real` was allowed every check.
    pub fn confirm(self, real: &Authenticated) -> Authenticated {
        tracing::debug!(user = real.user.name, acts_as = self.user.name, "impersonation");
        Authenticated { user: Arc::new(self.user), legacy: real.legacy.clone() }
    }
}

fn checks(target: &Target) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match tokens::split_user_name(&target.user) {
        Some((namespace, name)) => Check {
            resource: "serviceaccounts",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Check::default()
        },
        None => Check { resource: "users", name: target.user.clone(), ..Check::default() },
    });
    let groups = target.groups.iter();
    checks.extend(groups.map(|it| Check {
        resource: "groups",
        name: it.clone(),
        ..Check::default()
    }));
    for (key, values) in &target.extra {
        checks.extend(values.iter().map(|it| Check {
            group: GROUP_AUTHENTICATION,
            resource: "userextras",
            subresource: key.clone(),
            name: it.clone(),
            ..Check::default()
        }));
    }
    if !target.uid.is_empty() {
        checks.push(Check {
            group: GROUP_AUTHENTICATION,
            resource: "uids",
            name: target.uid.clone(),
            ..Check::default()
        });
    }
    checks
}

/// The groups that an identity always has are added to those that were named.
fn resulting(target: Target) -> User {
    let mut groups = target.groups;
    if let Some((namespace, _)) = tokens::split_user_name(&target.user)
        && groups.is_empty()
    {
        groups = tokens::groups_of(namespace);
    }
    let standing =
        if target.user == USER_ANONYMOUS { GROUP_UNAUTHENTICATED } else { GROUP_AUTHENTICATED };
    // Who is named as unauthenticated is not made more than that.
    if !groups.iter().any(|it| it == standing || it == GROUP_UNAUTHENTICATED) {
        groups.push(standing.to_owned());
    }
    User { name: target.user, uid: target.uid, groups, extra: target.extra }
}
