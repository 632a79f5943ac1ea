//! `get`: one HTTP request.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Such as http://web.default.svc.cluster.local/
    url: String,
    /// Seconds to wait for all of it
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    timeout: f64,
    /// How many requests, each over a connection of its own
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: u32,
}

/// Fails when the server could not be reached or answered with an error.
pub(crate) async fn run(flags: Flags) -> Result<ExitCode> {
    let timeout = Duration::try_from_secs_f64(flags.timeout).context("--timeout")?;
    let mut code = ExitCode::SUCCESS;
    for _ in 0..flags.count {
        let Ok(fetched) = tokio::time::timeout(timeout, fetch(&flags.url)).await else {
            bail!("get {}: no answer within {timeout:?}", flags.url);
        };
        if !fetched.with_context(|| format!("get {}", flags.url))? {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

async fn fetch(url: &str) -> Result<bool> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().context("not a URL")?;
    if uri.scheme_str() != Some("http") {
        bail!("only http is possible");
    }
    let authority = uri.authority().context("no host")?;
    let host = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80)))
        .await
        .with_context(|| format!("connecting to {authority}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(uri.path_and_query().map_or("/", |it| it.as_str()))
        .header(header::HOST, authority.as_str())
        .header(header::USER_AGENT, "xebec-toolbox")
        .body(Empty::<Bytes>::new())?;
    let exchange = async {
        let mut response = sender.send_request(request).await?;
        let mut out = std::io::stdout();
        while let Some(frame) = response.body_mut().frame().await {
            if let Some(content) = frame?.data_ref() {
                out.write_all(content)?;
            }
        }
        out.flush()?;
        anyhow::Ok(response.status())
    };
    tokio::pin!(exchange, connection);
    let status = tokio::select! {
        biased;
        status = &mut exchange => status?,
        ended = &mut connection => {
            ended?;
            exchange.await?
        }
    };
    if !status.is_success() {
        eprintln!("{status}");
    }
    Ok(status.is_success())
}
