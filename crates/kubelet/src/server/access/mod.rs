//! Who may ask what of this kubelet: certificates of the cluster's authority or tokens that the API server knows, and the API
//! server's word on what they may do. Its answers are remembered for a while, as upstream's are.

mod recent;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::authentication::TokenReview;
use api::authorization::SubjectAccessReview;
use apimachinery::{ApiError, User};
use authn::ClientCertificate;
use client::Client;
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenReviewSpec;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};

use super::asked::Asked;
use recent::Recent;

/// Upstream's `--authentication-token-webhook-cache-ttl` and `--authorization-webhook-cache-*`.
const TOKENS_FOR: Duration = Duration::from_secs(2 * 60);
const ALLOWED_FOR: Duration = Duration::from_secs(5 * 60);
const DENIED_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("Unauthorized")]
    Unauthorized,
    #[error(
        "Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)={subresources:?})"
    )]
    Forbidden { user: String, verb: &'static str, subresources: &'static [&'static str] },
    #[error("asking the API server who this is")]
    Authenticate(#[source] ApiError),
    #[error("asking the API server for permission")]
    Authorize(#[source] ApiError),
}

pub(crate) struct Access {
    client: Client,
    node_name: String,
    tokens: Recent<String, Option<User>>,
    decisions: Recent<Question, bool>,
}

/// Everything that a decision depends on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    user: (String, String, Vec<String>, BTreeMap<String, Vec<String>>),
    verb: &'static str,
    subresource: &'static str,
}

impl Question {
    fn new(user: &User, verb: &'static str, subresource: &'static str) -> Self {
        let User { name, uid, groups, extra } = user.clone();
        Self { user: (name, uid, groups, extra), verb, subresource }
    }
}

impl Access {
    pub(crate) fn new(client: Client, node_name: &str) -> Self {
        let node_name = node_name.to_owned();
        Self { client, node_name, tokens: Recent::new(), decisions: Recent::new() }
    }

    /// `certificate` is the connection's.
    pub(crate) async fn authenticate(
        &self,
        certificate: Option<&ClientCertificate>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<User, Error> {
        if let Some(certificate) = certificate {
            let user = certificate.user(now).map_err(|_| Error::Unauthorized)?;
            return Ok(User::clone(user));
        }
        let value = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let token = value.and_then(|it| {
            let (scheme, token) = it.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let token = token.ok_or(Error::Unauthorized)?;
        if let Some(user) = self.tokens.get(&token.to_owned()) {
            return user.ok_or(Error::Unauthorized);
        }
        let user = self.review(token).await.map_err(Error::Authenticate)?;
        self.tokens.put(token.to_owned(), user.clone(), TOKENS_FOR);
        user.ok_or(Error::Unauthorized)
    }

    async fn review(&self, token: &str) -> Result<Option<User>, ApiError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let answer = self.client.api::<TokenReview>().create(review).await?;
        let status = answer.status.clone().unwrap_or_default();
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

    /// Any of the subresources is enough.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        method: &Method,
        asked: &Asked,
    ) -> Result<(), Error> {
        let (verb, subresources) = (asked.verb(method), asked.area().subresources());
        for subresource in subresources {
            let key = Question::new(user, verb, subresource);
            let is_allowed = match self.decisions.get(&key) {
                Some(it) => it,
                None => {
                    let it = self.ask(user, verb, subresource).await.map_err(Error::Authorize)?;
                    self.decisions.put(key, it, if it { ALLOWED_FOR } else { DENIED_FOR });
                    it
                }
            };
            if is_allowed {
                return Ok(());
            }
        }
        Err(Error::Forbidden { user: user.name.clone(), verb, subresources })
    }

    async fn ask(&self, user: &User, verb: &str, subresource: &str) -> Result<bool, ApiError> {
        let some = |it: &str| Some(it.to_owned());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: some(&user.name),
                uid: some(&user.uid).filter(|it| !it.is_empty()),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: some(verb),
                    group: some(""),
                    version: some("v1"),
                    resource: some("nodes"),
                    subresource: some(subresource),
                    name: some(&self.node_name),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = self.client.api::<SubjectAccessReview>().create(review).await?;
        Ok(answer.status.as_ref().is_some_and(|it| it.allowed))
    }
}
