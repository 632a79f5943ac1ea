//! Service-account tokens: what is in them, signing them, and the documents others verify them
//! with.

use apimachinery::User;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use stdx::{Random, SharedClock};

use crate::pki::{self, ServiceAccountKey, VerifyingKey};

pub const ISSUER_DEFAULT: &str = "https://kubernetes.default.svc.cluster.local";
const USER_PREFIX: &str = "system:serviceaccount:";
/// What pods' automatic token volumes ask for. Such a token stays valid for a year, with a mark
/// after which its use is worth a warning: old clients read the file once and never again.
const SECONDS_AUTOMATIC: i64 = 3607;
const SECONDS_EXTENDED: i64 = 365 * 24 * 3600;

/// `system:serviceaccount:<namespace>:<name>` into its parts.
pub fn split_user_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

pub fn groups_of(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// An object by name and identity: a new object of the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The object whose end is the token's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// With the node that the pod runs on, when it does.
    Pod {
        pod: Reference,
        node: Option<Reference>,
    },
    Secret(Reference),
    Node(Reference),
}

/// What a TokenRequest asks for, once the server has looked up what it names.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub namespace: String,
    pub service_account: Reference,
    /// Empty: the API server's own.
    pub audiences: Vec<String>,
    pub expiration_seconds: i64,
    pub bound: Option<Bound>,
}

#[derive(Clone, Debug)]
pub struct Issued {
    pub token: String,
    /// What the client is told; see `SECONDS_AUTOMATIC`.
    pub expiration: Timestamp,
    pub audiences: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) aud: Audience,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    #[serde(default)]
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: Kubernetes,
    #[serde(default)]
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// One audience may be written without a list around it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Audience {
    Many(Vec<String>),
    One(String),
}

impl Audience {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::Many(it) => it,
            Self::One(it) => std::slice::from_ref(it),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kubernetes {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

impl Claims {
    /// The identity that these claims prove, without the group of everybody who is authenticated.
    pub(crate) fn user(&self) -> User {
        let Kubernetes { namespace, serviceaccount, pod, node, .. } = &self.kubernetes;
        let mut user = User {
            name: user_name(namespace, &serviceaccount.name),
            uid: serviceaccount.uid.clone(),
            groups: groups_of(namespace),
            ..User::default()
        };
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
            }
        };
        if !self.jti.is_empty() {
            add("credential-id", format!("JTI={}", self.jti));
        }
        for (kind, reference) in [("pod", pod), ("node", node)] {
            if let Some(reference) = reference {
                add(&format!("{kind}-name"), reference.name.clone());
                add(&format!("{kind}-uid"), reference.uid.clone());
            }
        }
        user
    }
}

/// Signs tokens with the newest of the cluster's keys.
pub struct TokenIssuer {
    key: Arc<ServiceAccountKey>,
    encoding: EncodingKey,
    issuer: String,
    audiences: Vec<String>,
    clock: SharedClock,
    random: Random,
}

impl TokenIssuer {
    /// `audiences` are the API server's own, given to tokens that ask for none.
    pub fn new(
        key: Arc<ServiceAccountKey>,
        issuer: impl Into<String>,
        audiences: Vec<String>,
        clock: SharedClock,
        random: Random,
    ) -> Result<Self, pki::Error> {
        let encoding = key.encoding()?;
        Ok(Self { key, encoding, issuer: issuer.into(), audiences, clock, random })
    }

    pub fn issue(&self, request: Wanted) -> Result<Issued, pki::Error> {
        let is_own = request.audiences.is_empty()
            || request.audiences.iter().all(|it| self.audiences.contains(it));
        let audiences =
            if request.audiences.is_empty() { self.audiences.clone() } else { request.audiences };
        let now = self.clock.now();
        let expiration = now
            .checked_add(SignedDuration::from_secs(request.expiration_seconds))
            .unwrap_or(Timestamp::MAX);
        let is_extended = is_own
            && request.expiration_seconds == SECONDS_AUTOMATIC
            && matches!(request.bound, Some(Bound::Pod { .. }));
        let seconds = now.as_second();
        let (exp, warnafter) = if is_extended {
            (seconds + SECONDS_EXTENDED, Some(expiration.as_second()))
        } else {
            (expiration.as_second(), None)
        };
        let (pod, secret, node) = match request.bound {
            None => (None, None, None),
            Some(Bound::Pod { pod, node }) => (Some(pod), None, node),
            Some(Bound::Secret(secret)) => (None, Some(secret), None),
            Some(Bound::Node(node)) => (None, None, Some(node)),
        };
        let claims = Claims {
            aud: Audience::Many(audiences.clone()),
            exp,
            iat: seconds,
            iss: self.issuer.clone(),
            jti: self.random.uuid(),
            sub: user_name(&request.namespace, &request.service_account.name),
            kubernetes: Kubernetes {
                namespace: request.namespace,
                node,
                pod,
                secret,
                serviceaccount: request.service_account,
                warnafter,
            },
            nbf: seconds,
        };
        let header = Header {
            typ: None,
            kid: Some(self.key.id().to_owned()),
            ..Header::new(self.key.algorithm())
        };
        let token = jsonwebtoken::encode(&header, &claims, &self.encoding)
            .map_err(|err| pki::Error::Sign(err.to_string()))?;
        Ok(Issued { token, expiration, audiences })
    }
}

/// `/openid/v1/jwks`: the public halves of `keys`.
pub fn jwks<'a>(keys: impl IntoIterator<Item = &'a VerifyingKey>) -> Value {
    let keys: Vec<Value> = keys.into_iter().map(VerifyingKey::shown).collect();
    json!({ "keys": keys })
}

/// `/.well-known/openid-configuration`. `jwks_uri` is where this server shows `jwks`.
pub fn openid_configuration<'a>(
    issuer: &str,
    jwks_uri: &str,
    keys: impl IntoIterator<Item = &'a VerifyingKey>,
) -> Value {
    let algorithms: BTreeSet<String> =
        keys.into_iter().map(|it| format!("{:?}", it.algorithm())).collect();
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}
