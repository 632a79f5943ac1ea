//! Which signatures there should be: detached JWS (RFC 7515, appendix F) of the kubeconfig, by the
//! secret of each token. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::core::secret::SecretView;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::json;

use crate::bootstrap_tokens::{self, Life};

const CONTENT: &str = "kubeconfig";
const PREFIX: &str = "jws-kubeconfig-";

/// The secret of each token that signs, by its id; and when the first of them ends.
pub(super) fn tokens(
    secrets: &[Arc<SecretView>],
    now: Timestamp,
) -> (BTreeMap<&str, &str>, Option<Duration>) {
    let (mut tokens, mut next) = (BTreeMap::new(), None::<Duration>);
    for secret in secrets {
        let Some(token) = bootstrap_tokens::of(secret) else { continue };
        let is_named = bootstrap_tokens::id_of(&secret.meta.key.name) == Some(token.id.as_str());
        if !is_named || token.secret.is_empty() || token.usage_signing != "true" {
            continue;
        }
        match bootstrap_tokens::life(token, now) {
            Life::Over => continue,
            Life::Endless => {}
            Life::Left(left) => next = Some(next.map_or(left, |it| it.min(left))),
        }
        tokens.insert(token.id.as_str(), token.secret.as_str());
    }
    (tokens, next)
}

/// The data as it should be, where it is not. Without a kubeconfig there is nothing to sign.
pub(super) fn plan(
    data: Option<&BTreeMap<String, String>>,
    tokens: &BTreeMap<&str, &str>,
) -> Option<BTreeMap<String, String>> {
    let data = data?;
    let content = data.get(CONTENT)?;
    let mut wanted: BTreeMap<String, String> = data
        .iter()
        .filter(|(key, _)| !key.starts_with(PREFIX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (id, secret) in tokens {
        wanted.insert(format!("{PREFIX}{id}"), signature(content, id, secret));
    }
    (wanted != *data).then_some(wanted)
}

/// The whole of it without the part in the middle, which whoever checks it has.
pub(super) fn signature(content: &str, id: &str, secret: &str) -> String {
    let header = json!({"alg": "HS256", "kid": id}).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}
