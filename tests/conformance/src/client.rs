//! Calls to the server: any request and its answer, and the verbs on one collection of objects.

use anyhow::{Context as _, Result, anyhow};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::events::Events;
use crate::expect;
use crate::scope::Scope;

/// What the server said, whatever it was.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Value> {
        let text = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", text()))
    }

    pub(crate) fn content_type(&self) -> &str {
        let value = self.headers.get(http::header::CONTENT_TYPE);
        value.and_then(|it| it.to_str().ok()).unwrap_or_default()
    }
}

/// An answer that is not a success.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {code} {}: {}", status["reason"], status["message"])]
pub(crate) struct Refusal {
    pub(crate) call: String,
    pub(crate) code: u16,
    /// The Status that came with it, or what came instead.
    pub(crate) status: Value,
}

impl Refusal {
    pub(crate) fn message(&self) -> &str {
        self.status["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn reason(&self) -> &str {
        self.status["reason"].as_str().unwrap_or_default()
    }
}

/// The four kinds of patches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patch {
    Apply,
    Json,
    Merge,
    Strategic,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Apply => "application/apply-patch+yaml",
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// `?a=b&c=d`, escaped.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let escaped = |it| utf8_percent_encode(it, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> =
        pairs.iter().map(|(key, value)| format!("{key}={}", escaped(*value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

impl Scope {
    /// One request as it is, and its answer, whatever it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer> {
        let call = format!("{method} {path}");
        self.doing(&call);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client().send(request.body(Body::from(body))?).await;
        let response = response.with_context(|| call.clone())?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|err| anyhow!("{call}: reading: {err}"))?;
        let body = body.to_bytes().to_vec();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body })
    }

    /// A request whose answer must be a success.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Value> {
        let call = format!("{method} {path}");
        let answer = self.send(method, path, headers, body).await?;
        if (200..300).contains(&answer.code) {
            return answer.json().context(call);
        }
        let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
        let status = answer.json().unwrap_or_else(|_| json!({ "message": text() }));
        Err(Refusal { call, code: answer.code, status }.into())
    }

    /// A document, such as one of discovery.
    pub(crate) async fn document(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, &[("accept", "application/json")], Vec::new()).await
    }
}

/// All objects of a kind, in a namespace or in all.
#[derive(Clone)]
pub(crate) struct Collection<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) path: String,
}

const JSON: (&str, &str) = ("content-type", "application/json");

impl<'a> Collection<'a> {
    pub(crate) async fn create(&self, object: &Value) -> Result<Value> {
        self.create_with(object, &[]).await
    }

    pub(crate) async fn create_with(
        &self,
        object: &Value,
        options: &[(&str, &str)],
    ) -> Result<Value> {
        let path = format!("{}{}", self.path, query(options));
        let made = self.scope.call(Method::POST, &path, &[JSON], bytes(object)).await?;
        let is_kept = !options.iter().any(|(key, _)| *key == "dryRun");
        if let (true, Some(name)) = (is_kept, made["metadata"]["name"].as_str()) {
            self.scope.made(format!("{}/{name}", self.path));
        }
        Ok(made)
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Value> {
        self.scope.call(Method::GET, &self.object(name), &[], Vec::new()).await
    }

    /// A subresource.
    pub(crate) async fn get_part(&self, name: &str, part: &str) -> Result<Value> {
        let path = format!("{}/{part}", self.object(name));
        self.scope.call(Method::GET, &path, &[], Vec::new()).await
    }

    pub(crate) async fn create_part(&self, name: &str, part: &str, body: &Value) -> Result<Value> {
        let path = format!("{}/{part}", self.object(name));
        self.scope.call(Method::POST, &path, &[JSON], bytes(body)).await
    }

    pub(crate) async fn list(&self, options: &[(&str, &str)]) -> Result<Value> {
        let path = format!("{}{}", self.path, query(options));
        self.scope.call(Method::GET, &path, &[], Vec::new()).await
    }

    pub(crate) async fn labeled(&self, selector: &str) -> Result<Value> {
        self.list(&[("labelSelector", selector)]).await
    }

    pub(crate) async fn replace(&self, object: &Value) -> Result<Value> {
        let path = self.object(expect::name(object)?);
        self.scope.call(Method::PUT, &path, &[JSON], bytes(object)).await
    }

    pub(crate) async fn replace_part(&self, object: &Value, part: &str) -> Result<Value> {
        let path = format!("{}/{part}", self.object(expect::name(object)?));
        self.scope.call(Method::PUT, &path, &[JSON], bytes(object)).await
    }

    /// Reads, changes and replaces; again if somebody else was faster.
    pub(crate) async fn change(
        &self,
        name: &str,
        part: Option<&str>,
        change: impl Fn(&mut Value),
    ) -> Result<Value> {
        for _ in 0..10 {
            let mut object = match part {
                None => self.get(name).await?,
                Some(part) => self.get_part(name, part).await?,
            };
            change(&mut object);
            let outcome = match part {
                None => self.replace(&object).await,
                Some(part) => self.replace_part(&object, part).await,
            };
            match outcome {
                Err(err) if err.downcast_ref::<Refusal>().is_some_and(|it| it.code == 409) => {}
                other => return other,
            }
        }
        Err(anyhow!("{name} in {}: ten replacements in a row were too late", self.path))
    }

    pub(crate) async fn patch(&self, name: &str, kind: Patch, patch: &Value) -> Result<Value> {
        self.patch_with(&self.object(name), kind, bytes(patch), &[]).await
    }

    pub(crate) async fn patch_part(
        &self,
        name: &str,
        part: &str,
        kind: Patch,
        patch: &Value,
    ) -> Result<Value> {
        let path = format!("{}/{part}", self.object(name));
        self.patch_with(&path, kind, bytes(patch), &[]).await
    }

    pub(crate) async fn patch_with(
        &self,
        path: &str,
        kind: Patch,
        patch: Vec<u8>,
        options: &[(&str, &str)],
    ) -> Result<Value> {
        let manager = [("fieldManager", "conformance"), ("force", "true")];
        let apply = if kind == Patch::Apply { &manager[..] } else { &[] };
        let path = format!("{path}{}", query(&[apply, options].concat()));
        let content = ("content-type", kind.content_type());
        self.scope.call(Method::PATCH, &path, &[content], patch).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<Value> {
        self.delete_with(name, &json!({})).await
    }

    /// With delete options.
    pub(crate) async fn delete_with(&self, name: &str, options: &Value) -> Result<Value> {
        self.scope.call(Method::DELETE, &self.object(name), &[JSON], bytes(options)).await
    }

    pub(crate) async fn delete_all(&self, options: &[(&str, &str)]) -> Result<Value> {
        let path = format!("{}{}", self.path, query(options));
        self.scope.call(Method::DELETE, &path, &[], Vec::new()).await
    }

    pub(crate) async fn watch(&self, options: &[(&str, &str)]) -> Result<Events<'a>> {
        let options = [&[("watch", "true")], options].concat();
        Events::open(self.scope, &format!("{}{}", self.path, query(&options))).await
    }

    /// What happens from now on to what these options select.
    pub(crate) async fn watch_from_now(&self, options: &[(&str, &str)]) -> Result<Events<'a>> {
        let now = expect::version(&self.list(&[("limit", "1")]).await?)?.to_string();
        self.watch(&[options, &[("resourceVersion", &*now)]].concat()).await
    }

    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn values_of_a_query_are_escaped() {
        assert_eq!(query(&[]), "");
        assert_eq!(
            query(&[("labelSelector", "a=b"), ("limit", "3")]),
            "?labelSelector=a%3Db&limit=3"
        );
    }
}
