//! Paths that are no resource: versions, health, discovery, OpenAPI, keys.

use api::openapi;
use apimachinery::GroupVersion;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use serde_json::json;

use super::negotiate::{Form, form_of_text, is_openapi_protobuf};
use super::query::Query;
use super::{Body, health, respond, status};
use crate::documents::{self, Document, Name};
use crate::pipeline::Core;

const PATHS: &[&str] = &[
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
];

/// A GET by a component of this process: JSON documents only.
pub(crate) fn get(core: &Core, path: &str) -> Option<Bytes> {
    if let Some(name) = document_name(path, Form::Plain) {
        return Some(core.documents.get(&name)?.bytes);
    }
    small(core, path)
}

/// Documents that are made anew each time.
fn small(core: &Core, path: &str) -> Option<Bytes> {
    let value = match path {
        "/version" | "/version/" => version(),
        "/" => json!({ "paths": PATHS }),
        "/.well-known/openid-configuration" => {
            let jwks = format!("https://{}/openid/v1/jwks", core.config.advertise);
            authn::tokens::openid_configuration(&core.config.issuer, &jwks)
        }
        "/openid/v1/jwks" => authn::tokens::jwks(core.keys.iter().map(AsRef::as_ref)),
        "/api" => {
            let address = core.config.advertise.to_string();
            return Some(api::discovery_documents::api_versions(&address).into());
        }
        _ => return None,
    };
    Some(value.to_string().into())
}

fn version() -> serde_json::Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.0+xebec-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

/// The processor as Go, and so every Kubernetes client, calls it.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn document_name(path: &str, form: Form) -> Option<Name> {
    let path = path.trim_end_matches('/');
    let is_aggregated = form == Form::Discovery;
    Some(match path {
        "/api" if is_aggregated => Name::ApiAggregated,
        "/apis" if is_aggregated => Name::ApisAggregated,
        "/apis" => Name::Apis,
        "/openapi/v2" => Name::OpenApiV2,
        "/openapi/v3" => Name::OpenApiV3Index,
        _ => {
            if let Some(rest) = path.strip_prefix("/openapi/v3/") {
                return group_version(rest).map(Name::OpenApiV3);
            }
            let rest = path.strip_prefix('/')?;
            match rest.strip_prefix("apis/") {
                Some(group) if !group.contains('/') => Name::Group(group.to_owned()),
                _ => Name::Resources(group_version(rest)?),
            }
        }
    })
}

/// `api/v1` or `apis/group/version`.
fn group_version(path: &str) -> Option<GroupVersion> {
    let mut segments = path.split('/');
    let group_version = match segments.next()? {
        "api" => GroupVersion::new("", segments.next()?),
        "apis" => GroupVersion::new(segments.next()?, segments.next()?),
        _ => return None,
    };
    segments.next().is_none().then_some(group_version)
}

/// `None`: nothing is here.
pub(super) async fn answer(
    core: &Core,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    if let Some(response) = health::answer(core, path, query).await {
        return Some(response);
    }
    if path == "/metrics" {
        return Some(metrics(core, headers).await);
    }
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let form = form_of_text(accept).unwrap_or(Form::Plain);
    let Some(mut name) = document_name(path, form) else {
        let mut response = status::json(200, small(core, path)?);
        if path == "/openid/v1/jwks" {
            let kind = HeaderValue::from_static("application/jwk-set+json");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        return Some(response);
    };
    if name == Name::OpenApiV2 && is_openapi_protobuf(accept) {
        name = Name::OpenApiV2Protobuf;
    }
    let document = match core.documents.rendered(&name) {
        Some(document) => document,
        None => core.heavy.run(name.weight(), || core.documents.get(&name)).await?,
    };
    Some(match (&name, query.get("hash")) {
        (Name::OpenApiV3(_), Some(hash)) if hash != document.hash => {
            moved(&format!("{path}?hash={}", document.hash))
        }
        (_, hash) => send(&name, &document, headers, hash.is_some()),
    })
}

fn moved(location: &str) -> Response<Body> {
    let mut response = status::text(301, "");
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn send(name: &Name, document: &Document, headers: &HeaderMap, is_hashed: bool) -> Response<Body> {
    let etag = format!("\"{}\"", document.hash);
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .any(|it| it.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag));
    let mut response = if is_known {
        status::json(304, Bytes::new())
    } else {
        let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
        match &document.gzipped {
            Some(gzipped) if accepts.is_some_and(|it| it.contains("gzip")) => {
                respond::gzipped(status::json(200, gzipped.clone()))
            }
            _ => status::json(200, document.bytes.clone()),
        }
    };
    let headers = response.headers_mut();
    let kind = match name {
        Name::ApiAggregated | Name::ApisAggregated => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        Name::OpenApiV2Protobuf => openapi::V2_PROTOBUF,
        _ => "application/json",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    if is_hashed {
        let forever = HeaderValue::from_static("public, immutable, max-age=31536000");
        headers.insert(header::CACHE_CONTROL, forever);
    }
    response
}

async fn metrics(core: &Core, headers: &HeaderMap) -> Response<Body> {
    let page = core.metrics.render(&core.cache).await;
    let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    let mut response = if accepts.is_some_and(|it| it.contains("gzip")) {
        let zipped = core.heavy.run(page.len(), || documents::gzip(page.as_bytes())).await;
        respond::gzipped(status::text(200, zipped))
    } else {
        status::text(200, page)
    };
    let kind = HeaderValue::from_static(telemetry::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
