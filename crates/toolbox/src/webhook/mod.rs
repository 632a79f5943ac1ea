//! `webhook`: an HTTPS server that API servers ask about what is written, for tests and
//! demonstrations. What it says depends on the path, so that one pod can be many webhooks.

mod answer;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use crate::every_address::every_address;
use crate::stop::Stop;
use answer::{Reply, reply};

/// Answers reviews. What it says is chosen by the path:
///
/// /allow, /deny/WHY, /deny-marked/KEY (if a label, annotation or data KEY is `deny`), /label/KEY,
/// /annotate/KEY and /data/KEY (set to `yes` by a JSON patch), /container/NAME (added to a pod),
/// /delay/SECONDS, /hang, /lie (another uid), /garbage, /endless, /convert (v1 has `hostPort`, v2
/// `host` and `port`)
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Flags {
    /// Where to listen
    #[arg(long, value_name = "N", default_value_t = 8443)]
    port: u16,
    /// The certificate chain, PEM
    #[arg(long, value_name = "FILE", default_value = "/certs/tls.crt")]
    tls_cert_file: PathBuf,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", default_value = "/certs/tls.key")]
    tls_private_key_file: PathBuf,
}

/// Of what is asked: objects with their old forms, and what goes with them.
const QUESTION_MAX: usize = 16 << 20;
const CHUNK: usize = 64 << 10;

type Body = BoxBody<Bytes, Infallible>;

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let mut stop = Stop::listen()?;
    let acceptor = TlsAcceptor::from(Arc::new(tls(&flags)?));
    let listener = TcpListener::bind(&every_address(flags.port)[..])
        .await
        .with_context(|| format!("listening on port {}", flags.port))?;
    println!("a webhook answers on port {}", flags.port);
    let connections = LocalSet::new();
    let serving = async {
        loop {
            // A connection that was reset before we took it is nobody's loss.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let acceptor = acceptor.clone();
            tokio::task::spawn_local(async move {
                // Whoever does not trust us says so to whoever asked them.
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let serving = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(handle));
                let _ = serving.await;
            });
        }
    };
    tokio::select! {
        biased;
        () = stop.wait() => {}
        () = connections.run_until(serving) => {}
    }
    Ok(())
}

fn tls(flags: &Flags) -> Result<ServerConfig> {
    let (chain, key) = (&flags.tls_cert_file, &flags.tls_private_key_file);
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("reading {}", chain.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("reading {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .context("the certificate and its key")
}

async fn handle(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    if path == "/healthz" {
        return Ok(text(StatusCode::OK, "ok\n".to_owned()));
    }
    let body = Limited::new(request.into_body(), QUESTION_MAX).collect().await;
    let review: Option<Value> =
        body.ok().and_then(|it| serde_json::from_slice(&it.to_bytes()).ok());
    let Some(review) = review else {
        return Ok(text(StatusCode::BAD_REQUEST, "the body is no review\n".to_owned()));
    };
    let request = &review["request"];
    println!(
        "{path} {} {} {}",
        request["operation"].as_str().unwrap_or("CONVERT"),
        request["resource"]["resource"].as_str().unwrap_or_default(),
        request["name"].as_str().unwrap_or_default(),
    );
    Ok(match reply(&path, &review) {
        Reply::Review(answer) => json(&answer),
        Reply::Late(seconds, answer) => {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            json(&answer)
        }
        Reply::Never => std::future::pending().await,
        Reply::Text(garbage) => text(StatusCode::OK, garbage),
        Reply::Endless => Response::new(endless()),
        Reply::Unknown => text(StatusCode::NOT_FOUND, format!("nothing is at {path}\n")),
    })
}

fn endless() -> Body {
    let next = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; CHUNK])));
    StreamBody::new(futures_util::stream::repeat_with(next)).boxed()
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = status;
    response
}

fn json(answer: &Value) -> Response<Body> {
    let mut response = text(StatusCode::OK, answer.to_string());
    let value = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, value);
    response
}
