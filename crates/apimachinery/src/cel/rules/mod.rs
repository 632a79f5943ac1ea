//! Validation rules of custom resources (`x-kubernetes-validations`): compiled with the types of
//! their schema (`compile`), judged when a definition is written (`definition`), evaluated on
//! objects (`evaluate`).

mod compile;
mod definition;
mod evaluate;
mod hint;
mod laps;
mod path;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::schema::{Schema, SchemaRef};

pub use definition::{Costs, validate_definition};
pub use evaluate::{Before, Outcome, Rules};
pub use laps::Laps;
pub use path::{FieldPath, find_field};

/// A rule as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    rule: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: Option<bool>,
}

impl Rule {
    fn read(source: &Value) -> Self {
        let optional = |name: &str| source.get(name).and_then(Value::as_str).map(str::to_owned);
        let text = |name: &str| optional(name).unwrap_or_default();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: optional("reason"),
            field_path: text("fieldPath"),
            optional_old_self: source.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// The rules of one schema.
    fn all_of(schema: &Schema) -> Vec<Self> {
        let all = schema.checks.as_deref().and_then(|it| it.get("x-kubernetes-validations"));
        all.and_then(Value::as_array).into_iter().flatten().map(Self::read).collect()
    }

    /// How texts speak of it.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    /// What is said if there is no better message.
    fn default_message(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.shown()),
            false => self.shown().to_owned(),
        }
    }
}

/// The fields of a schema as the author has them: metadata of whole objects is theirs only as far
/// as they speak of it.
fn own_fields(schema: &Schema) -> impl Iterator<Item = (&str, &SchemaRef)> {
    let is_given = |name: &str| schema.has_given_metadata && name == "metadata";
    let named = schema.properties.iter().map(|(name, it)| (name.as_str(), it));
    let metadata = schema.own_metadata.iter().map(|it| ("metadata", it));
    named.filter(move |(name, _)| !is_given(name)).chain(metadata)
}

/// The type that the schema names.
fn type_text(schema: &Schema) -> &'static str {
    use crate::schema::Type;
    match schema.kind {
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::Any | Type::IntOrString => "",
    }
}
