//! What a server says about itself: that it answers, what it serves, and where its OpenAPI is.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::User;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header;
use serde::Deserialize;
use std::collections::BTreeMap;

use super::call::{self, Error};
use super::endpoints::Endpoint;
use super::{openapi, resources};
use crate::aggregated::Remote;
use crate::pipeline::Core;

/// To answer in.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Addresses that are asked at once whether they answer.
const TRIES: usize = 5;
/// Of a discovery document, and of the index of OpenAPI.
const DOCUMENT_MAX: usize = 4 << 20;

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Who asks for what every client may know.
pub(super) fn aggregator() -> User {
    User::new("system:kube-aggregator", &["system:masters"])
}

/// The first that answers for the version.
pub(super) async fn answers(
    core: &Arc<Core>,
    remote: &Remote,
    endpoints: &[Endpoint],
) -> Result<Endpoint, Error> {
    let path = format!("/{}", openapi::path(&remote.group_version));
    // A single address is asked again, once: what broke off may have been going anyway.
    let again = if endpoints.len() == 1 { endpoints } else { &[] };
    let tried = endpoints.iter().chain(again).take(TRIES);
    let mut asked: FuturesUnordered<_> = tried
        .map(|endpoint| async {
            let request = call::request(remote, &path, JSON, &aggregator())?;
            let bounds = (DOCUMENT_MAX, ANSWER_MAX);
            call::get(core, remote, endpoint, request, bounds).await.map(|_| endpoint.clone())
        })
        .collect();
    let mut failed = Error::Address("none".to_owned());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(endpoint) => return Ok(endpoint),
            Err(err) => failed = err,
        }
    }
    Err(failed)
}

/// Tells of what it serves. What it does not say stays as it was.
pub(super) async fn run(core: &Arc<Core>, remote: &Remote, endpoint: &Endpoint) {
    let version = &remote.group_version;
    let before = core.aggregated.table().told(version).cloned();
    let mut told = before.as_deref().cloned().unwrap_or_default();
    match discovery(core, remote, endpoint).await {
        Ok(resources) => told = told.with_resources(resources),
        Err(err) => {
            let error = stdx::error_chain(&err);
            tracing::debug!(api_service = remote.name, error, "no discovery of another server");
            // Without any, it stays stale.
            if before.is_none() {
                return;
            }
        }
    }
    if let Some(place) = openapi_v3(core, remote, endpoint).await {
        told.openapi_v3 = Some(place);
    }
    core.aggregated.tell(version, told);
}

async fn discovery(core: &Arc<Core>, remote: &Remote, endpoint: &Endpoint) -> Result<Bytes, Error> {
    let (version, bounds) = (&remote.group_version, (DOCUMENT_MAX, ANSWER_MAX));
    let request = call::request(remote, "/apis", AGGREGATED, &aggregator())?;
    if let Ok((head, body)) = call::get(core, remote, endpoint, request, bounds).await {
        let kind = head.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        if kind.is_some_and(|it| it.contains("as=APIGroupDiscoveryList"))
            && let Ok(found) = resources::from_aggregated(&body, version)
        {
            return Ok(found);
        }
    }
    let path = format!("/{}", openapi::path(version));
    let request = call::request(remote, &path, JSON, &aggregator())?;
    let (_, body) = call::get(core, remote, endpoint, request, bounds).await?;
    Ok(resources::from_legacy(&body, version)?)
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    paths: BTreeMap<String, Place>,
}

#[derive(Deserialize)]
struct Place {
    #[serde(rename = "serverRelativeURL", default)]
    url: String,
}

/// Where the document of the version is, if it is where it belongs.
async fn openapi_v3(core: &Arc<Core>, remote: &Remote, endpoint: &Endpoint) -> Option<String> {
    let request = call::request(remote, "/openapi/v3", JSON, &aggregator()).ok()?;
    let bounds = (DOCUMENT_MAX, ANSWER_MAX);
    let (_, body) = call::get(core, remote, endpoint, request, bounds).await.ok()?;
    place_in(&body, &openapi::path(&remote.group_version))
}

fn place_in(index: &[u8], path: &str) -> Option<String> {
    let mut index: Index = serde_json::from_slice(index).ok()?;
    let url = index.paths.remove(path)?.url;
    let rest = url.strip_prefix("/openapi/v3/")?.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with('?')).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::place_in;

    #[test]
    fn only_a_document_of_its_own_version_is_listed() {
        let index = |url: &str| {
            serde_json::json!({"paths": {"apis/a/v1": {"serverRelativeURL": url}}}).to_string()
        };
        let check = |url: &str, is_taken: bool| {
            let seen = place_in(index(url).as_bytes(), "apis/a/v1");
            assert_eq!(seen, is_taken.then(|| url.to_owned()));
        };
        check("/openapi/v3/apis/a/v1?hash=1", true);
        check("/openapi/v3/apis/a/v1", true);
        check("/openapi/v3/apis/a/v10?hash=1", false);
        check("/openapi/v3/apis/b/v1?hash=1", false);
        check("/api/v1/secrets", false);
        check("https://example.com/openapi/v3/apis/a/v1", false);
        assert_eq!(place_in(b"garbage", "apis/a/v1"), None);
        assert_eq!(place_in(b"{}", "apis/a/v1"), None);
    }
}
