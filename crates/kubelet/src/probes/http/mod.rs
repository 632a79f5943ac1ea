//! HTTP and HTTPS GETs, as probes and as lifecycle hooks make them.
//!
//! Certificates are not verified: a probe asks whether something answers, not who. Redirects are
//! followed on the same host only.

mod exchange;
mod tls;

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use bytes::Bytes;
use k8s_openapi::api::core::v1::HTTPGetAction;
use tokio::time::Instant;

use super::action::Outcome;

pub(crate) const PROBE_AGENT: &str = "kube-probe/1.36";
pub(crate) const HOOK_AGENT: &str = "kube-lifecycle/1.36";
/// How much of a body is read.
const BODY_MAX: usize = 10 * 1024;
const REDIRECTS_MAX: usize = 10;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    url: Uri,
    headers: HeaderMap,
}

pub(crate) struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    pub(crate) fn new(
        get: &HTTPGetAction,
        host: &str,
        port: u16,
        agent: &'static str,
    ) -> Result<Self, String> {
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_ascii_lowercase();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let path = get.path.as_deref().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("{scheme}://{host}:{port}{slash}{path}");
        let url: Uri = url.parse().map_err(|err| format!("parse {url:?}: {err}"))?;
        let mut headers = HeaderMap::new();
        for wanted in get.http_headers.iter().flatten() {
            let name = HeaderName::from_bytes(wanted.name.as_bytes());
            let value = HeaderValue::from_str(&wanted.value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(format!("invalid HTTP header {:?}", wanted.name));
            };
            headers.append(name, value);
        }
        let defaults = [(header::USER_AGENT, agent), (header::ACCEPT, "*/*")];
        for (name, value) in defaults {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        Ok(Self { url, headers })
    }

    /// The answer to it or to what it was redirected to. The error is text as Go's client gives it.
    pub(crate) async fn send(mut self, timeout: Duration) -> Result<Response, String> {
        let deadline = Instant::now() + timeout;
        for _ in 0..=REDIRECTS_MAX {
            let response = exchange::get(&self, deadline).await;
            let response =
                response.map_err(|problem| format!("Get \"{}\": {problem}", self.url))?;
            match response.redirect(&self.url) {
                Some(url) => self.url = url,
                None => return Ok(response),
            }
        }
        Err(format!("Get \"{}\": stopped after {REDIRECTS_MAX} redirects", self.url))
    }
}

impl Response {
    /// Where to go from here, if that is on the same host.
    fn redirect(&self, from: &Uri) -> Option<Uri> {
        const MOVED: [u16; 5] = [301, 302, 303, 307, 308];
        if !MOVED.contains(&self.status.as_u16()) {
            return None;
        }
        let location = self.headers.get(header::LOCATION)?.to_str().ok()?;
        let to: Uri = match location.strip_prefix('/').filter(|it| !it.starts_with('/')) {
            Some(_) => {
                let authority = from.authority()?;
                format!("{}://{authority}{location}", from.scheme_str()?).parse().ok()?
            }
            None => location.parse().ok()?,
        };
        (to.host() == from.host() && to.scheme().is_some()).then_some(to)
    }
}

pub(super) async fn probe(request: Request, timeout: Duration) -> Outcome {
    let response = match request.send(timeout).await {
        Ok(response) => response,
        Err(problem) => return Outcome::Failure(problem),
    };
    let body = String::from_utf8_lossy(&response.body);
    match response.status.as_u16() {
        200..300 => Outcome::Success,
        300..400 => Outcome::Warning(format!("Probe terminated redirects, Response body: {body}")),
        code => Outcome::Failure(format!("HTTP probe failed with statuscode: {code}")),
    }
}
