//! The objects of a request in the version that a webhook or a policy asks for. Where that is the one
//! that is worked on they are the request's own, one tree for all who look.

use std::sync::{Arc, LazyLock};

use apimachinery::ApiError;
use serde_json::Value;

use crate::attributes::Operation;
use crate::context::Context;
use crate::draft::{Forms, Json};
use crate::matching::Invocation;

/// `None`: there is none.
pub(crate) struct Shown {
    pub(crate) object: Option<Arc<Json>>,
    pub(crate) old: Option<Arc<Json>>,
}

impl Shown {
    pub(crate) async fn new(
        context: &Context<'_>,
        invocation: &Invocation,
    ) -> Result<Self, ApiError> {
        let own = context.draft().map(|it| match context.request.operation {
            Operation::Connect => without_metadata(it.json()),
            _ => it.json().clone(),
        });
        let object = match own {
            Some(own) => Some(convert(context, own, invocation).await?),
            None => None,
        };
        let old = match context.old() {
            Some(old) => Some(convert(context, old.json().clone(), invocation).await?),
            None => None,
        };
        Ok(Self { object, old })
    }

    /// For expressions; null: there is none.
    pub(crate) fn object_tree(&self) -> &Value {
        tree(self.object.as_ref())
    }

    pub(crate) fn old_tree(&self) -> &Value {
        tree(self.old.as_ref())
    }
}

fn tree(json: Option<&Arc<Json>>) -> &Value {
    static NOTHING: LazyLock<Value> = LazyLock::new(Value::default);
    json.map_or(&NOTHING, |it| it.tree())
}

async fn convert(
    context: &Context<'_>,
    own: Arc<Json>,
    invocation: &Invocation,
) -> Result<Arc<Json>, ApiError> {
    let request = &context.request;
    if request.has_own_kind() || request.operation == Operation::Connect {
        return Ok(own);
    }
    let api_version = invocation.kind.api_version();
    let converted = request.versions.convert(own.bytes().clone(), &api_version).await?;
    let is_same =
        converted.as_ptr() == own.bytes().as_ptr() && converted.len() == own.bytes().len();
    Ok(if is_same { own } else { Arc::new(Json::new(converted)) })
}

/// Options have none, whatever their form here.
fn without_metadata(options: &Arc<Json>) -> Arc<Json> {
    let is_empty = |it: &Value| it.as_object().is_some_and(|it| it.is_empty());
    if !options.tree().get("metadata").is_some_and(is_empty) {
        return options.clone();
    }
    let mut options = options.tree().clone();
    if let Some(fields) = options.as_object_mut() {
        fields.remove("metadata");
    }
    Arc::new(Json::new(options.to_string().into_bytes().into()))
}
