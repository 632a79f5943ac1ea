//! What expressions ask of the authorizer, asked of the cluster's own.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::Dynamic;
use apimachinery::{GroupVersionResource, User};
use authz::{Attributes, Decision};
use client::Client;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

const GROUP: &str = "authorization.k8s.io";
/// Answers that are kept.
const KNOWN_MAX: usize = 10_000;

pub(super) struct Rights {
    client: Client,
    /// Who asks: about others other reviews are needed.
    own: String,
    known: Mutex<BTreeMap<String, (bool, String)>>,
}

impl Rights {
    pub(super) fn new(client: Client, own: &User) -> Self {
        Self { client, own: own.name.clone(), known: Mutex::default() }
    }

    async fn ask(&self, user: &User, attributes: &Attributes) -> (bool, String) {
        let mut spec = match attributes.is_resource {
            true => json!({"resourceAttributes": {
                "verb": attributes.verb, "group": attributes.group, "version": attributes.version,
                "resource": attributes.resource, "subresource": attributes.subresource,
                "namespace": attributes.namespace, "name": attributes.name,
            }}),
            false => json!({"nonResourceAttributes": {
                "verb": attributes.verb, "path": attributes.path,
            }}),
        };
        let (kind, plural) = match user.name == self.own {
            true => ("SelfSubjectAccessReview", "selfsubjectaccessreviews"),
            false => {
                spec["user"] = json!(user.name);
                spec["groups"] = json!(user.groups);
                ("SubjectAccessReview", "subjectaccessreviews")
            }
        };
        let review = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "spec": spec});
        let key = review.to_string();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let answer = self.review(plural, review).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < KNOWN_MAX {
            known.insert(key, answer.clone());
        }
        answer
    }

    async fn review(&self, plural: &str, review: Value) -> (bool, String) {
        let Ok(review) = Dynamic::from_value(review) else { return (false, String::new()) };
        let api = self.client.dynamic(GroupVersionResource::new(GROUP, "v1", plural));
        match api.create(review).await {
            Ok(answer) => {
                let answer: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
                let status = &answer["status"];
                let reason = status["reason"].as_str().unwrap_or_default().to_owned();
                (status["allowed"] == true, reason)
            }
            Err(err) => (false, err.message().to_owned()),
        }
    }
}

impl admission::Authorizer for Rights {
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let (is_allowed, reason) = self.ask(user, attributes).await;
            match is_allowed {
                true => Decision::Allow { reason },
                false => Decision::NoOpinion { reason },
            }
        })
    }
}
