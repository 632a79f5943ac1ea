//! From the text of a rule to a program. What is wrong with it is told in upstream's words.

use std::sync::Arc;

use ::cel::{Checked, Program, Type};

use super::Rule;
use super::path::find_field;
use crate::cel::schema::{Bound, Node, Scope, Sizes};
use crate::schema::Schema;

/// An expression that was compiled, with the means to say what it costs at most.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) program: Program,
    checked: Checked,
    node: Arc<Node>,
}

impl Expression {
    pub(super) fn cost_max(&self) -> u64 {
        self.cost_with(&[])
    }

    /// The same, had the schema these bounds.
    pub(super) fn cost_with(&self, bounds: &[Bound]) -> u64 {
        self.checked.estimate(&Sizes { root: &self.node, bounds }).max
    }
}

/// A rule as far as it could be compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    /// `None` if the rule is empty.
    pub(super) rule: Option<Result<Expression, String>>,
    pub(super) uses_old_self: bool,
    /// `None` if there is none, or no rule.
    pub(super) message: Option<Result<Expression, String>>,
    /// The field to blame, from the rule's own.
    pub(super) blamed: String,
}

/// Environments of one schema: `oldSelf` is a value, or an optional one.
pub(super) struct Compiler {
    node: Arc<Node>,
    plain: ::cel::Env,
    optional: ::cel::Env,
}

impl Compiler {
    pub(super) fn new(node: &Arc<Node>) -> Self {
        let scope = Scope::new(node.clone());
        let of_self = scope.root_type();
        let env = crate::cel::environment().provider(Arc::new(scope));
        let env = env.variable("self", of_self.clone());
        Self {
            node: node.clone(),
            plain: env.variable("oldSelf", of_self.clone()),
            optional: env.variable("oldSelf", Type::optional(of_self)),
        }
    }

    pub(super) fn compile(&self, rule: &Rule, schema: &Schema) -> Compiled {
        let mut compiled =
            Compiled { rule: None, uses_old_self: false, message: None, blamed: String::new() };
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let env = if rule.optional_old_self == Some(true) { &self.optional } else { &self.plain };
        let expression = self.compile_rule(env, &rule.rule);
        if let Ok(it) = &expression {
            compiled.uses_old_self = it.checked.mentions("oldSelf");
            let text = rule.message_expression.as_str();
            compiled.message = (!text.is_empty()).then(|| self.compile_message(env, text));
        }
        compiled.rule = Some(expression);
        if !rule.field_path.is_empty()
            && let Ok(found) = find_field(&rule.field_path, schema)
        {
            compiled.blamed = found.path;
        }
        compiled
    }

    fn compile_rule(&self, env: &::cel::Env, text: &str) -> Result<Expression, String> {
        let checked = env.compile(text).map_err(|it| format!("compilation failed: {it}"))?;
        if *checked.output_type() != Type::Bool {
            return Err("cel expression must evaluate to a bool".to_owned());
        }
        let program =
            checked.program().map_err(|err| format!("program instantiation failed: {err}"))?;
        Ok(Expression { program, checked, node: self.node.clone() })
    }

    fn compile_message(&self, env: &::cel::Env, text: &str) -> Result<Expression, String> {
        let compiled = env.compile(text);
        let checked =
            compiled.map_err(|it| format!("messageExpression compilation failed: {it}"))?;
        if *checked.output_type() != Type::String {
            return Err("messageExpression must evaluate to a string".to_owned());
        }
        let program = checked
            .program()
            .map_err(|err| format!("messageExpression instantiation failed: {err}"))?;
        Ok(Expression { program, checked, node: self.node.clone() })
    }
}
