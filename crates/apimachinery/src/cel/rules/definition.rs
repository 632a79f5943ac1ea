//! What a definition may have as rules: texts that say something, expressions that compile, and a
//! cost that is bearable even in the worst case.

use std::sync::Arc;

use super::compile::{Compiled, Compiler, Expression};
use super::hint::{Above, hint};
use super::path::find_field;
use super::{Rule, own_fields};
use crate::cel::schema::{Node, Role};
use crate::field::{Cause, FieldErrors, Path};
use crate::schema::{ListType, Schema, SchemaRef, Type};

/// Of one rule or message expression.
const EXPRESSION_COST_MAX: u64 = 10_000_000;
/// Of all of one version.
const TOTAL_COST_MAX: u64 = 100_000_000;
/// How many of the dearest are named.
const DEAREST_MAX: usize = 4;
const REASONS: &[&str] =
    &["FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate"];

/// Whether single rules are judged by what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    Judged,
    /// The schema is as it was, and was accepted.
    Accepted,
}

/// Checks every rule of a schema. Rules are compiled only where the schema itself is `sound`.
pub fn validate_definition(
    schema: &SchemaRef,
    path: &Path,
    (is_sound, costs): (bool, Costs),
    errors: &mut FieldErrors,
) {
    let mut walk = Walk {
        is_sound,
        costs,
        schema_errors: FieldErrors::new(),
        errors: FieldErrors::new(),
        total: 0,
        dearest: Vec::new(),
    };
    let node = is_sound.then(|| Node::new(schema, Role::Resource));
    let place = Place { path, uncorrelated: None, above: &Above::ROOT };
    walk.visit(schema, node.as_ref(), &place);
    errors.extend(walk.schema_errors);
    errors.extend(walk.errors);
    if walk.total > TOTAL_COST_MAX {
        for (path, _) in walk.dearest {
            errors.forbidden(
                &path,
                "contributed to estimated rule cost total exceeding cost limit for entire \
                 OpenAPIv3 schema",
            );
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, &exceeds(what, walk.total, TOTAL_COST_MAX));
    }
}

/// Where in the schema the walk is.
struct Place<'p> {
    path: &'p Path,
    /// The highest schema above whose parts have no known past.
    uncorrelated: Option<&'p Path>,
    above: &'p Above<'p>,
}

struct Walk {
    is_sound: bool,
    costs: Costs,
    schema_errors: FieldErrors,
    errors: FieldErrors,
    total: u64,
    dearest: Vec<(Path, u64)>,
}

impl Walk {
    fn visit(&mut self, schema: &SchemaRef, node: Option<&Arc<Node>>, place: &Place<'_>) {
        let n_before = self.schema_errors.iter().count();
        let above = place.above;
        if let Some(values) = &schema.additional {
            let path = place.path.child("additionalProperties");
            let above = above.entries(schema, "@values");
            let below = Place { path: &path, above: &above, ..*place };
            self.visit(values, node.and_then(|it| it.element()), &below);
        }
        for (name, field) in own_fields(schema) {
            let path = place.path.child("properties").key(name);
            let above = above.field(schema, name);
            let below = Place { path: &path, above: &above, ..*place };
            self.visit(field, node.and_then(|it| it.named(name)), &below);
        }
        if let Some(items) = &schema.items {
            let is_keyed = matches!(schema.list_type, ListType::Map { .. });
            let uncorrelated = place.uncorrelated.or_else(|| (!is_keyed).then_some(place.path));
            let path = place.path.child("items");
            let above = above.entries(schema, "@items");
            let below = Place { path: &path, uncorrelated, above: &above };
            self.visit(items, node.and_then(|it| it.element()), &below);
        }
        let rules = Rule::all_of(schema);
        if rules.is_empty() {
            return;
        }
        let own = place.path.child("x-kubernetes-validations");
        for (index, rule) in rules.iter().enumerate() {
            validate_texts(rule, schema, &own.index(index), &mut self.schema_errors);
        }
        if self.is_sound && self.schema_errors.iter().count() == n_before {
            self.compile(&rules, schema, node, place);
        }
    }

    fn compile(
        &mut self,
        rules: &[Rule],
        schema: &SchemaRef,
        node: Option<&Arc<Node>>,
        place: &Place<'_>,
    ) {
        let own = place.path.child("x-kubernetes-validations");
        let alone = || Node::new(schema, Role::of(schema));
        let node = node.filter(|it| it.is_visible).cloned().unwrap_or_else(alone);
        if !node.is_visible {
            let detail = "internal error: failed to construct type information for \
                          x-kubernetes-validations rules: unable to convert structural schema to \
                          CEL declarations";
            self.errors.internal(&own, detail);
            return;
        }
        let compiler = Compiler::new(&node);
        for (index, rule) in rules.iter().enumerate() {
            let compiled = compiler.compile(rule, schema);
            let path = own.index(index);
            self.judge_rule(rule, &compiled, &node, place, &path);
            self.judge_message(rule, &compiled, &node, &path);
            self.judge_past(rule, &compiled, place, &path);
        }
    }

    fn judge_rule(
        &mut self,
        rule: &Rule,
        compiled: &Compiled,
        node: &Node,
        place: &Place<'_>,
        path: &Path,
    ) {
        let path = path.child("rule");
        let expression = match &compiled.rule {
            Some(Ok(expression)) => expression,
            Some(Err(why)) => return self.refuse(&path, rule, why),
            None => return,
        };
        let repeats = |above: &Above<'_>| above.repeats(&[]).unwrap_or_else(|| node.repeats_max());
        let cost = expression.cost_max().saturating_mul(repeats(place.above));
        if self.costs == Costs::Judged && cost > EXPRESSION_COST_MAX {
            let mut text = exceeds("estimated rule cost", cost, EXPRESSION_COST_MAX);
            text.push_str(&hint(expression, node, place.above, EXPRESSION_COST_MAX));
            self.errors.forbidden(&path, &text);
        }
        self.observe(path, cost);
    }

    fn judge_message(&mut self, rule: &Rule, compiled: &Compiled, node: &Node, path: &Path) {
        let path = path.child("messageExpression");
        let expression: &Expression = match &compiled.message {
            Some(Ok(expression)) => expression,
            Some(Err(why)) => return self.refuse(&path, rule, why),
            None => return,
        };
        let cost = expression.cost_max();
        if self.costs == Costs::Judged && cost > EXPRESSION_COST_MAX {
            let mut text = exceeds("estimated messageExpression cost", cost, EXPRESSION_COST_MAX);
            text.push_str(&hint(expression, node, &Above::ROOT, EXPRESSION_COST_MAX));
            self.errors.forbidden(&path, &text);
        }
        self.observe(path, cost);
    }

    fn refuse(&mut self, path: &Path, rule: &Rule, why: &str) {
        let message = format!("Invalid value: {}: {why}", rule.shown_by_go());
        self.errors.push(path, Cause::Invalid, message);
    }

    /// `oldSelf` needs a past.
    fn judge_past(&mut self, rule: &Rule, compiled: &Compiled, place: &Place<'_>, path: &Path) {
        if compiled.uses_old_self {
            if let Some(within) = place.uncorrelated {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {within}"
                );
                self.errors.invalid(&path.child("rule"), rule.rule.as_str(), &detail);
            }
        } else if let Some(is_optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(&path.child("optionalOldSelf"), is_optional, detail);
        }
    }

    fn observe(&mut self, path: Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_COST_MAX / 100 {
            self.dearest.push((path, cost));
            self.dearest.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.dearest.truncate(DEAREST_MAX);
        }
    }
}

fn validate_texts(rule: &Rule, schema: &Schema, path: &Path, errors: &mut FieldErrors) {
    let has_line_breaks = |it: &str| it.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    let message_path = path.child("message");
    if text.is_empty() {
        errors.required(&path.child("rule"), "rule is not specified");
    } else if !rule.message.is_empty() && message.is_empty() {
        let detail = "must be non-empty if specified";
        errors.invalid(&message_path, rule.message.as_str(), detail);
    } else if has_line_breaks(message) {
        errors.invalid(&message_path, rule.message.as_str(), "must not contain line breaks");
    } else if has_line_breaks(text) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.required(&message_path, detail);
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.required(&path.child("messageExpression"), detail);
    }
    if let Some(reason) = rule.reason.as_deref().filter(|it| !REASONS.contains(it)) {
        errors.not_supported(&path.child("reason"), reason, REASONS);
    }
    let path = path.child("fieldPath");
    let field_path = rule.field_path.as_str();
    if !field_path.is_empty() && field_path.trim().is_empty() {
        errors.invalid(&path, field_path, "must be non-empty if specified");
    }
    if has_line_breaks(field_path) {
        errors.invalid(&path, field_path, "must not contain line breaks");
    }
    if !field_path.is_empty() && find_field(field_path, schema).is_err() {
        errors.invalid(&path, field_path, "must be a valid path");
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "upstream's factor is this precise")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        it if it > 100.0 => "more than 100x".to_owned(),
        it if it < 1.5 => format!("{it:.6}x"),
        it => format!("{it:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// By how much a schema multiplies what is below it; `None` if nobody knows.
pub(super) fn multiplies(schema: &Schema) -> Option<u64> {
    match schema.kind {
        Type::Object if schema.additional.is_some() => {
            crate::cel::schema::limit(schema, "maxProperties")
        }
        Type::Array => crate::cel::schema::limit(schema, "maxItems"),
        _ => Some(1),
    }
}

impl Rule {
    /// As upstream prints it: the struct in Go, as JSON.
    fn shown_by_go(&self) -> String {
        let text = |it: &str| {
            let quoted = serde_json::Value::from(it).to_string();
            quoted.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
        };
        let optional = |it: Option<String>| it.unwrap_or_else(|| "null".to_owned());
        format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
            text(&self.rule),
            text(&self.message),
            text(&self.message_expression),
            optional(self.reason.as_deref().map(text)),
            text(&self.field_path),
            optional(self.optional_old_self.map(|it| it.to_string())),
        )
    }
}
