//! Who each component is to the API.

use std::sync::Arc;

use apimachinery::User;
use client::Client;

use crate::components::{CONTROLLER_MANAGER, SCHEDULER};

/// Whom a component acts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Reads for all controllers, and stands for election.
    ControllerManager,
    /// One controller, by the name of its service account in kube-system.
    Controller(&'a str),
    Scheduler,
    /// The kubelet of the node with this name.
    Node(&'a str),
}

impl Identity<'_> {
    /// As authentication would name it.
    pub fn user(self) -> User {
        match self {
            Self::ControllerManager => User::new(format!("system:{CONTROLLER_MANAGER}"), &[]),
            Self::Scheduler => User::new(format!("system:{SCHEDULER}"), &[]),
            Self::Node(name) => User::new(format!("system:node:{name}"), &["system:nodes"]),
            Self::Controller(name) => User::new(
                format!("system:serviceaccount:kube-system:{name}"),
                &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            ),
        }
    }

    /// Under which name its writes are kept in managedFields.
    pub fn field_manager(self) -> &'static str {
        match self {
            Self::ControllerManager | Self::Controller(_) => CONTROLLER_MANAGER,
            Self::Scheduler => SCHEDULER,
            Self::Node(_) => "kubelet",
        }
    }
}

/// Gives each component a client that acts as it. Cheap to clone.
#[derive(Clone)]
pub struct Clients(Arc<dyn Fn(Identity<'_>) -> Client + Send + Sync>);

impl Clients {
    pub fn new(client_for: impl Fn(Identity<'_>) -> Client + Send + Sync + 'static) -> Self {
        Self(Arc::new(client_for))
    }

    pub fn client(&self, identity: Identity<'_>) -> Client {
        (self.0)(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn everybody_has_the_name_that_bootstrap_roles_are_bound_to() {
        let check = |identity: Identity<'_>, user: &str, manager: &str| {
            assert_eq!((identity.user().name.as_str(), identity.field_manager()), (user, manager));
        };
        check(Identity::Scheduler, "system:kube-scheduler", "kube-scheduler");
        check(Identity::Node("n1"), "system:node:n1", "kubelet");
        let manager = "kube-controller-manager";
        check(Identity::ControllerManager, "system:kube-controller-manager", manager);
        let job = "system:serviceaccount:kube-system:job-controller";
        check(Identity::Controller("job-controller"), job, manager);
    }
}
