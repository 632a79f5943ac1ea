//! ServiceAccount tokens of one pod, bound to it and renewed before they end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apimachinery::ApiError;
use bytes::Bytes;
use client::Client;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use stdx::World;

use crate::pod_facts::TokenKey;

/// A renewal that failed while the old token is still good is tried again after this.
const RETRY: Duration = Duration::from_secs(60);
/// No token is older than this, however long it lives.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to fetch token: {message}")]
    Request {
        message: String,
        #[source]
        source: ApiError,
    },
    #[error("failed to fetch token: the server answered without one")]
    Empty,
}

pub(crate) struct Tokens {
    client: Client,
    world: World,
    held: Mutex<BTreeMap<TokenKey, Held>>,
}

#[derive(Clone)]
struct Held {
    token: Bytes,
    expires: Timestamp,
    renew_at: Timestamp,
}

/// Which tokens the pod's volumes ask for.
pub(crate) fn keys(pod: &Pod) -> Vec<TokenKey> {
    let volumes = pod.spec.iter().flat_map(|it| &it.volumes).flatten();
    let mut keys: Vec<TokenKey> = volumes.flat_map(crate::volumes::tokens).collect();
    keys.sort();
    keys.dedup();
    keys
}

impl Tokens {
    pub(crate) fn new(client: Client, world: World) -> Self {
        Self { client, world, held: Mutex::default() }
    }

    /// All tokens, new where it is time, and when to ask again.
    pub(crate) async fn get(
        &self,
        pod: &Pod,
    ) -> Result<(BTreeMap<TokenKey, Bytes>, Option<Timestamp>), Error> {
        let mut tokens = BTreeMap::new();
        let mut renew_at = None;
        for key in keys(pod) {
            let held = self.get_one(pod, &key).await?;
            renew_at = Some(renew_at.map_or(held.renew_at, |it: Timestamp| it.min(held.renew_at)));
            tokens.insert(key, held.token);
        }
        Ok((tokens, renew_at))
    }

    async fn get_one(&self, pod: &Pod, key: &TokenKey) -> Result<Held, Error> {
        let now = self.world.clock.now();
        let known = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(held) = known.as_ref().filter(|it| it.renew_at > now) {
            return Ok(held.clone());
        }
        let held = match (self.request(pod, key, now).await, known) {
            (Ok(held), _) => held,
            (Err(err), Some(old)) if old.expires > now => {
                tracing::warn!(error = stdx::error_chain(&err), "token not renewed");
                Held { renew_at: now.checked_add(RETRY).unwrap_or(old.expires), ..old }
            }
            (Err(err), _) => return Err(err),
        };
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), held.clone());
        Ok(held)
    }

    async fn request(&self, pod: &Pod, key: &TokenKey, now: Timestamp) -> Result<Held, Error> {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let account = pod.spec.as_ref().and_then(|it| it.service_account_name.clone());
        let account = account.unwrap_or_else(|| "default".to_owned());
        let audiences = Some(key.audience.clone()).filter(|it| !it.is_empty());
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: audiences.map(|it| vec![it]),
                expiration_seconds: Some(key.expiration_seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.clone(),
                }),
            }),
            ..TokenRequest::default()
        };
        let accounts = self.client.api::<ServiceAccount>();
        let reply = accounts
            .exchange_subresource(&namespace, &account, "token", request)
            .await
            .map_err(|source| Error::Request { message: source.message().to_owned(), source })?;
        let status = reply.status.clone().ok_or(Error::Empty)?;
        let expires = status.expiration_timestamp.ok_or(Error::Empty)?.0;
        let token = Bytes::from(status.token.ok_or(Error::Empty)?);
        Ok(Held { token, expires, renew_at: renew_at(now, expires) })
    }
}

/// At four fifths of the token's life.
fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    now.checked_add((life * 4 / 5).min(AGE_MAX)).unwrap_or(expires)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::renew_at;

    #[test]
    fn a_token_is_renewed_at_four_fifths_of_its_life_and_at_least_daily() {
        let check = |life_seconds: i64, expected: i64| {
            let now = Timestamp::UNIX_EPOCH;
            let at = renew_at(now, now + SignedDuration::from_secs(life_seconds));
            assert_eq!(at.as_second(), expected);
        };
        check(3607, 2885);
        check(600, 480);
        check(30 * 24 * 3600, 24 * 3600);
        check(-5, 0);
    }
}
