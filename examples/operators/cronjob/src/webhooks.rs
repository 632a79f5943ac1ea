//! The server that API servers ask: HTTPS, a path for each question.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use lifecycle::Tasks;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use serving::Share;
use tokio::net::TcpListener;

use crate::{admission, conversion};

/// Of a question: a conversion has many objects.
const QUESTION_MAX: usize = 16 << 20;
/// It has a quarter of the process's descriptors for connections.
const SHARE: Share = Share(4);

/// Answers until the tasks are shut down.
pub fn serve(listener: TcpListener, tls: ServerConfig, tasks: &Tasks) {
    serving::serve_https(listener, Arc::new(tls), SHARE, tasks, |_| (), |(), it| answer(it));
}

/// A server that anybody may ask: what it says is no secret.
pub fn tls(certificate: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("reading {}", certificate.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("reading {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its key")
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let decide: fn(&Value) -> Value = match request.uri().path() {
        "/healthz" => return text(StatusCode::OK, "ok"),
        "/convert" => conversion::answer,
        "/default" => admission::default,
        "/validate" => admission::validate,
        _ => return text(StatusCode::NOT_FOUND, "there is no such webhook"),
    };
    let Ok(body) = Limited::new(request.into_body(), QUESTION_MAX).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large or broke off");
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return text(StatusCode::BAD_REQUEST, "the body is no review");
    };
    let mut response = Response::new(Full::from(decide(&review).to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
