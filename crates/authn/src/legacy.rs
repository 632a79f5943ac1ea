//! Tokens that are kept in Secrets: the older form, which has no end of its own. One holds as long
//! as its Secret has it, and its account is the one that it was made for.

use std::sync::Arc;

use api::core::{Secret, ServiceAccount};
use apimachinery::{ObjectKey, User};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};

use crate::authenticator::Unauthorized;
use crate::pki::{self, ServiceAccountKey};
use crate::tokens::{Reference, groups_of, user_name};

/// Label: the day on which the token was used last.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Label: since when nobody gets in with the token.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
pub(crate) const ISSUER: &str = "kubernetes/serviceaccount";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    account_uid: String,
    pub(crate) sub: String,
}

impl Claims {
    /// The identity that these claims prove, without the group of everybody who is authenticated.
    pub(crate) fn user(&self) -> User {
        User {
            name: user_name(&self.namespace, &self.account),
            uid: self.account_uid.clone(),
            groups: groups_of(&self.namespace),
            ..User::default()
        }
    }

    pub(crate) fn secret(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_str(), self.secret.as_str())
    }

    pub(crate) fn account(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_str(), self.account.as_str())
    }

    pub(crate) fn is_complete(&self) -> bool {
        let all = [&self.namespace, &self.secret, &self.account, &self.account_uid, &self.sub];
        all.iter().all(|it| !it.is_empty())
    }

    /// Whether the Secret has the token, `text`, and the account is the one that it was made for.
    pub(crate) fn validate(
        &self,
        text: &str,
        secret: Option<&Secret>,
        account: Option<&ServiceAccount>,
    ) -> Result<Use, Unauthorized> {
        let gone = |kind, name: &str| Unauthorized::Gone { kind, name: name.to_owned() };
        let secret = secret
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .ok_or_else(|| gone("secret", &self.secret))?;
        let kept = secret.data.as_ref().and_then(|it| it.get("token"));
        if !kept.is_some_and(|it| is_same(&it.0, text.as_bytes())) {
            return Err(Unauthorized::Token("its Secret has another one".to_owned()));
        }
        let account = account
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .filter(|it| it.metadata.uid.as_deref() == Some(self.account_uid.as_str()))
            .ok_or_else(|| gone("serviceaccount", &self.account))?;
        let label = |name: &str| secret.metadata.labels.as_ref().and_then(|it| it.get(name));
        let used = Use {
            secret: self.secret(),
            secret_uid: secret.metadata.uid.clone().unwrap_or_default(),
            last_used: label(LAST_USED).cloned(),
            is_automatic: account
                .secrets
                .iter()
                .flatten()
                .any(|it| it.name.as_deref() == Some(self.secret.as_str())),
        };
        if label(INVALID_SINCE).is_some_and(|it| !it.is_empty()) {
            return Err(Unauthorized::Invalidated(Box::new(used)));
        }
        Ok(used)
    }
}

/// In a time that does not depend on where they differ.
pub(crate) fn is_same(one: &[u8], two: &[u8]) -> bool {
    let difference = one.iter().zip(two).fold(0, |sum, (one, two)| sum | (one ^ two));
    one.len() == two.len() && std::hint::black_box(difference) == 0
}

/// That somebody came with a token out of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub secret: ObjectKey,
    pub secret_uid: String,
    /// The day that the Secret's label names.
    pub last_used: Option<String>,
    /// Made for the account by older clusters, not by hand: the account refers to the Secret.
    pub is_automatic: bool,
}

/// Signs tokens for Secrets.
pub struct Signer {
    id: String,
    algorithm: Algorithm,
    encoding: EncodingKey,
}

impl Signer {
    pub fn new(key: &Arc<ServiceAccountKey>) -> Result<Self, pki::Error> {
        Ok(Self { id: key.id().to_owned(), algorithm: key.algorithm(), encoding: key.encoding()? })
    }

    pub fn sign(
        &self,
        namespace: &str,
        account: &Reference,
        secret: &str,
    ) -> Result<String, pki::Error> {
        let claims = Claims {
            iss: ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.name.clone(),
            account_uid: account.uid.clone(),
            sub: user_name(namespace, &account.name),
        };
        let kid = Some(self.id.clone());
        let header = Header { typ: None, kid, ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, &claims, &self.encoding)
            .map_err(|err| pki::Error::Sign(err.to_string()))
    }
}
