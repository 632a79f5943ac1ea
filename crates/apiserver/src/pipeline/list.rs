//! LIST: which state to read, which objects of it, and how many at a time.

use std::sync::Arc;

use api::Stored;
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kvstore::KeyRange;
use serde::{Deserialize, Serialize};

use super::converted::{self, Found};
use super::core::Core;
use super::read::parse_version;
use super::{Outcome, Request};
use crate::cache::{ROOT, Selection, refusal};

pub struct ListAnswer {
    pub items: Vec<Arc<Stored>>,
    pub resource_version: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
    /// Whether the items are in the version of the request already.
    pub is_served: bool,
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

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Where the next page starts, and of which state; -1: of the latest.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    /// Below what the request is about.
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
    // Of one object, a selector can only say the same.
    if let Some(name) = &request.call.name
        && !selection.fields.is_everything()
        && selection.fields.exact("metadata.name") != Some(name)
    {
        let why = "fieldSelector metadata.name doesn't match requested name";
        return Err(ApiError::bad_request(why));
    }
    selection.name.clone_from(&request.call.name);
    Ok(selection)
}

pub(super) async fn list(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    let selection = select(request)?;
    let (at, start) = plan(request)?;
    // What is in memory is given whole: there is no page of a state that nobody can name.
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
                let found = match converted::is_first(request, &selection) {
                    true => core.cache.select(kind, &selection.by_place()),
                    false => core.cache.select(kind, &selection),
                };
                (found.objects, found.revision)
            } else {
                let snapshot = core.cache.snapshot(kind, selection.namespace.as_deref(), &start);
                (snapshot.objects, snapshot.revision)
            }
        }
    };
    let total = objects.len();
    let is_served = converted::is_first(request, &selection);
    let found = match is_served {
        true => converted::find(core, request, (&objects, &selection), limit).await?,
        false => {
            let weight = total.saturating_mul(selection.n_terms());
            core.heavy.run(weight, || find(objects, &selection, limit)).await
        }
    };
    let list = ListAnswer { is_served, ..page(found, &selection, total, revision) };
    Ok((Outcome::List(list), 200))
}

/// The first `limit` selected objects.
fn find(objects: Vec<Arc<Stored>>, selection: &Selection, limit: usize) -> Found {
    let mut found = Found { items: Vec::with_capacity(objects.len().min(limit)), n_seen: 0 };
    for object in objects {
        if found.items.len() == limit {
            break;
        }
        found.n_seen += 1;
        if selection.matches(&object.meta) {
            found.items.push(object);
        }
    }
    found
}

/// What was found of so many, and how to go on.
fn page(found: Found, selection: &Selection, total: usize, revision: u64) -> ListAnswer {
    let Found { items, n_seen: seen } = found;
    let has_more = seen < total;
    let continue_token = items.last().filter(|_| has_more).map(|last: &Arc<Stored>| {
        // Below what the request is about, as upstream's.
        let last = match selection.namespace {
            Some(_) => last.meta.key.name.clone(),
            None => last.meta.key.to_string(),
        };
        let rv = i64::try_from(revision).unwrap_or(-1);
        Token::new(rv, format!("{last}\0")).render()
    });
    let remaining =
        (continue_token.is_some() && selection.is_everything()).then(|| (total - seen) as u64);
    ListAnswer { items, resource_version: revision, continue_token, remaining, is_served: false }
}

impl Token {
    fn new(rv: i64, start: String) -> Self {
        Self { v: TOKEN_VERSION.to_owned(), rv, start }
    }

    fn render(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|err| match err {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => {
                format!(": illegal base64 data at input byte {at}")
            }
            base64::DecodeError::InvalidLength(n) => {
                format!(": illegal base64 data at input byte {}", n.saturating_sub(1))
            }
            base64::DecodeError::InvalidPadding => ": illegal base64 data".to_owned(),
        })?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|err| format!(": {err}"))?;
        if token.v != TOKEN_VERSION {
            let what = ": server does not recognize this encoded version";
            return Err(format!("{what} {}", token.v));
        }
        if token.rv == 0 {
            let what = ": incorrect encoded start resourceVersion";
            return Err(format!("{what} (version {TOKEN_VERSION})"));
        }
        if token.start.is_empty() {
            return Err(format!(": encoded start key empty (version {TOKEN_VERSION})"));
        }
        // Nothing outside of what the request is about can be named.
        let path = token.start.strip_prefix('/').unwrap_or(&token.start);
        if path.split('/').any(|it| matches!(it, "" | "." | "..")) {
            return Err(format!(": {}", token.start));
        }
        Ok(Self { start: path.to_owned(), ..token })
    }
}

/// Any text as a token, for whoever tries what it does.
pub(crate) fn parse_any_token(text: &str) {
    if let Ok(token) = Token::parse(text) {
        assert_eq!(Token::parse(&token.render()).map(|it| it.start), Ok(token.start.clone()));
        assert!(!token.start.split('/').any(|it| it == ".."), "{}", token.start);
    }
}

/// The table of resourceVersion, resourceVersionMatch, limit and continue.
fn plan(request: &Request) -> Result<(At, String), ApiError> {
    let list = &request.call.list;
    let version = list.resource_version.as_deref().unwrap_or_default();
    let wanted = list.resource_version_match.as_deref().unwrap_or_default();
    validate_options(request, version, wanted)?;
    if let Some(token) = list.continue_token.as_deref().filter(|it| !it.is_empty()) {
        let token = Token::parse(token).map_err(|why| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        })?;
        if !matches!(version, "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let at = u64::try_from(token.rv).map_or(At::Now, At::Exactly);
        let start = match &request.call.namespace {
            Some(namespace) => format!("{namespace}/{}", token.start),
            None => token.start,
        };
        return Ok((at, start));
    }
    let parse_version = |text: &str| {
        parse_version(text).map_err(|why| {
            ApiError::bad_request(format!("invalid resource version: {}", why.message()))
        })
    };
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
            errors.not_supported_as_listed(&path, wanted, &["Exact", "NotOlderThan", ""]);
        }
        if wanted == "Exact" && version == "0" {
            errors.forbidden(
                &path,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
    if list.send_initial_events.is_some() {
        errors
            .forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
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
    // Whoever names one state waits for no other: there is no time to come back at.
    core.cache.wait_for(revision).await.map_err(ApiError::without_retry_after)?;
    // Whatever is remembered: a client that does not ask sees the same horizon on every server.
    if core.cache.is_expired(revision) && !request.call.list.is_beyond_horizon {
        return Err(expired(request, start));
    }
    let namespace = request.call.namespace.as_deref();
    let snapshot = core.cache.snapshot(request.kind.as_ref(), namespace, start);
    if snapshot.changed <= revision {
        return Ok((snapshot.objects, revision));
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
    let namespace = request.call.namespace.as_ref().map(|it| format!("{it}/"));
    let start = namespace.and_then(|it| start.strip_prefix(&it)).unwrap_or(start);
    let text = Token::new(-1, start.to_owned()).render();
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    )
    .with_continue(text)
}
