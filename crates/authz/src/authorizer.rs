//! The one question, "may they", with the authorizers in order, and the proof that it was asked.

use std::sync::Arc;

use apimachinery::{ApiError, GroupResource, Reason, User};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::Attributes;
use crate::node::NodeAuthorizer;
use crate::rbac::{Rbac, Rules};

/// Members may do everything, whatever RBAC says: the way back into a cluster whose roles are
/// broken.
pub(crate) const GROUP_MASTERS: &str = "system:masters";

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

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Allow { reason } | Self::NoOpinion { reason } => reason,
        }
    }
}

/// Proof that authorization happened; only this crate makes one.
#[derive(Clone, Debug)]
pub struct Authorized {
    user: User,
    attributes: Attributes,
    reason: String,
}

impl Authorized {
    pub fn user(&self) -> &User {
        &self.user
    }

    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Who allowed it, for audit.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A refusal. Its text is the one clients match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Forbidden {
    user: String,
    attributes: Box<Attributes>,
    reason: String,
}

impl Forbidden {
    /// `User "u" cannot get resource "deployments" in API group "apps" in the namespace "ns"`
    pub fn message(&self) -> String {
        let Attributes { verb, group, namespace, path, .. } = &*self.attributes;
        let user = &self.user;
        let mut text = if !self.attributes.is_resource {
            format!("User {user:?} cannot {verb} path {path:?}")
        } else {
            let resource = self.attributes.full_resource();
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            format!(
                "User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
            )
        };
        if !self.reason.is_empty() {
            text.push_str(": ");
            text.push_str(&self.reason);
        }
        text
    }
}

impl From<Forbidden> for ApiError {
    fn from(forbidden: Forbidden) -> Self {
        let Attributes { group, resource, name, is_resource, .. } = &*forbidden.attributes;
        if *is_resource {
            let resource = GroupResource::new(group.as_str(), resource.as_str());
            Self::forbidden(&resource, name, &forbidden.message())
        } else {
            Self::new(Reason::Forbidden, format!("forbidden: {}", forbidden.message()))
        }
    }
}

/// Cheap to share; all state is in its parts.
pub struct Authorizer {
    rbac: Arc<Rbac>,
    node: NodeAuthorizer,
}

impl Authorizer {
    pub fn new(rbac: Arc<Rbac>, node: NodeAuthorizer) -> Self {
        Self { rbac, node }
    }

    pub fn rbac(&self) -> &Rbac {
        &self.rbac
    }

    /// For the pipeline: the proof, or the refusal.
    pub fn authorize(&self, user: &User, attributes: Attributes) -> Result<Authorized, Forbidden> {
        match self.decide(user, &attributes) {
            Decision::Allow { reason } => Ok(Authorized { user: user.clone(), attributes, reason }),
            Decision::NoOpinion { reason } => {
                let attributes = Box::new(attributes);
                Err(Forbidden { user: user.name.clone(), attributes, reason })
            }
        }
    }

    /// For access reviews: the answer alone.
    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        if user.is_in(GROUP_MASTERS) {
            return Decision::Allow { reason: String::new() };
        }
        let node = self.node.decide(user, attributes);
        if node.is_allowed() {
            return node;
        }
        match self.rbac.decide(user, attributes) {
            Decision::NoOpinion { reason } => {
                let reasons = [node.reason(), &reason];
                let said: Vec<&str> = reasons.into_iter().filter(|it| !it.is_empty()).collect();
                Decision::NoOpinion { reason: said.join(", ") }
            }
            allowed @ Decision::Allow { .. } => allowed,
        }
    }

    /// Everything `user` may do in `namespace`, for SelfSubjectRulesReview.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut rules = self.rbac.rules_for(user, namespace);
        if user.is_in(GROUP_MASTERS) {
            rules.rules.splice(0..0, everything());
        }
        if NodeAuthorizer::node_of(user).is_some() {
            // What a node may do depends on the pods bound to it, which no list of rules can say.
            rules.is_incomplete = true;
        }
        rules
    }
}

/// The rules that allow everything.
pub(crate) fn everything() -> [PolicyRule; 2] {
    let any = || vec!["*".to_owned()];
    [
        PolicyRule {
            api_groups: Some(any()),
            resources: Some(any()),
            verbs: any(),
            ..PolicyRule::default()
        },
        PolicyRule { non_resource_urls: Some(any()), verbs: any(), ..PolicyRule::default() },
    ]
}
