//! From a credential to an identity, or a refusal that says nothing to the outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::{Node, Pod, Secret, ServiceAccount};
use api::{Lookup, Resource};
use apimachinery::{ApiError, ObjectKey, User};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use sha2::{Digest as _, Sha256};
use stdx::SharedClock;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::pki::ServiceAccountKey;
use crate::tokens::{Claims, Reference};
use crate::{
    Authenticated, Component, Credential, GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED,
    USER_ANONYMOUS,
};

/// How long after its deletion began an object still vouches for a token, so that a pod can end in peace.
const DELETION_LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Why a credential proves nothing. Logged here; a client learns only that it is not authorized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    #[error("the client certificate cannot be read")]
    Certificate,
    #[error("the client certificate names no user")]
    CertificateWithoutUser,
    #[error("the client certificate is not valid at this time")]
    CertificateExpired,
    #[error("the bearer token is not one of ours: {0}")]
    Token(String),
    #[error("the bearer token is expired or not valid yet")]
    TokenExpired,
    #[error("the bearer token is for another issuer")]
    Issuer,
    #[error("the bearer token is for another audience")]
    Audience,
    #[error("{kind} {name:?} that the bearer token is bound to is gone")]
    Gone { kind: &'static str, name: String },
}

impl From<Unauthorized> for ApiError {
    fn from(_: Unauthorized) -> Self {
        Self::unauthorized()
    }
}

pub struct Parts {
    /// Any of these may have signed a token: the newest signs, older ones still verify.
    pub service_account_keys: Vec<Arc<ServiceAccountKey>>,
    pub issuer: String,
    pub audiences: Vec<String>,
    pub clock: SharedClock,
    pub lookup: Arc<dyn Lookup>,
}

pub struct Authenticator {
    keys: BTreeMap<String, DecodingKey>,
    issuer: String,
    audiences: Vec<String>,
    clock: SharedClock,
    lookup: Arc<dyn Lookup>,
}

impl Authenticator {
    pub fn new(parts: Parts) -> Self {
        let keys = parts.service_account_keys.iter().filter_map(|it| {
            let (x, y) = it.coordinates();
            let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
            Some((it.id().to_owned(), DecodingKey::from_ec_components(&x, &y).ok()?))
        });
        Self {
            keys: keys.collect(),
            issuer: parts.issuer,
            audiences: parts.audiences,
            clock: parts.clock,
            lookup: parts.lookup,
        }
    }

    pub fn authenticate(&self, credential: Credential) -> Result<Authenticated, Unauthorized> {
        let user = match credential {
            Credential::None => {
                let user = User::new(USER_ANONYMOUS, &[GROUP_UNAUTHENTICATED]);
                return Ok(Authenticated { user });
            }
            Credential::Certificate(der) => user_of_certificate(&der, self.clock.now()),
            Credential::Bearer(token) => self.user_of_token(&token, &self.audiences).map(|it| it.0),
            Credential::Component(Component(user)) => Ok(user),
        };
        let mut user = user.inspect_err(|err| tracing::debug!(%err, "unauthorized"))?;
        if !user.is_in(GROUP_AUTHENTICATED) {
            user.groups.push(GROUP_AUTHENTICATED.to_owned());
        }
        Ok(Authenticated { user })
    }

    /// For TokenReview: whose token this is, and which of `audiences` (empty: the server's own) it is for.
    pub fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), Unauthorized> {
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        let (mut user, matched) = self.user_of_token(token, wanted)?;
        user.groups.push(GROUP_AUTHENTICATED.to_owned());
        Ok((user, matched))
    }

    fn user_of_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), Unauthorized> {
        let claims = self.verify(token)?;
        if claims.iss != self.issuer {
            return Err(Unauthorized::Issuer);
        }
        let now = self.clock.now();
        if now.as_second() >= claims.exp || now.as_second() < claims.nbf {
            return Err(Unauthorized::TokenExpired);
        }
        let named = claims.aud.as_slice();
        let matched: Vec<String> =
            audiences.iter().filter(|it| named.contains(it)).cloned().collect();
        if matched.is_empty() {
            return Err(Unauthorized::Audience);
        }
        let user = claims.user();
        if user.name != claims.sub {
            return Err(Unauthorized::Token("the subject is not the service account".to_owned()));
        }
        self.check_bound(&claims, now)?;
        Ok((user, matched))
    }

    fn verify(&self, token: &str) -> Result<Claims, Unauthorized> {
        let refuse = |err: jsonwebtoken::errors::Error| Unauthorized::Token(err.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(refuse)?;
        let key = header.kid.as_ref().and_then(|it| self.keys.get(it));
        let key = key.ok_or_else(|| Unauthorized::Token("unknown key".to_owned()))?;
        let mut validation = Validation::new(Algorithm::ES256);
        // Everything but the signature is checked by us, against our own clock.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Ok(jsonwebtoken::decode::<Claims>(token, key, &validation).map_err(refuse)?.claims)
    }

    fn check_bound(&self, claims: &Claims, now: Timestamp) -> Result<(), Unauthorized> {
        let bound = &claims.kubernetes;
        let namespace = &bound.namespace;
        self.check_lives::<ServiceAccount>(namespace, &bound.serviceaccount, now)?;
        match (&bound.pod, &bound.secret, &bound.node) {
            (Some(pod), _, _) => self.check_lives::<Pod>(namespace, pod, now),
            (None, Some(secret), _) => self.check_lives::<Secret>(namespace, secret, now),
            (None, None, Some(node)) => self.check_lives::<Node>("", node, now),
            (None, None, None) => Ok(()),
        }
    }

    fn check_lives<T: Resource>(
        &self,
        namespace: &str,
        reference: &Reference,
        now: Timestamp,
    ) -> Result<(), Unauthorized> {
        let gone = || Unauthorized::Gone { kind: T::FACTS.singular, name: reference.name.clone() };
        let object = self.lookup.get::<T>(&ObjectKey::new(namespace, reference.name.as_str()));
        let object = object.ok_or_else(gone)?;
        let meta = object.metadata();
        let is_same = meta.uid.as_deref() == Some(reference.uid.as_str());
        let deleted = meta.deletion_timestamp.as_ref().map(|it| it.0);
        let is_over =
            deleted.and_then(|it| it.checked_add(DELETION_LEEWAY).ok()).is_some_and(|it| it < now);
        if is_same && !is_over { Ok(()) } else { Err(gone()) }
    }
}

/// The common name is the user, each organization a group. TLS has verified the chain.
pub fn user_of_certificate(der: &[u8], now: Timestamp) -> Result<User, Unauthorized> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| Unauthorized::Certificate)?;
    let validity = certificate.validity();
    let seconds = now.as_second();
    if seconds < validity.not_before.timestamp() || seconds > validity.not_after.timestamp() {
        return Err(Unauthorized::CertificateExpired);
    }
    let subject = certificate.subject();
    let name = subject.iter_common_name().next().and_then(|it| it.as_str().ok());
    let name = name.filter(|it| !it.is_empty()).ok_or(Unauthorized::CertificateWithoutUser)?;
    let groups = subject.iter_organization().filter_map(|it| it.as_str().ok());
    let fingerprint: String = Sha256::digest(der).iter().map(|it| format!("{it:02x}")).collect();
    let id = ("authentication.kubernetes.io/credential-id", format!("X509SHA256={fingerprint}"));
    Ok(User {
        name: name.to_owned(),
        uid: String::new(),
        groups: groups.map(str::to_owned).collect(),
        extra: [(id.0.to_owned(), vec![id.1])].into(),
    })
}
