//! Who may ask what of this kubelet: certificates of the cluster's authority or tokens that the API
//! server knows, and the API server's word on what they may do. Its answers are remembered for a
//! while, as upstream's are.

mod recent;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::{ApiError, User};
use authn::ClientCertificate;
use client::{Client, reviews};
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;

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
        let user = reviews::review_token(&self.client, token).await;
        let user = user.map_err(Error::Authenticate)?;
        self.tokens.put(token.to_owned(), user.clone(), TOKENS_FOR);
        user.ok_or(Error::Unauthorized)
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
        let attributes = ResourceAttributes {
            verb: some(verb),
            group: some(""),
            version: some("v1"),
            resource: some("nodes"),
            subresource: some(subresource),
            name: some(&self.node_name),
            ..ResourceAttributes::default()
        };
        let access = reviews::Access::Resource(Box::new(attributes));
        reviews::review_access(&self.client, user, access).await
    }
}
