//! OpenAPI v2 of other servers, which is merged into one document: downloaded when somebody asks
//! for that, and then not for a while, and only if it is another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apimachinery::GroupVersion;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderValue, StatusCode, header};
use tokio::time::Instant;

use super::call::{self, Error};
use super::refresh::aggregator;
use crate::aggregated::Remote;
use crate::pipeline::Core;

pub(super) use api::openapi::v3_path as path;

/// Not asked for again before.
const FRESH: Duration = Duration::from_secs(60);
const ANSWER_MAX: Duration = Duration::from_secs(5);
const DOCUMENT_MAX: usize = 16 << 20;

/// Namespace, name and port of a Service.
type Place = (String, String, u16);

struct Kept {
    at: Instant,
    etag: Option<HeaderValue>,
    document: Bytes,
}

/// The last document of each server.
#[derive(Default)]
pub(super) struct Downloads(Mutex<BTreeMap<Place, Kept>>);

impl Downloads {
    /// Of each version that is another server's, where that has one.
    pub(super) async fn all(&self, core: &Arc<Core>) -> Vec<(GroupVersion, Bytes)> {
        let table = core.aggregated.table();
        let mut servers: BTreeMap<Place, Vec<&Arc<Remote>>> = BTreeMap::new();
        for remote in table.remotes() {
            servers.entry(place_of(remote)).or_default().push(remote);
        }
        self.kept().retain(|place, _| servers.contains_key(place));
        join_all(servers.values().map(|it| self.refresh(core, it[0]))).await;
        let kept = self.kept();
        let each = servers.iter().filter_map(|(place, remotes)| Some((kept.get(place)?, remotes)));
        let each = each.filter(|(kept, _)| !kept.document.is_empty());
        each.flat_map(|(kept, remotes)| {
            remotes.iter().map(|it| (it.group_version.clone(), kept.document.clone()))
        })
        .collect()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn refresh(&self, core: &Arc<Core>, remote: &Remote) {
        let place = place_of(remote);
        let etag = match self.kept().get(&place) {
            Some(kept) if kept.at.elapsed() < FRESH => return,
            kept => kept.and_then(|it| it.etag.clone()),
        };
        if !remote.is_available {
            return;
        }
        let downloaded = download(core, remote, etag).await;
        let mut all = self.kept();
        let kept = all.entry(place).or_insert_with(|| Kept {
            at: Instant::now(),
            etag: None,
            document: Bytes::new(),
        });
        kept.at = Instant::now();
        match downloaded {
            Ok(Some((etag, document))) => (kept.etag, kept.document) = (etag, document),
            Ok(None) => {}
            // What was known is better than nothing.
            Err(err) => {
                let error = stdx::error_chain(&err);
                tracing::debug!(api_service = remote.name, error, "no OpenAPI of another server");
            }
        }
    }
}

fn place_of(remote: &Remote) -> Place {
    (remote.namespace.clone(), remote.service.clone(), remote.port)
}

/// `None`: it is the same.
async fn download(
    core: &Arc<Core>,
    remote: &Remote,
    etag: Option<HeaderValue>,
) -> Result<Option<(Option<HeaderValue>, Bytes)>, Error> {
    let endpoints = call::endpoints(core, remote).map_err(Error::Nowhere)?;
    let mut request = call::request(remote, "/openapi/v2", "application/json", &aggregator())?;
    if let Some(etag) = etag {
        request.headers_mut().insert(header::IF_NONE_MATCH, etag);
    }
    let bounds = (DOCUMENT_MAX, ANSWER_MAX);
    let (head, body) = call::get(core, remote, &endpoints[0], request, bounds).await?;
    if head.status() == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    Ok(Some((head.headers().get(header::ETAG).cloned(), body)))
}
