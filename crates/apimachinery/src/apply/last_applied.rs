//! What client-side apply leaves behind: the configuration that it applied last, in an annotation.
//! Server-side apply by kubectl takes over the fields in it, and keeps the annotation up to date
//! for those who go back. Whoever wants neither names another field manager.

use serde_json::{Map, Value};

use super::compare::{self, Comparison, Mode};
use super::{FieldSet, Writer};
use crate::bounds;
use crate::schema::SchemaRef;
use crate::validation::ANNOTATIONS_SIZE_MAX;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGER: &str = "kubectl";

/// The fields that client-side apply wrote last and that are still as it wrote them: nobody else
/// can mind when they change.
pub(super) fn fields_to_take_over(
    schema: &SchemaRef,
    live: Option<&Value>,
    writer: &Writer<'_>,
) -> FieldSet {
    let config = live.filter(|_| writer.manager == MANAGER).and_then(configuration);
    let (Some(live), Some(config)) = (live, config) else {
        return FieldSet::default();
    };
    if config.get("apiVersion").and_then(Value::as_str) != Some(writer.api_version) {
        return FieldSet::default();
    }
    let mut fields = compare::field_set(schema, &config, Mode::Applied);
    let Comparison { changed, removed } = compare::compare(schema, Some(&config), live);
    fields.subtract(&changed);
    fields.subtract(&removed);
    fields
}

fn configuration(object: &Value) -> Option<Value> {
    let text = annotations(object)?.get(ANNOTATION)?.as_str()?;
    bounds::validate_object_text(text.as_bytes()).ok()?;
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}

/// Writes `config` into the annotation, where there is one. One that would be too large is removed.
pub(super) fn update(object: &mut Value, config: &Value, writer: &Writer<'_>) {
    let has_text =
        |it: &Map<String, Value>| it.get(ANNOTATION).is_some_and(|it| it.as_str() != Some(""));
    if writer.manager != MANAGER || !annotations(object).is_some_and(has_text) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(of_config)) = config.pointer_mut("/metadata/annotations") {
        of_config.remove(ANNOTATION);
    }
    let Some(Value::Object(all)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    all.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if all.iter().map(size).sum::<usize>() > ANNOTATIONS_SIZE_MAX {
        all.remove(ANNOTATION);
    }
}
