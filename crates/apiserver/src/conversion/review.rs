//! ConversionReview: the question, and what is taken for an answer. Pure.

use std::collections::BTreeMap;

use apimachinery::validation::{validate_annotations, validate_labels};
use apimachinery::{FieldErrors, Path};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Refusal;
use super::metrics::Outcome;
use crate::stored_bytes::api_version_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    /// The first that the webhook names and we know.
    pub(super) fn of(named: &[String]) -> Option<Self> {
        named.iter().find_map(|it| match it.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

pub(super) struct Question<'a> {
    pub(super) version: Version,
    pub(super) uid: &'a str,
    /// What is wanted.
    pub(super) api_version: &'a str,
    /// As JSON; not none.
    pub(super) objects: &'a [&'a Bytes],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    result: Option<Result_>,
    converted_objects: Option<Vec<Box<RawValue>>>,
}

#[derive(Default, Deserialize)]
struct Result_ {
    status: Option<String>,
    message: Option<String>,
}

/// What a converted object must not be.
enum Fault {
    /// Of another version or kind.
    Type(String),
    /// Another object.
    Identity(String),
    Metadata(String),
}

impl Question<'_> {
    pub(super) fn body(&self) -> Bytes {
        let size: usize = self.objects.iter().map(|it| it.len() + 1).sum();
        let mut body = Vec::with_capacity(size + 256);
        let (version, uid) = (self.version.api_version(), self.uid);
        // Neither has anything that JSON would escape.
        let head = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"{version}","request":{{"uid":"{uid}","desiredAPIVersion":"{}","objects":["#,
            self.api_version
        );
        body.extend_from_slice(head.as_bytes());
        for (index, object) in self.objects.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(object);
        }
        body.extend_from_slice(b"]}}");
        body.into()
    }

    /// Of the first object: they are all of one kind.
    pub(super) fn kind(&self) -> String {
        #[derive(Deserialize)]
        struct Header {
            kind: String,
        }
        let first = self.objects.first().map_or(&[][..], |it| it);
        let kind = serde_json::from_slice::<Header>(first).map(|it| it.kind).unwrap_or_default();
        format!("{}, Kind={kind}", api_version_of(first).unwrap_or_default())
    }

    pub(super) fn version_asked(&self) -> &str {
        let first = self.objects.first().and_then(|it| api_version_of(it));
        first.and_then(|it| it.rsplit('/').next()).unwrap_or_default()
    }

    pub(super) fn version_wanted(&self) -> &str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// The objects that an answer has, with the metadata that they had but for labels and
    /// annotations.
    pub(super) fn converted(&self, answer: &[u8]) -> Result<Vec<Bytes>, Refusal> {
        let refuse = |outcome: Outcome, why: String| Refusal {
            text: format!("conversion webhook for {} {why}", self.kind()),
            logged: format!(
                "the answer of the conversion webhook for {} cannot be used",
                self.kind()
            ),
            outcome,
        };
        let malformed = |why: String| refuse(Outcome::MalformedResponse, format!("failed: {why}"));
        let said: Said = serde_json::from_slice(answer).map_err(|err| {
            let why = format!("failed: couldn't get version/kind; json parse error: {err}");
            refuse(Outcome::CallFailure, why)
        })?;
        let objects = self.objects_of(said).map_err(malformed)?;
        let (n_objects, n_wanted) = (objects.len(), self.objects.len());
        if n_objects != n_wanted {
            let why = format!("returned {n_objects} objects, expected {n_wanted}");
            return Err(refuse(Outcome::PartialResponse, why));
        }
        let all = objects.iter().zip(self.objects).enumerate();
        all.map(|(index, (converted, original))| {
            self.checked(converted.get(), original).map_err(|fault| {
                refuse(Outcome::InvalidConvertedObject, fault.told(index, n_wanted))
            })
        })
        .collect()
    }

    /// What was answered, if it was this question that was.
    fn objects_of(&self, said: Said) -> Result<Vec<Box<RawValue>>, String> {
        // Answers of v1beta1 were never held to what they say of themselves.
        let is_checked = self.version == Version::V1;
        let wanted = Version::V1.api_version();
        let (api_version, kind) = (said.api_version.as_str(), said.kind.as_str());
        if is_checked && (api_version, kind) != (wanted, "ConversionReview") {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return Err(format!(
                "expected webhook response of {wanted}, Kind=ConversionReview, got {group}/{version}, Kind={kind}"
            ));
        }
        let response = said.response.ok_or_else(|| "no response provided".to_owned())?;
        let uid = response.uid.unwrap_or_default();
        if is_checked && uid != self.uid {
            return Err(format!("expected response.uid={:?}, got {uid:?}", self.uid));
        }
        let result = response.result.unwrap_or_default();
        let status = result.status.unwrap_or_default();
        if status != "Success" {
            let message = result.message.filter(|it| !it.is_empty());
            let default = || format!("response.result.status was '{status}', not 'Success'");
            return Err(message.unwrap_or_else(default));
        }
        Ok(response.converted_objects.unwrap_or_default())
    }

    fn checked(&self, converted: &str, original: &[u8]) -> Result<Bytes, Fault> {
        let unread = |err: serde_json::Error| Fault::Type(err.to_string());
        let mut converted: Map<String, Value> = serde_json::from_str(converted).map_err(unread)?;
        let original: Map<String, Value> = serde_json::from_slice(original).map_err(unread)?;
        let text = |it: Option<&Value>| it.and_then(Value::as_str).unwrap_or_default().to_owned();
        let received = text(converted.get("apiVersion"));
        if received != self.api_version {
            return Err(Fault::Type(format!(
                "invalid groupVersion (expected {}, received {received})",
                self.api_version
            )));
        }
        let (expected, received) = (text(original.get("kind")), text(converted.get("kind")));
        if expected != received {
            let why = format!("invalid kind (expected {expected}, received {received})");
            return Err(Fault::Type(why));
        }
        for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let of =
                |it: &Map<String, Value>| text(it.get("metadata").and_then(|it| it.get(field)));
            let (expected, received) = (of(&original), of(&converted));
            if expected != received {
                let why = format!("must have the same {name}: {expected} != {received}");
                return Err(Fault::Identity(why));
            }
        }
        let metadata = restored(original.get("metadata"), converted.get_mut("metadata"));
        converted.insert("metadata".to_owned(), metadata.map_err(Fault::Metadata)?.into());
        Ok(Value::Object(converted).to_string().into_bytes().into())
    }
}

impl Fault {
    fn told(self, index: usize, n_objects: usize) -> String {
        match (self, n_objects) {
            (Self::Type(why), 1) => format!("returned invalid object at index 0: {why}"),
            (Self::Identity(why), 1) => format!("returned invalid object: {why}"),
            (Self::Metadata(why), 1) => format!("returned invalid metadata: {why}"),
            (Self::Type(why) | Self::Identity(why), _) => {
                format!("returned invalid converted object at index {index}: {why}")
            }
            (Self::Metadata(why), _) => {
                format!("returned invalid metadata in object at index {index}: {why}")
            }
        }
    }
}

/// What there was, with the labels and annotations of what was answered.
fn restored(
    original: Option<&Value>,
    converted: Option<&mut Value>,
) -> Result<Map<String, Value>, String> {
    let Some(converted) = converted else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Some(answered) = converted.as_object_mut() else {
        let kind = kind_of(converted);
        return Err(format!("invalid metadata of type {kind} in converted object"));
    };
    let mut metadata = original.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        let Some(now) = answered.remove(field).filter(|it| !it.is_null()) else { continue };
        let now = texts(field, now)?;
        let is_same = before.as_ref().and_then(Value::as_object).is_some_and(|it| {
            it.len() == now.len()
                && now.iter().all(|(key, value)| it.get(key) == Some(&value.as_str().into()))
        });
        if !is_same {
            validate(field, &now)?;
        }
        let now = now.into_iter().map(|(key, value)| (key, Value::String(value)));
        metadata.insert(field.to_owned(), now.collect::<Map<_, _>>().into());
    }
    Ok(metadata)
}

fn texts(field: &str, value: Value) -> Result<BTreeMap<String, String>, String> {
    let Value::Object(map) = value else {
        let kind = kind_of(&value);
        return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
    };
    let text = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        other => Err(format!(
            "metadata.{field}[{key}] must be a string, but is {} in converted object",
            kind_of(&other)
        )),
    };
    map.into_iter().map(text).collect()
}

fn validate(field: &str, map: &BTreeMap<String, String>) -> Result<(), String> {
    let mut errors = FieldErrors::new();
    let path = Path::new("metadata");
    match field {
        "labels" => validate_labels(map, &path.child("labels"), &mut errors),
        _ => validate_annotations(map, &path.child("annotation"), &mut errors),
    }
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match &all[..] {
        [] => Ok(()),
        [only] => Err(only.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

/// As Go names it.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(it) if it.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
