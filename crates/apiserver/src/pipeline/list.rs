//! LIST: which state to read, which objects of it, and how many at a time.

use std::sync::Arc;

use api::Stored;
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kvstore::KeyRange;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::read::parse_version;
use super::{Outcome, Request};
use crate::cache::{ROOT, Selection, refusal};

pub struct ListAnswer {
    pub items: Vec<Arc<Stored>>,
    pub resource_version: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

/// Which state of the resource is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Everything committed before the request.
    Now,
    /// Whatever is in memory.
    Any,
    NotOlderThan(u64),
    Exactly(u64),
}

#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

pub(crate) fn select(request: &Request) -> Result<Selection, ApiError> {
    let list = &request.call.list;
    let mut selection = Selection::parse(
        request.kind.as_ref(),
        request.call.namespace.as_deref(),
        list.label_selector.as_deref(),
        list.field_selector.as_deref(),
    )?;
    selection.name.clone_from(&request.call.name);
    Ok(selection)
}

pub(super) async fn list(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    let selection = select(request)?;
    let (at, start) = plan(request)?;
    let is_whole = at == At::Any;
    let limit = request.call.list.limit.filter(|it| *it > 0 && !is_whole);
    let limit = limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let (objects, revision) = match at {
        At::Exactly(revision) => exactly(core, request, revision, &start).await?,
        at => {
            match at {
                At::Now => {
                    core.cache.wait_current().await?;
                }
                At::NotOlderThan(revision) => core.cache.wait_for(revision).await?,
                At::Any | At::Exactly(_) => {}
            }
            let kind = request.kind.as_ref();
            if start.is_empty() && selection.only_path(kind).is_some() {
                let found = core.cache.select(kind, &selection);
                (found.objects, found.revision)
            } else {
                let snapshot = core.cache.snapshot(kind, selection.namespace.as_deref(), &start);
                (snapshot.objects, snapshot.revision)
            }
        }
    };
    let weight = objects.len().saturating_mul(selection.n_terms());
    let list = core.heavy.run(weight, || page(objects, &selection, limit, revision)).await;
    Ok((Outcome::List(list), 200))
}

/// The first `limit` selected objects, and how to go on.
fn page(
    objects: Vec<Arc<Stored>>,
    selection: &Selection,
    limit: usize,
    revision: u64,
) -> ListAnswer {
    let total = objects.len();
    let mut items = Vec::with_capacity(total.min(limit));
    let mut seen = 0;
    for object in objects {
        if items.len() == limit {
            break;
        }
        seen += 1;
        if selection.matches(&object.meta) {
            items.push(object);
        }
    }
    let has_more = seen < total;
    let continue_token = items
        .last()
        .filter(|_| has_more)
        .map(|last: &Arc<Stored>| render_token(revision, &last.meta.key.to_string()));
    let remaining =
        (continue_token.is_some() && selection.is_everything()).then(|| (total - seen) as u64);
    ListAnswer { items, resource_version: revision, continue_token, remaining }
}

fn render_token(revision: u64, last: &str) -> String {
    let rv = i64::try_from(revision).unwrap_or(-1);
    let token = Token { v: "meta.k8s.io/v1".to_owned(), rv, start: format!("{last}\0") };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn parse_token(text: &str) -> Result<Token, ApiError> {
    let bad = || ApiError::bad_request("continue key is not valid: encoding or format is wrong");
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| bad())?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    if token.v == "meta.k8s.io/v1" && token.rv != 0 { Ok(token) } else { Err(bad()) }
}

/// The table of resourceVersion, resourceVersionMatch, limit and continue.
fn plan(request: &Request) -> Result<(At, String), ApiError> {
    let list = &request.call.list;
    let version = list.resource_version.as_deref().unwrap_or_default();
    let wanted = list.resource_version_match.as_deref().unwrap_or_default();
    validate_options(request, version, wanted)?;
    if let Some(token) = list.continue_token.as_deref().filter(|it| !it.is_empty()) {
        if !matches!(version, "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = parse_token(token)?;
        let at = u64::try_from(token.rv).map_or(At::Now, At::Exactly);
        return Ok((at, token.start));
    }
    let has_limit = list.limit.is_some_and(|it| it > 0);
    let at = match (version, wanted) {
        ("", _) => At::Now,
        ("0", _) => At::Any,
        (version, "Exact") => At::Exactly(parse_version(version)?),
        (version, "") if has_limit => At::Exactly(parse_version(version)?),
        (version, _) => At::NotOlderThan(parse_version(version)?),
    };
    Ok((at, String::new()))
}

fn validate_options(request: &Request, version: &str, wanted: &str) -> Result<(), ApiError> {
    let list = &request.call.list;
    let mut errors = FieldErrors::new();
    let path = Path::new("resourceVersionMatch");
    if list.send_initial_events.is_some() {
        errors
            .forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    if !wanted.is_empty() {
        if version.is_empty() {
            errors.forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if list.continue_token.as_deref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            errors.not_supported(&path, wanted, &["Exact", "NotOlderThan", ""]);
        }
        if wanted == "Exact" && version == "0" {
            errors.forbidden(
                &path,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
    options_error(&errors)
}

pub(super) fn options_error(errors: &FieldErrors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: "ListOptions".into() };
    Err(ApiError::invalid(&kind, "", errors))
}

/// The state at one revision: from memory if nothing changed since, else from the store's history.
async fn exactly(
    core: &Core,
    request: &Request,
    revision: u64,
    start: &str,
) -> Result<(Vec<Arc<Stored>>, u64), ApiError> {
    core.cache.wait_for(revision).await?;
    let namespace = request.call.namespace.as_deref();
    let snapshot = core.cache.snapshot(request.kind.as_ref(), namespace, start);
    if snapshot.changed <= revision {
        return Ok((snapshot.objects, revision));
    }
    if core.cache.is_expired(revision) {
        return Err(expired(request, start));
    }
    let prefix = format!("{ROOT}{}/", request.kind.registry_prefix());
    let inner = namespace.map(|it| format!("{prefix}{it}/")).unwrap_or_else(|| prefix.clone());
    let mut range = KeyRange::prefix(inner.as_bytes());
    let first = format!("{prefix}{start}");
    if first.as_bytes() > range.start.as_ref() {
        range.start = first.into();
    }
    // Every object of the past has to be decoded.
    let history = core.cache.history(request.kind.as_ref(), range, revision);
    match core.heavy.drive(usize::MAX, history).await {
        Ok(objects) => Ok((objects, revision)),
        Err(kvstore::Error::Compacted { .. }) => Err(expired(request, start)),
        Err(err) => Err(refusal(&err)),
    }
}

fn expired(request: &Request, start: &str) -> ApiError {
    if request.call.list.continue_token.is_none() {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    }
    let token = Token { v: "meta.k8s.io/v1".to_owned(), rv: -1, start: start.to_owned() };
    let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default());
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    )
    .with_continue(text)
}
