//! What a server other than the API server asks it about its own clients: who they are, and what
//! they may do.

mod recent;

use std::time::Duration;

use ::api::authentication::TokenReview;
use ::api::authorization::SubjectAccessReview;
use apimachinery::{ApiError, User};
use k8s_openapi::api::authentication::v1::TokenReviewSpec;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};

use self::recent::Recent;
use crate::Client;

/// How long answers are remembered.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Whose token it is.
    pub tokens: Duration,
    pub allowed: Duration,
    pub denied: Duration,
}

/// Asks, and remembers for a while what was answered. Remembers no failures.
pub struct Reviewer {
    client: Client,
    keep: Keep,
    tokens: Recent<String, Option<User>>,
    /// By everything that a decision depends on.
    decisions: Recent<String, bool>,
}

impl Reviewer {
    pub fn new(client: Client, keep: Keep) -> Self {
        Self { client, keep, tokens: Recent::default(), decisions: Recent::default() }
    }

    /// Whose token it is; nobody's if it is not good.
    pub async fn token(&self, token: &str) -> Result<Option<User>, ApiError> {
        let key = token.to_owned();
        if let Some(user) = self.tokens.get(&key) {
            return Ok(user);
        }
        let user = review_token(&self.client, token).await?;
        self.tokens.put(key, user.clone(), self.keep.tokens);
        Ok(user)
    }

    pub async fn access(&self, user: &User, access: Access) -> Result<bool, ApiError> {
        let key = format!("{user:?} {access:?}");
        if let Some(is_allowed) = self.decisions.get(&key) {
            return Ok(is_allowed);
        }
        let is_allowed = review_access(&self.client, user, access).await?;
        let keep = if is_allowed { self.keep.allowed } else { self.keep.denied };
        self.decisions.put(key, is_allowed, keep);
        Ok(is_allowed)
    }
}

async fn review_token(client: &Client, token: &str) -> Result<Option<User>, ApiError> {
    let review = TokenReview {
        spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
        ..TokenReview::default()
    };
    let answer = client.api::<TokenReview>().create(review).await?;
    let status = answer.object()?.status.clone().unwrap_or_default();
    if status.authenticated != Some(true) {
        return Ok(None);
    }
    let user = status.user.unwrap_or_default();
    Ok(Some(User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }))
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Access {
    Resource(Box<ResourceAttributes>),
    Path(NonResourceAttributes),
}

pub async fn review_access(client: &Client, user: &User, access: Access) -> Result<bool, ApiError> {
    let (resource, path) = match access {
        Access::Resource(it) => (Some(*it), None),
        Access::Path(it) => (None, Some(it)),
    };
    let some = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: some(&user.name),
            uid: some(&user.uid),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: resource,
            non_resource_attributes: path,
        },
        ..SubjectAccessReview::default()
    };
    let answer = client.api::<SubjectAccessReview>().create(review).await?;
    Ok(answer.object()?.status.as_ref().is_some_and(|it| it.allowed))
}
