//! Paths that are no resource: versions, health, discovery, OpenAPI, keys.

use std::sync::Arc;
use std::time::Duration;

use api::{openapi, protobuf};
use apimachinery::GroupVersion;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use jiff::Timestamp;
use serde_json::json;

use super::negotiate::{
    self, Endpoint, Form, Media, OPENAPI_V2, OPENAPI_V3, Shape, find, is_openapi_protobuf,
};
use super::query::Query;
use super::{Body, health, respond, route, status, written};
use crate::cache::inexpressible;
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

/// Of those who check tokens themselves.
const ISSUER_PATHS: [&str; 2] = ["/.well-known/openid-configuration", "/openid/v1/jwks"];

/// By OpenID Connect Discovery 1.0 an issuer is an `https` URL without a query; about another one
/// there is nothing to tell.
fn is_discoverable(issuer: &str) -> bool {
    issuer.starts_with("https://") && !issuer.contains(['?', '#'])
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A GET by a component of this process: JSON documents only.
pub(crate) fn get(core: &Core, path: &str) -> Option<Bytes> {
    if let Some(name) = document_name(path, None) {
        return Some(core.documents.get(&name)?.bytes);
    }
    small(core, path)
}

/// Documents that are made anew each time.
fn small(core: &Core, path: &str) -> Option<Bytes> {
    let value = match path {
        "/version" | "/version/" => version(),
        "/" => {
            let has_issuer = is_discoverable(core.config.issuer());
            let paths = PATHS.iter().filter(|it| has_issuer || !ISSUER_PATHS.contains(it));
            json!({ "paths": paths.collect::<Vec<_>>() })
        }
        path if ISSUER_PATHS.contains(&path) && !is_discoverable(core.config.issuer()) => {
            return None;
        }
        "/.well-known/openid-configuration" => {
            let own = || format!("https://{}/openid/v1/jwks", core.config.advertise);
            let jwks = core.config.jwks_uri.clone().unwrap_or_else(own);
            authn::tokens::openid_configuration(core.config.issuer(), &jwks, &core.keys)
        }
        "/openid/v1/jwks" => authn::tokens::jwks(&core.keys),
        "/api" | "/api/" => {
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

/// `accept`: of a client that may want another form of it.
fn document_name(path: &str, accept: Option<&str>) -> Option<Name> {
    let path = path.trim_end_matches('/');
    let is_aggregated =
        matches!(path, "/api" | "/apis") && find(accept, Endpoint::Discovery).is_some();
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
    core: &Arc<Core>,
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
    let Some(name) = document_name(path, accept) else {
        let json = small(core, path)?;
        return Some(match path {
            "/openid/v1/jwks" => of_type(status::json(200, json), "application/jwk-set+json"),
            "/version" | "/version/" => {
                let form = Form { is_pretty: true, ..Form::JSON };
                status::json(200, written::text(json, form))
            }
            "/api" | "/api/" => negotiated(&Name::Apis, json, query, headers),
            _ => status::json(200, json),
        });
    };
    let Some(name) = in_form(name, accept) else { return Some(status::text(406, "")) };
    if matches!(name, Name::OpenApiV2 | Name::OpenApiV2Protobuf) {
        core.documents.set_foreign(core.aggregator.documents(core).await);
    }
    let document = match core.documents.rendered(&name) {
        Some(document) => document,
        None => core.heavy.run(name.weight(), || core.documents.get(&name)).await?,
    };
    let is_versioned = matches!(name, Name::OpenApiV3(_) | Name::OpenApiV3Protobuf(_));
    let hash = query.get("hash").filter(|it| is_versioned && !it.is_empty());
    if hash.is_some_and(|it| it != document.hash) {
        return Some(moved(&format!("{path}?hash={}", document.hash)));
    }
    let mut response = if is_known(&document, headers) {
        of_type(status::json(304, Bytes::new()), content_type(&name))
    } else if is_discovery(&name) {
        let response = negotiated(&name, document.bytes.clone(), query, headers);
        if response.status() != 200 {
            return Some(response);
        }
        // Compressed before it is asked for; other media are not.
        match (&document.gzipped, response.headers().get(header::CONTENT_TYPE)) {
            (Some(zipped), Some(kind)) if takes_gzip(headers) && kind == content_type(&name) => {
                let json = of_type(status::json(200, zipped.clone()), content_type(&name));
                respond::gzipped(json)
            }
            _ => response,
        }
    } else {
        let response = match &document.gzipped {
            Some(zipped) if takes_gzip(headers) => {
                respond::gzipped(status::json(200, zipped.clone()))
            }
            _ => status::json(200, document.bytes.clone()),
        };
        of_type(response, content_type(&name))
    };
    let answered = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", document.hash)) {
        answered.insert(header::ETAG, etag);
    }
    answered.append(header::VARY, HeaderValue::from_static("Accept"));
    if hash.is_some() {
        forever(answered, core.world.clock.now());
    }
    Some(response)
}

/// The document in the form that the client takes first; `None` if it takes none.
fn in_form(name: Name, accept: Option<&str>) -> Option<Name> {
    Some(match name {
        Name::OpenApiV2 if is_openapi_protobuf(accept, OPENAPI_V2)? => Name::OpenApiV2Protobuf,
        Name::OpenApiV3(group_version) if is_openapi_protobuf(accept, OPENAPI_V3)? => {
            Name::OpenApiV3Protobuf(group_version)
        }
        name => name,
    })
}

fn is_discovery(name: &Name) -> bool {
    match name {
        Name::ApiAggregated | Name::ApisAggregated => true,
        Name::Apis | Name::Group(_) | Name::Resources(_) => true,
        Name::OpenApiV2 | Name::OpenApiV2Protobuf | Name::OpenApiV3Index => false,
        Name::OpenApiV3(_) | Name::OpenApiV3Protobuf(_) => false,
    }
}

/// What it is when it is JSON, or protobuf of OpenAPI.
fn content_type(name: &Name) -> &'static str {
    match name {
        Name::ApiAggregated | Name::ApisAggregated => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        Name::OpenApiV2Protobuf => openapi::V2_PROTOBUF,
        Name::OpenApiV3Protobuf(_) => openapi::V3_PROTOBUF,
        _ => "application/json",
    }
}

/// A discovery document, which is an object, in the medium that the client wants.
fn negotiated(name: &Name, json: Bytes, query: &Query, headers: &HeaderMap) -> Response<Body> {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let endpoint = match name {
        Name::ApiAggregated | Name::ApisAggregated => Endpoint::Discovery,
        _ => Endpoint::Plain,
    };
    let accepted = negotiate::validate_media(accept, false);
    let form = match accepted.and_then(|()| negotiate::form(accept, endpoint)) {
        Ok(form) => form,
        Err(error) => return status::refuse_in(negotiate::form_of_error(accept), &error),
    };
    let is_pretty = form.is_pretty || route::is_pretty(query, headers);
    let bytes = match form.media {
        Media::Protobuf => match protobuf::encode_document(&json) {
            Ok(bytes) => bytes.into(),
            Err(err) => return status::refuse(&inexpressible(err)),
        },
        Media::Json | Media::Yaml => written::text(json, Form { is_pretty, ..form }),
    };
    let response = status::of_media(200, form.media, bytes);
    if form.shape != Shape::Discovery {
        return response;
    }
    of_type(
        response,
        match form.media {
            Media::Json => content_type(name),
            Media::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Media::Protobuf => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        },
    )
}

fn of_type(mut response: Response<Body>, kind: &'static str) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    accepts.is_some_and(|it| it.contains("gzip"))
}

fn is_known(document: &Document, headers: &HeaderMap) -> bool {
    let etag = format!("\"{}\"", document.hash);
    let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
    tags.flat_map(|it| it.split(',')).any(|it| it.trim().trim_start_matches("W/") == etag)
}

/// What a hash names never changes.
fn forever(headers: &mut HeaderMap, now: Timestamp) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    let expires = now.saturating_add(YEAR).map(|it| {
        jiff::fmt::rfc2822::to_string(&it.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default()
    });
    let expires = expires.ok().map(|it| it.replace("+0000", "GMT"));
    if let Some(expires) = expires.and_then(|it| HeaderValue::from_str(&it).ok()) {
        headers.insert(header::EXPIRES, expires);
    }
}

fn moved(location: &str) -> Response<Body> {
    let mut response = status::text(301, "");
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

async fn metrics(core: &Core, headers: &HeaderMap) -> Response<Body> {
    let page = core.metrics.render(&core.cache).await;
    let mut response = if takes_gzip(headers) {
        let zipped = core.heavy.run(page.len(), || documents::gzip(page.as_bytes())).await;
        respond::gzipped(status::text(200, zipped))
    } else {
        status::text(200, page)
    };
    let kind = HeaderValue::from_static(telemetry::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
