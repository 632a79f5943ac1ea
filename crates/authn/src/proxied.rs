//! Users whom a proxy speaks for: it proves itself by a certificate of an authority of its own, and
//! names the user in headers. Pure.

use std::sync::Arc;

use apimachinery::User;
use jiff::Timestamp;

use crate::{
    ClientCertificate, GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, Unauthorized,
};

/// Which headers name a user, and which proxies may send them. Names of headers are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Common names; none: whoever has a certificate.
    pub allowed_names: Vec<String>,
    /// The first that is there counts.
    pub username: Vec<String>,
    pub uid: Vec<String>,
    /// All count.
    pub group: Vec<String>,
    /// What follows one is a key of the user's extra fields.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        let one = |it: &str| vec![it.to_owned()];
        Self {
            allowed_names: one("front-proxy-client"),
            username: one("x-remote-user"),
            uid: one("x-remote-uid"),
            group: one("x-remote-group"),
            extra_prefix: one("x-remote-extra-"),
        }
    }
}

impl RequestHeaders {
    /// Whether a header says who somebody is.
    pub fn has(&self, name: &str) -> bool {
        let mut names = self.username.iter().chain(&self.uid).chain(&self.group);
        names.any(|it| it == name) || self.extra_prefix.iter().any(|it| name.starts_with(it))
    }
}

/// What a proxy said, and what proves that it is one.
#[derive(Clone, Debug)]
pub struct Proxied {
    certificate: Arc<ClientCertificate>,
    allowed_names: Vec<String>,
    user: User,
}

impl Proxied {
    pub fn new(certificate: Arc<ClientCertificate>, headers: &RequestHeaders, user: User) -> Self {
        Self { certificate, allowed_names: headers.allowed_names.clone(), user }
    }

    /// Whom it speaks for, if it may.
    pub fn user(&self, now: Timestamp) -> Result<User, Unauthorized> {
        let name = self.certificate.proxy(now)?;
        let is_allowed =
            self.allowed_names.is_empty() || self.allowed_names.iter().any(|it| it == name);
        if !is_allowed {
            return Err(Unauthorized::ProxyName(name.to_owned()));
        }
        Ok(with_standing(self.user.clone()))
    }
}

/// Everybody whom a proxy names is authenticated, unless it says that they are not.
fn with_standing(mut user: User) -> User {
    let is_settled = user.name == USER_ANONYMOUS
        || user.is_in(GROUP_AUTHENTICATED)
        || user.is_in(GROUP_UNAUTHENTICATED);
    if !is_settled {
        user.groups.push(GROUP_AUTHENTICATED.to_owned());
    }
    user
}
