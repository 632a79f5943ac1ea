//! One server: what it serves, and what it says to a request.

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
use crate::schema::Schemas;

const ANSWER_MAX: usize = 16 << 20;
/// Both servers derive the name of the manager of fields from it.
const USER_AGENT: &str = "differ/1";

/// Objects say who made them: both servers are asked by the same.
const USER: &str = "differ";

pub(crate) struct Server {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

/// Where objects of a kind are.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Of the group and version.
    pub(crate) root: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    pub(crate) has_status: bool,
}

impl Resource {
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let within =
            if self.is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        format!("{}{within}/{}", self.root, self.plural)
    }
}

impl Server {
    pub(crate) async fn connect(kubeconfig: &str) -> Result<Self> {
        let target = Target::read(kubeconfig)?;
        let sender = dial(&target).await?;
        Ok(Self { target, sender })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        self.call("GET", path, "application/json", "").await
    }

    /// By version and kind.
    pub(crate) async fn resources(&mut self) -> Result<BTreeMap<(String, String), Resource>> {
        let mut roots = vec!["/api/v1".to_owned()];
        let groups = self.get("/apis").await?.body;
        for version in groups["groups"].as_array().into_iter().flatten() {
            let versions = version["versions"].as_array().into_iter().flatten();
            let names = versions.filter_map(|it| it["groupVersion"].as_str());
            roots.extend(names.map(|it| format!("/apis/{it}")));
        }
        let mut found = BTreeMap::new();
        for root in roots {
            let list = self.get(&root).await?.body;
            let version = list["groupVersion"].as_str().unwrap_or_default();
            let all = || list["resources"].as_array().into_iter().flatten();
            for resource in all() {
                let text = |name: &str| resource[name].as_str().unwrap_or_default();
                let plural = text("name");
                if plural.contains('/') {
                    continue;
                }
                let status = format!("{plural}/status");
                let resource = Resource {
                    root: root.clone(),
                    plural: plural.to_owned(),
                    is_namespaced: resource["namespaced"] == true,
                    has_status: all().any(|it| it["name"] == status.as_str()),
                };
                found.insert((version.to_owned(), text_of(&list, plural)), resource);
            }
        }
        Ok(found)
    }

    pub(crate) async fn schemas(&mut self) -> Result<Schemas> {
        let mut schemas = Schemas::default();
        let index = self.get("/openapi/v3").await?.body;
        for document in index["paths"].as_object().into_iter().flatten() {
            let path = document.1["serverRelativeURL"].as_str().ok_or("an address of a schema")?;
            schemas.add(&self.get(path).await?.body);
        }
        Ok(schemas)
    }

    /// An answer that does not come is an error; the next call is on a connection of its own.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Result<Answer> {
        self.call_accepting("application/json", method, path, content_type, body).await
    }

    pub(crate) async fn call_accepting(
        &mut self,
        accept: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Result<Answer> {
        if self.sender.ready().await.is_err() {
            self.sender = dial(&self.target).await?;
        }
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.target.host)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, accept)
            .header("impersonate-user", USER)
            .header("impersonate-group", "system:masters");
        if let Some(token) = self.target.authorization() {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::from(body.to_owned()))?;
        let response = self.sender.send_request(request).await?;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let warnings = warnings.collect();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { code, body, warnings })
    }
}

/// The kind of the resource of that name.
fn text_of(list: &Value, plural: &str) -> String {
    let mut all = list["resources"].as_array().into_iter().flatten();
    let found = all.find(|it| it["name"] == plural);
    found.and_then(|it| it["kind"].as_str()).unwrap_or_default().to_owned()
}

async fn dial(target: &Target) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TokioIo::new(target.dial(b"http/1.1").await?);
    let (sender, connection) = http1::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}
