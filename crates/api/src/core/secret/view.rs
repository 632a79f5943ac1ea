//! What those keep of a Secret who look for tokens of service accounts: of all other Secrets
//! nothing but what they are.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Secret, TOKEN_TYPE};
use crate::View;
use crate::object::{Meta, Stored};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecretView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    /// Of those that are for a token.
    pub token: Option<Box<TokenView>>,
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

impl View for SecretView {
    fn resource() -> GroupVersionResource {
        <Secret as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { kind } = serde_json::from_slice(&stored.bytes)?;
        if kind.as_deref() != Some(TOKEN_TYPE) {
            return Ok(Self { meta: stored.meta.clone(), token: None });
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
        Ok(Self { meta: stored.meta.clone(), token: Some(Box::new(token)) })
    }
}

identified_by_meta!(SecretView, Secret);
