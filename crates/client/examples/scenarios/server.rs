//! The cluster: requests for JSON, and their answers.

use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::Result;
use crate::connect::Target;

const ANSWER_MAX: usize = 16 << 20;

pub(crate) struct Server {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

impl Server {
    pub(crate) async fn connect(kubeconfig: &str) -> Result<Self> {
        let target = Target::read(kubeconfig)?;
        let sender = dial(&target).await?;
        Ok(Self { target, sender })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Option<Value>> {
        match self.call("GET", path, "application/json", "").await? {
            (200, body) => Ok(Some(body)),
            (404, _) => Ok(None),
            (code, body) => Err(format!("GET {path}: {code} {}", body["message"]).into()),
        }
    }

    /// A write that must go well.
    pub(crate) async fn write(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value> {
        let (code, answer) = self.call(method, path, content_type, &body.to_string()).await?;
        match code {
            200..300 => Ok(answer),
            _ => Err(format!("{method} {path}: {code} {}", answer["message"]).into()),
        }
    }

    async fn call(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Result<(u16, Value)> {
        if self.sender.ready().await.is_err() {
            self.sender = dial(&self.target).await?;
        }
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.target.host)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json");
        if let Some(token) = self.target.authorization() {
            request = request.header(header::AUTHORIZATION, token);
        }
        let response = self.sender.send_request(request.body(Full::from(body.to_owned()))?).await?;
        let code = response.status().as_u16();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }
}

async fn dial(target: &Target) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TokioIo::new(target.dial(b"http/1.1").await?);
    let (sender, connection) = http1::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}
