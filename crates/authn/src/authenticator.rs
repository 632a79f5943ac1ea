//! From a credential to an identity, or a refusal that says nothing to the outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::{Node, Pod, Secret, ServiceAccount};
use api::{Lookup, Resource, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use stdx::SharedClock;

use crate::bootstrap::BootstrapToken;
use crate::pki::VerifyingKey;
use crate::tokens::{self, Reference};
use crate::verified::{Claims, Key, Token, Verified};
use crate::{
    Authenticated, ClientCertificate, Component, Credential, DeletedNodes, GROUP_UNAUTHENTICATED,
    USER_ANONYMOUS, among_the_authenticated, legacy,
};

/// How long after its deletion began an object still vouches for a token, so that a pod can end in
/// peace.
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
    #[error("the Node was deleted after the client certificate was issued")]
    CertificateOfDeletedNode,
    #[error("the client certificate is that of a proxy, which is no user")]
    CertificateOfProxy,
    #[error("the client certificate is not that of a proxy")]
    NoProxy,
    #[error("the proxy {0:?} may not speak for others")]
    ProxyName(String),
    #[error("the bearer token is not one of ours: {0}")]
    Token(String),
    #[error("the bearer token is expired or not valid yet")]
    TokenExpired,
    #[error("the bearer token is for another issuer")]
    Issuer,
    #[error("the bearer token is for another audience")]
    Audience,
    #[error("the bootstrap token {0:?} proves nothing: {1}")]
    BootstrapToken(String, String),
    #[error("{kind} {name:?} that the bearer token is bound to is gone")]
    Gone { kind: &'static str, name: String },
    #[error(
        "the token in secret {} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{}' label from the secret to temporarily allow use of this token",
        .0.secret, legacy::INVALID_SINCE
    )]
    Invalidated(Box<legacy::Use>),
}

impl From<Unauthorized> for ApiError {
    fn from(_: Unauthorized) -> Self {
        Self::unauthorized()
    }
}

pub struct Parts {
    /// Any of these may have signed a token.
    pub service_account_keys: Vec<VerifyingKey>,
    /// Any of these may be named in a token.
    pub issuers: Vec<String>,
    pub audiences: Vec<String>,
    /// Whether Secrets of that type let somebody in.
    pub has_bootstrap_tokens: bool,
    pub clock: SharedClock,
    pub lookup: Arc<dyn Lookup>,
    /// Told of deletions by whoever follows them.
    pub deleted_nodes: Arc<DeletedNodes>,
}

pub struct Authenticator {
    keys: BTreeMap<String, (Algorithm, DecodingKey)>,
    issuers: Vec<String>,
    audiences: Vec<String>,
    has_bootstrap_tokens: bool,
    clock: SharedClock,
    lookup: Arc<dyn Lookup>,
    deleted_nodes: Arc<DeletedNodes>,
    verified: Verified,
}

impl Authenticator {
    pub fn new(parts: Parts) -> Self {
        let keys = parts
            .service_account_keys
            .iter()
            .filter_map(|it| Some((it.id().to_owned(), (it.algorithm(), it.decoding().ok()?))));
        Self {
            keys: keys.collect(),
            issuers: parts.issuers,
            audiences: parts.audiences,
            has_bootstrap_tokens: parts.has_bootstrap_tokens,
            clock: parts.clock,
            lookup: parts.lookup,
            deleted_nodes: parts.deleted_nodes,
            verified: Verified::default(),
        }
    }

    pub fn authenticate(&self, credential: &Credential) -> Result<Authenticated, Unauthorized> {
        let plain = |user| (user, None);
        let proved = match credential {
            Credential::None => {
                Ok(plain(Arc::new(User::new(USER_ANONYMOUS, &[GROUP_UNAUTHENTICATED]))))
            }
            Credential::Certificate(certificate) => {
                self.certificate(certificate).map(|it| plain(it.clone()))
            }
            Credential::Proxied(proxied) => {
                proxied.user(self.clock.now()).map(|it| plain(Arc::new(it)))
            }
            Credential::Bearer(text) => match self.bootstrap_token(text) {
                Some(token) => self.bootstrapping(&token).map(|it| plain(Arc::new(it))),
                None => self
                    .token(text, &self.audiences)
                    .map(|(token, used)| (token.user.clone(), used.map(Arc::new))),
            },
            Credential::Component(Component(user)) => Ok(plain(user.clone())),
        };
        let proved = proved.inspect_err(|err| tracing::debug!(%err, "unauthorized"));
        let (user, legacy) = proved?;
        Ok(Authenticated { user, legacy })
    }

    /// For TokenReview: whose token this is, and which of `audiences` (empty: the server's own) it
    /// is for.
    pub fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), Unauthorized> {
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        if let Some(token) = self.bootstrap_token(token) {
            // It names no audience, so it is for this server.
            let user = self.bootstrapping(&token)?;
            let is_for_us = |it: &&String| self.audiences.contains(it);
            let matched: Vec<String> = wanted.iter().filter(is_for_us).cloned().collect();
            return if matched.is_empty() {
                Err(Unauthorized::Audience)
            } else {
                Ok((user, matched))
            };
        }
        let (token, _) = self.token(token, wanted)?;
        let named = self.audiences_of(&token);
        let matched = wanted.iter().filter(|it| named.contains(it)).cloned().collect();
        Ok((User::clone(&token.user), matched))
    }

    fn certificate<'a>(
        &self,
        certificate: &'a ClientCertificate,
    ) -> Result<&'a Arc<User>, Unauthorized> {
        let user = certificate.user(self.clock.now())?;
        if certificate.of_node().is_some_and(|it| self.deleted_nodes.refuses(it)) {
            return Err(Unauthorized::CertificateOfDeletedNode);
        }
        Ok(user)
    }

    fn bootstrap_token(&self, text: &str) -> Option<BootstrapToken> {
        BootstrapToken::parse(text).filter(|_| self.has_bootstrap_tokens)
    }

    fn bootstrapping(&self, token: &BootstrapToken) -> Result<User, Unauthorized> {
        let secret = self.find::<Secret>(&token.key());
        token.user(secret.as_deref(), self.clock.now()).map(among_the_authenticated)
    }

    /// A token that is ours, is for one of the audiences, and holds now.
    fn token(
        &self,
        text: &str,
        audiences: &[String],
    ) -> Result<(Arc<Token>, Option<legacy::Use>), Unauthorized> {
        let key = Key::of(text);
        let token = match self.verified.get(key) {
            Some(token) => token,
            None => {
                let token = Arc::new(self.verify(text)?);
                self.verified.put(key, token.clone());
                token
            }
        };
        let now = self.clock.now();
        if let Claims::Bound(claims) = &token.claims
            && (now.as_second() >= claims.exp || now.as_second() < claims.nbf)
        {
            return Err(Unauthorized::TokenExpired);
        }
        let named = self.audiences_of(&token);
        if !audiences.iter().any(|it| named.contains(it)) {
            return Err(Unauthorized::Audience);
        }
        let used = match &token.claims {
            Claims::Bound(claims) => self.validate_bound(claims, now).map(|()| None)?,
            Claims::Legacy(claims) => Some(self.validate_kept(claims, text)?),
        };
        Ok((token, used))
    }

    /// A token that names none is for this server.
    fn audiences_of<'a>(&'a self, token: &'a Token) -> &'a [String] {
        match &token.claims {
            Claims::Bound(claims) => claims.aud.as_slice(),
            Claims::Legacy(_) => &self.audiences,
        }
    }

    fn validate_kept(
        &self,
        claims: &legacy::Claims,
        text: &str,
    ) -> Result<legacy::Use, Unauthorized> {
        let secret = self.find::<Secret>(&claims.secret());
        let account = self.find::<ServiceAccount>(&claims.account());
        claims.validate(text, secret.as_deref(), account.as_deref())
    }

    fn find<T: Resource>(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let resource = GroupResource::new(T::FACTS.group, T::FACTS.plural);
        self.lookup.find(&resource, key)?.shared::<T>().ok()
    }

    /// What holds for good: the signature, the issuer, and that the token speaks of one account.
    fn verify(&self, token: &str) -> Result<Token, Unauthorized> {
        let claims = self.decode(token)?;
        let (is_known, subject, user) = match &claims {
            Claims::Bound(it) => (self.issuers.contains(&it.iss), &it.sub, it.user()),
            Claims::Legacy(it) => (it.iss == legacy::ISSUER, &it.sub, it.user()),
        };
        if !is_known {
            return Err(Unauthorized::Issuer);
        }
        if matches!(&claims, Claims::Legacy(it) if !it.is_complete()) {
            return Err(Unauthorized::Token("a claim is missing".to_owned()));
        }
        if user.name != *subject {
            return Err(Unauthorized::Token("the subject is not the service account".to_owned()));
        }
        Ok(Token { user: Arc::new(among_the_authenticated(user)), claims })
    }

    fn decode(&self, token: &str) -> Result<Claims, Unauthorized> {
        let refuse = |err: jsonwebtoken::errors::Error| Unauthorized::Token(err.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(refuse)?;
        let mut outcome = Err(Unauthorized::Token("unknown key".to_owned()));
        for (algorithm, key) in self.candidates(&header) {
            outcome = decode_with(token, *algorithm, key).map_err(refuse);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The key that a token names; of tokens that name none, which older versions of Kubernetes have
    /// left in Secrets, any that could have made such a signature.
    fn candidates(&self, header: &Header) -> Vec<&(Algorithm, DecodingKey)> {
        match header.kid.as_deref() {
            None | Some("") => self.keys.values().filter(|it| it.0 == header.alg).collect(),
            Some(id) => self.keys.get(id).into_iter().collect(),
        }
    }

    fn validate_bound(&self, claims: &tokens::Claims, now: Timestamp) -> Result<(), Unauthorized> {
        let bound = &claims.kubernetes;
        let namespace = &bound.namespace;
        self.validate_lives::<ServiceAccount>(namespace, &bound.serviceaccount, now)?;
        match (&bound.pod, &bound.secret, &bound.node) {
            (Some(pod), _, _) => self.validate_lives::<Pod>(namespace, pod, now),
            (None, Some(secret), _) => self.validate_lives::<Secret>(namespace, secret, now),
            (None, None, Some(node)) => self.validate_lives::<Node>("", node, now),
            (None, None, None) => Ok(()),
        }
    }

    /// By what is kept beside the bytes: this is asked for every request.
    fn validate_lives<T: Resource>(
        &self,
        namespace: &str,
        reference: &Reference,
        now: Timestamp,
    ) -> Result<(), Unauthorized> {
        let resource = GroupResource::new(T::FACTS.group, T::FACTS.plural);
        let key = ObjectKey::new(namespace, reference.name.as_str());
        let lives = self.lookup.find(&resource, &key).is_some_and(|stored| {
            let is_same = !reference.uid.is_empty() && stored.meta.uid == reference.uid;
            is_same && (!stored.meta.is_deleting || is_ending::<T>(&stored, now))
        });
        let gone = || Unauthorized::Gone { kind: T::FACTS.singular, name: reference.name.clone() };
        lives.then_some(()).ok_or_else(gone)
    }
}

fn decode_with(
    token: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
) -> Result<Claims, jsonwebtoken::errors::Error> {
    // The key's own algorithm: what the token says of it proves nothing.
    let mut validation = Validation::new(algorithm);
    // Everything but the signature is checked by us, against our own clock.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    Ok(jsonwebtoken::decode::<Claims>(token, key, &validation)?.claims)
}

/// Whether the deletion of this object began a short while ago.
fn is_ending<T: Resource>(stored: &Arc<Stored>, now: Timestamp) -> bool {
    let Ok(object) = stored.shared::<T>() else { return false };
    let deleted = object.metadata().deletion_timestamp.as_ref().map(|it| it.0);
    deleted.and_then(|it| it.checked_add(DELETION_LEEWAY).ok()).is_some_and(|it| it >= now)
}
