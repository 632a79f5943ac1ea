//! Bootstrap tokens: Secrets in kube-system with which nodes that are to join trust the cluster,
//! and the other way round.

use std::time::Duration;

use api::core::secret::{BootstrapTokenView, SecretView};
use jiff::Timestamp;

pub(crate) const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";
const ID_LENGTH: usize = 6;

/// How long a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It does not say.
    Endless,
    Left(Duration),
    /// Or nobody can read until when.
    Over,
}

pub(crate) fn life(token: &BootstrapTokenView, now: Timestamp) -> Life {
    if token.expiration.is_empty() {
        return Life::Endless;
    }
    let Ok(end) = token.expiration.parse::<Timestamp>() else { return Life::Over };
    match Duration::try_from(end.duration_since(now)) {
        Ok(left) if !left.is_zero() => Life::Left(left),
        _ => Life::Over,
    }
}

/// A token by a Secret that is where tokens are.
pub(crate) fn of(secret: &SecretView) -> Option<&BootstrapTokenView> {
    let is_there = secret.meta.key.namespace == NAMESPACE;
    secret.bootstrap.as_deref().filter(|_| is_there)
}

/// The id that a name has at its end: six letters and digits.
pub(crate) fn id_of(name: &str) -> Option<&str> {
    let id = name.strip_prefix(PREFIX)?;
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    (id.len() == ID_LENGTH && id.bytes().all(is_letter)).then_some(id)
}
