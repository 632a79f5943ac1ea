//! What a Secret for a token lacks. Pure.

use api::core::secret::TokenView;
use api::core::{Secret, ServiceAccount};
use k8s_openapi::ByteString;

pub(super) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The account that a Secret is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub name: String,
    pub uid: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Its account is gone, or another of that name is there now.
    Delete,
    Fill(Account),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub ca: bool,
    pub namespace: bool,
    pub token: bool,
}

/// An authority that differs is replaced; other data is left as it is. `root_ca` may be empty, when
/// nobody said.
pub(super) fn plan(token: &TokenView, account: Option<&Account>, root_ca: &str) -> Action {
    let Some(account) = account else { return Action::Delete };
    let wanted = encoded(root_ca);
    let has_ca = root_ca.is_empty() || token.ca.as_deref() == Some(wanted.as_str());
    match token.has_token && token.has_namespace && has_ca {
        true => Action::Nothing,
        false => Action::Fill(account.clone()),
    }
}

/// As the JSON of a Secret has it.
fn encoded(text: &str) -> String {
    let bytes = ByteString(text.as_bytes().to_vec());
    match serde_json::to_value(bytes) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

pub(super) fn missing(secret: &Secret, root_ca: &str) -> Missing {
    let data = |key: &str| secret.data.as_ref().and_then(|it| it.get(key)).map(|it| &*it.0);
    let lacks = |key: &str| data(key).is_none_or(<[u8]>::is_empty);
    Missing {
        ca: !root_ca.is_empty() && data("ca.crt") != Some(root_ca.as_bytes()),
        namespace: lacks("namespace"),
        token: lacks("token"),
    }
}

pub(super) fn refers(account: &ServiceAccount, secret: &str) -> bool {
    account.secrets.iter().flatten().any(|it| it.name.as_deref() == Some(secret))
}

pub(super) fn without(account: &ServiceAccount, secret: &str) -> ServiceAccount {
    let mut account = account.clone();
    if let Some(secrets) = &mut account.secrets {
        secrets.retain(|it| it.name.as_deref() != Some(secret));
    }
    account
}
