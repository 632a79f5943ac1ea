//! Who may ask what of this kubelet: certificates of the cluster's authority or tokens that the API
//! server knows, and the API server's word on what they may do. Its answers are remembered for a
//! while, as upstream's are.

use std::time::Duration;

use apimachinery::{ApiError, User};
use authn::ClientCertificate;
use client::Client;
use client::reviews::{self, Keep, Reviewer};
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;

use super::asked::Asked;

/// Upstream's `--authentication-token-webhook-cache-ttl` and `--authorization-webhook-cache-*`.
const KEEP: Keep = Keep {
    tokens: Duration::from_secs(2 * 60),
    allowed: Duration::from_secs(5 * 60),
    denied: Duration::from_secs(30),
};

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
    reviewer: Reviewer,
    node_name: String,
}

impl Access {
    pub(crate) fn new(client: Client, node_name: &str) -> Self {
        Self { reviewer: Reviewer::new(client, KEEP), node_name: node_name.to_owned() }
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
        let user = self.reviewer.token(token).await.map_err(Error::Authenticate)?;
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
            if self.ask(user, verb, subresource).await.map_err(Error::Authorize)? {
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
        self.reviewer.access(user, access).await
    }
}
