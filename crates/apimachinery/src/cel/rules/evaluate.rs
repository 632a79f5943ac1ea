//! Rules on objects: root first, then what is below, within one budget.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::cel::{Bindings, Error, Value as CelValue, from_json};
use serde_json::Value;

use super::compile::{Compiled, Compiler, Expression};
use super::{Laps, Rule, own_fields, type_text};
use crate::cel::EVALUATION_BUDGET;
use crate::cel::schema::{Node, Role};
use crate::field::{FieldErrors, Path};
use crate::schema::{Keyed, ListType, Ratchet, Schema, SchemaRef};

/// Bytes of a message that an expression made.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a schema and of all below it, compiled.
#[derive(Debug)]
pub struct Rules {
    own: Vec<(Rule, Compiled)>,
    /// `None` if expressions cannot see what the rules are about.
    node: Option<Arc<Node>>,
    type_text: &'static str,
    list_type: ListType,
    fields: BTreeMap<String, Self>,
    /// Of elements or values.
    element: Option<Box<Self>>,
}

/// What an object was before, if it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'r, 'a> {
    pub value: Option<&'a Value>,
    pub ratchet: Ratchet<'r, 'a>,
}

/// What is left of the budget; nothing if that ended the evaluation.
pub type Outcome = Option<u64>;

impl Rules {
    /// `None` if there are none.
    pub fn new(schema: &SchemaRef, role: Role) -> Option<Self> {
        Self::timed(schema, role, &())
    }

    pub fn timed(schema: &SchemaRef, role: Role, laps: &dyn Laps) -> Option<Self> {
        has_rules(schema).then(|| build(schema, Some(&Node::new(schema, role)), laps))
    }

    /// Evaluates all rules on a value. Problems that are no news become warnings.
    pub fn evaluate<'a>(
        &'a self,
        value: &'a Value,
        before: Before<'_, 'a>,
        path: &Path,
        budget: u64,
        errors: &mut FieldErrors,
    ) -> Outcome {
        self.evaluate_timed(value, before, path, (budget, &()), errors)
    }

    pub fn evaluate_timed<'a>(
        &'a self,
        value: &'a Value,
        before: Before<'_, 'a>,
        path: &Path,
        (budget, laps): (u64, &dyn Laps),
        errors: &mut FieldErrors,
    ) -> Outcome {
        let begin = laps.begin();
        let outcome = self.evaluate_all(value, before, path, (budget, laps), errors);
        laps.end(begin);
        outcome
    }

    fn evaluate_all<'a>(
        &'a self,
        value: &'a Value,
        before: Before<'_, 'a>,
        path: &Path,
        (budget, laps): (u64, &dyn Laps),
        errors: &mut FieldErrors,
    ) -> Outcome {
        if value.is_null() {
            return Some(budget);
        }
        let old = before.value.filter(|it| !it.is_null());
        let mut turn = Turn { rules: self, value, old, ratchet: before.ratchet, path, errors };
        let mut left = turn.evaluate_own(budget)?;
        match value {
            Value::Array(items) => {
                let Some(element) = &self.element else { return Some(left) };
                let old_items = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let old_items = Keyed::new(old_items, &self.list_type);
                for (index, item) in items.iter().enumerate() {
                    let child = before.ratchet.index(index);
                    let ratchet = before.ratchet.below(child.as_ref());
                    let before = Before { value: old_items.find(item), ratchet };
                    let (path, within) = (path.index(index), (left, laps));
                    left = element.evaluate_timed(item, before, &path, within, errors)?;
                }
            }
            Value::Object(entries) => {
                let old = old.and_then(Value::as_object);
                for (name, value) in entries {
                    let (rules, path) = match (&self.element, self.fields.get(name)) {
                        (Some(rules), _) => (&**rules, path.key(name)),
                        (None, Some(rules)) => (rules, path.child(name)),
                        (None, None) => continue,
                    };
                    let child = before.ratchet.key(name);
                    let ratchet = before.ratchet.below(child.as_ref());
                    let before = Before { value: old.and_then(|it| it.get(name)), ratchet };
                    left = rules.evaluate_timed(value, before, &path, (left, laps), errors)?;
                }
            }
            _ => {}
        }
        Some(left)
    }
}

fn has_rules(schema: &Schema) -> bool {
    !Rule::all_of(schema).is_empty()
        || own_fields(schema).any(|(_, it)| has_rules(it))
        || schema.items.iter().chain(&schema.additional).any(|it| has_rules(it))
}

fn build(schema: &SchemaRef, node: Option<&Arc<Node>>, laps: &dyn Laps) -> Rules {
    let node = node.filter(|it| it.is_visible);
    let begin = laps.begin();
    let rules = Rule::all_of(schema);
    let own = match node.filter(|_| !rules.is_empty()) {
        None => rules.into_iter().map(|it| (it, Compiled::none())).collect(),
        Some(node) => {
            let compiler = Compiler::new(node);
            let compiled = rules.into_iter().map(|it| {
                let compiled = compiler.compile(&it, schema);
                (it, compiled)
            });
            compiled.collect()
        }
    };
    laps.end(begin);
    let fields = own_fields(schema).filter(|(_, it)| has_rules(it)).filter_map(|(name, it)| {
        // Fields that expressions cannot write are judged on their own.
        let field = node?.named(name).cloned();
        let field = field.unwrap_or_else(|| Node::new(it, Role::of(it)));
        field.is_visible.then(|| (name.to_owned(), build(it, Some(&field), laps)))
    });
    let fields = fields.collect();
    let element = schema.items.as_ref().or(schema.additional.as_ref());
    let element = element.filter(|it| has_rules(it));
    Rules {
        own,
        fields,
        element: element.map(|it| Box::new(build(it, node.and_then(|it| it.element()), laps))),
        node: node.cloned(),
        type_text: type_text(schema),
        list_type: schema.list_type.clone(),
    }
}

/// The rules of one schema on one value.
struct Turn<'t, 'r, 'a> {
    rules: &'a Rules,
    value: &'a Value,
    old: Option<&'a Value>,
    ratchet: Ratchet<'r, 'a>,
    path: &'t Path,
    errors: &'t mut FieldErrors,
}

impl<'a> Turn<'_, '_, 'a> {
    fn evaluate_own(&mut self, budget: u64) -> Outcome {
        let rules = self.rules;
        if rules.own.is_empty() {
            return Some(budget);
        }
        let Some(node) = &rules.node else {
            self.refuse("rule compiler initialization error: failed to convert to declType for CEL validation rules");
            return Some(budget);
        };
        if budget == 0 {
            self.refuse(&format!("validation {OUT_OF_BUDGET}"));
            return None;
        }
        let shape: &'a Node = node;
        let value = from_json(self.value, shape);
        let old = self.old.map(|it| from_json(it, shape)).transpose();
        let mut left = budget;
        for (rule, compiled) in &rules.own {
            let expression = match &compiled.rule {
                Some(Ok(expression)) => expression,
                Some(Err(why)) => {
                    self.refuse(&format!("rule compile error: {why}"));
                    continue;
                }
                None => continue,
            };
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.uses_old_self && self.old.is_none() && !is_optional {
                continue;
            }
            let (value, old) = match (&value, &old) {
                (Ok(value), Ok(old)) => (value.clone(), old.clone()),
                (Err(err), _) | (_, Err(err)) => {
                    self.refuse(&format!("{err} evaluating rule: {}", rule.shown()));
                    continue;
                }
            };
            let variables = Bindings::new().with("self", value);
            let variables = match (is_optional, old) {
                (true, old) => {
                    variables.with("oldSelf", old.map_or(CelValue::NONE, CelValue::some))
                }
                (false, Some(old)) => variables.with("oldSelf", old),
                (false, None) => variables,
            };
            left = self.evaluate_rule(rule, compiled, (expression, &variables), left)?;
        }
        Some(left)
    }

    fn evaluate_rule(
        &mut self,
        rule: &Rule,
        compiled: &'a Compiled,
        (expression, variables): (&'a Expression, &Bindings<'a>),
        left: u64,
    ) -> Outcome {
        let evaluated = expression.program.evaluate(variables, EVALUATION_BUDGET);
        let Some(left) = left.checked_sub(evaluated.cost) else {
            self.refuse(&format!("validation {OUT_OF_BUDGET}"));
            return None;
        };
        let shown = rule.shown();
        match evaluated.result {
            Ok(verdict) if verdict.as_bool() == Some(true) => Some(left),
            Ok(_) => self.report(rule, compiled, variables, left),
            Err(err @ (Error::NoSuchOverload | Error::NoSuchOverloadFor(_))) => {
                self.refuse(&format!(
                    "'{err}': call arguments did not match a supported operator, function or macro \
                     signature for rule: {shown}"
                ));
                Some(left)
            }
            Err(err @ Error::CostExceeded) => {
                self.refuse(&format!(
                    "'{err}': no further validation rules will be run due to call cost exceeds \
                     limit for rule: {shown}"
                ));
                None
            }
            Err(err) => {
                self.refuse(&format!("{err} evaluating rule: {shown}"));
                Some(left)
            }
        }
    }

    /// What an expression could not be evaluated on is named by its type alone.
    fn refuse(&mut self, detail: &str) {
        self.errors.invalid(self.path, self.rules.type_text, detail);
    }

    /// The rule is broken.
    fn report(
        &mut self,
        rule: &Rule,
        compiled: &'a Compiled,
        variables: &Bindings<'a>,
        left: u64,
    ) -> Outcome {
        let path = match compiled.blamed.as_str() {
            "" => self.path.clone(),
            blamed => self.path.child(blamed),
        };
        let mut found = FieldErrors::new();
        let mut left = Some(left);
        let mut message = None;
        if let (Some(Ok(expression)), Some(budget)) = (&compiled.message, left) {
            match message_of(expression, &rule.message_expression, variables, budget) {
                Ok((text, rest)) => {
                    message = text;
                    left = Some(rest);
                }
                Err(why) => {
                    found.invalid(&path, self.rules.type_text, &why);
                    left = None;
                }
            }
        }
        if left.is_some() {
            let message = message.unwrap_or_else(|| rule.default_message());
            self.name(rule, &path, &message, &mut found);
        }
        if !compiled.uses_old_self && self.ratchet.is_same() {
            found.iter().for_each(|it| self.errors.warn(it.to_string()));
        } else {
            self.errors.extend(found);
        }
        left
    }

    fn name(&self, rule: &Rule, path: &Path, message: &str, errors: &mut FieldErrors) {
        let is_shown = !["object", "array"].contains(&self.rules.type_text);
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => errors.forbidden(path, message),
            Some("FieldValueRequired") => errors.required(path, message),
            Some("FieldValueDuplicate") if is_shown => {
                errors.duplicate(path, self.value.clone());
            }
            Some("FieldValueDuplicate") => errors.duplicate_unshown(path),
            _ if is_shown => errors.invalid(path, self.value.clone(), message),
            _ => errors.invalid_unshown(path, message),
        }
    }
}

impl Compiled {
    fn none() -> Self {
        Self { rule: None, uses_old_self: false, message: None, blamed: String::new() }
    }
}

/// The message, if the expression gives a fit one, and what is left of the budget; or what ends the
/// evaluation.
fn message_of<'a>(
    expression: &'a Expression,
    text: &str,
    variables: &Bindings<'a>,
    budget: u64,
) -> Result<(Option<String>, u64), String> {
    let evaluated = expression.program.evaluate(variables, EVALUATION_BUDGET);
    let Some(left) = budget.checked_sub(evaluated.cost) else {
        return Err(format!("messageExpression evaluation {OUT_OF_BUDGET}"));
    };
    match evaluated.result {
        Err(Error::CostExceeded) => Err(format!(
            "no further validation rules will be run due to call cost exceeds limit for \
             messageExpression: {text:?}"
        )),
        Err(_) => Ok((None, left)),
        Ok(value) => {
            let message = value.as_str().map(str::trim).unwrap_or_default();
            let is_fit = !message.is_empty()
                && message.len() <= MESSAGE_BYTES_MAX
                && !message.contains('\n');
            Ok((is_fit.then(|| message.to_owned()), left))
        }
    }
}
