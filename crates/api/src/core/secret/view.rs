//! What those keep of a Secret who look for tokens, of service accounts and of nodes that are to
//! join: of all other Secrets nothing but what they are.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;

use super::{BOOTSTRAP_TOKEN_TYPE, Secret, TOKEN_TYPE};
use crate::View;
use crate::object::{Meta, Stored};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecretView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    /// Of those that are for a token.
    pub token: Option<Box<TokenView>>,
    /// Of those that are for the token of a node that is to join.
    pub bootstrap: Option<Box<BootstrapTokenView>>,
}

/// A Secret for a bootstrap token, as it says of itself; what it does not say is empty.
#[derive(Clone, Default, PartialEq)]
pub struct BootstrapTokenView {
    pub id: String,
    pub secret: String,
    pub expiration: String,
    pub usage_signing: String,
}

impl std::fmt::Debug for BootstrapTokenView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("BootstrapTokenView").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A Secret for the token of a service account. The token itself is not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenView {
    pub created: Option<Timestamp>,
    /// The account that it is for; empty: nobody said.
    pub account: String,
    /// Empty: nobody said.
    pub account_uid: String,
    pub has_token: bool,
    pub has_namespace: bool,
    /// In base64, as it is stored.
    pub ca: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct TokenParts {
    metadata: Metadata,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "kubernetes.io/service-account.name", default)]
    account: String,
    #[serde(rename = "kubernetes.io/service-account.uid", default)]
    account_uid: String,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(rename = "ca.crt")]
    ca: Option<Box<str>>,
    namespace: Option<Box<str>>,
    token: Option<Box<str>>,
}

#[derive(Deserialize)]
struct BootstrapParts {
    data: Option<BootstrapData>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct BootstrapData {
    token_id: Option<String>,
    token_secret: Option<String>,
    expiration: Option<String>,
    usage_bootstrap_signing: Option<String>,
}

impl BootstrapTokenView {
    fn of(data: BootstrapData) -> Self {
        let text = |it: Option<String>| {
            let bytes = it.and_then(|it| STANDARD.decode(it).ok());
            bytes.and_then(|it| String::from_utf8(it).ok()).unwrap_or_default()
        };
        Self {
            id: text(data.token_id),
            secret: text(data.token_secret),
            expiration: text(data.expiration),
            usage_signing: text(data.usage_bootstrap_signing),
        }
    }
}

impl View for SecretView {
    fn resource() -> GroupVersionResource {
        <Secret as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { kind } = serde_json::from_slice(&stored.bytes)?;
        let meta = stored.meta.clone();
        match kind.as_deref() {
            Some(TOKEN_TYPE) => {}
            Some(BOOTSTRAP_TOKEN_TYPE) => {
                let BootstrapParts { data } = serde_json::from_slice(&stored.bytes)?;
                let bootstrap = BootstrapTokenView::of(data.unwrap_or_default());
                return Ok(Self { meta, token: None, bootstrap: Some(Box::new(bootstrap)) });
            }
            _ => return Ok(Self { meta, token: None, bootstrap: None }),
        }
        let TokenParts { metadata, data } = serde_json::from_slice(&stored.bytes)?;
        let (data, annotations) = (data.unwrap_or_default(), metadata.annotations);
        let annotations = annotations.unwrap_or_default();
        let has = |it: &Option<Box<str>>| it.as_ref().is_some_and(|it| !it.is_empty());
        let token = TokenView {
            created: metadata.creation_timestamp,
            account: annotations.account,
            account_uid: annotations.account_uid,
            has_token: has(&data.token),
            has_namespace: has(&data.namespace),
            ca: data.ca,
        };
        Ok(Self { meta, token: Some(Box::new(token)), bootstrap: None })
    }
}

identified_by_meta!(SecretView, Secret);
