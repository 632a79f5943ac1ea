//! ImageReview: the question, and what is taken for an answer. Pure.

use std::collections::BTreeMap;

use api::core::Pod;
use k8s_openapi::api::core::v1::Container;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// In the keys of annotations that are passed on.
const ANNOTATION: &str = ".image-policy.k8s.io/";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    spec: Spec<'a>,
    status: Empty,
}

#[derive(Serialize)]
struct Empty {}

/// What an answer depends on.
#[derive(Serialize)]
pub(super) struct Spec<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Image<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
}

#[derive(Serialize)]
struct Image<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
}

impl<'a> Spec<'a> {
    /// Of a pod its containers and init containers; below it, at `ephemeralcontainers`, those.
    pub(super) fn new(pod: &'a Pod, subresource: &str, namespace: &'a str) -> Self {
        let spec = pod.spec.as_ref();
        let image = |it: &'a Option<String>| Image { image: it.as_deref().unwrap_or_default() };
        let of = |it: &'a Container| image(&it.image);
        let containers = match subresource {
            "" => {
                let containers = spec.into_iter().flat_map(|it| &it.containers);
                let init = spec.into_iter().flat_map(|it| it.init_containers.iter().flatten());
                containers.chain(init).map(of).collect()
            }
            _ => {
                let all = spec.into_iter().flat_map(|it| it.ephemeral_containers.iter().flatten());
                all.map(|it| image(&it.image)).collect()
            }
        };
        let annotations = pod.metadata.annotations.iter().flatten();
        let annotations = annotations.filter(|(key, _)| key.contains(ANNOTATION));
        let annotations = annotations.map(|(key, it)| (key.as_str(), it.as_str())).collect();
        Self { containers, annotations, namespace }
    }

    /// Equal for equal answers.
    pub(super) fn key(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn question(self) -> Vec<u8> {
        let (metadata, status) = (Empty {}, Empty {});
        let question =
            Question { kind: KIND, api_version: API_VERSION, metadata, spec: self, status };
        serde_json::to_vec(&question).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    kind: Option<String>,
    api_version: Option<String>,
    status: Option<Answer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) audit_annotations: BTreeMap<String, String>,
}

/// An answer that says nothing is a refusal.
pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let said: Said =
        serde_json::from_slice(body).map_err(|err| format!("the answer is not JSON: {err}"))?;
    let header = (said.api_version.unwrap_or_default(), said.kind.unwrap_or_default());
    if (header.0.as_str(), header.1.as_str()) != (API_VERSION, KIND) {
        return Err(format!(
            "the answer is a {:?} of {:?}, not an {KIND} of {API_VERSION}",
            header.1, header.0
        ));
    }
    Ok(said.status.unwrap_or_default())
}

/// Why a pod may not be.
pub(super) fn refusal(answer: &Answer) -> Option<String> {
    match (answer.allowed, answer.reason.as_str()) {
        (true, _) => None,
        (false, "") => Some("one or more images rejected by webhook backend".to_owned()),
        (false, why) => {
            Some(format!("image policy webhook backend denied one or more images: {why}"))
        }
    }
}
