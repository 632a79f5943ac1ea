//! One server: what it serves, and what it says to an object.

use std::collections::BTreeMap;

use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::Result;
use crate::compare::Answer;
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

    pub(crate) async fn reconnect(&mut self) -> Result<()> {
        self.sender = dial(&self.target).await?;
        Ok(())
    }

    /// Where objects of each kind are posted, those with a namespace in `default`.
    pub(crate) async fn places(&mut self) -> Result<BTreeMap<(String, String), String>> {
        let mut roots = vec!["/api/v1".to_owned()];
        let groups = self.call("GET", "/apis", "").await?.body;
        for version in groups["groups"].as_array().into_iter().flatten() {
            let versions = version["versions"].as_array().into_iter().flatten();
            let names = versions.filter_map(|it| it["groupVersion"].as_str());
            roots.extend(names.map(|it| format!("/apis/{it}")));
        }
        let mut places = BTreeMap::new();
        for root in roots {
            let list = self.call("GET", &root, "").await?.body;
            let version = list["groupVersion"].as_str().unwrap_or_default();
            for resource in list["resources"].as_array().into_iter().flatten() {
                let text = |name: &str| resource[name].as_str().unwrap_or_default();
                if text("name").contains('/') {
                    continue;
                }
                let within =
                    if resource["namespaced"] == true { "/namespaces/default" } else { "" };
                let key = (version.to_owned(), text("kind").to_owned());
                places.insert(key, format!("{root}{within}/{}", text("name")));
            }
        }
        Ok(places)
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer> {
        self.call("POST", path, body).await
    }

    async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.target.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = self.target.authorization() {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::from(body.to_owned()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let code = response.status().as_u16();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { code, body })
    }
}

async fn dial(target: &Target) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TokioIo::new(target.dial(b"http/1.1").await?);
    let (sender, connection) = http1::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}
