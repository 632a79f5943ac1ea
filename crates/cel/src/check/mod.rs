//! Types of all nodes, and which overloads calls mean. Nodes that turn out to be qualified names are
//! rewritten to what they are.

mod checker;
mod literals;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use checker::check;

use crate::cost::CostEstimate;
use crate::env::{Env, Overload};
use crate::estimate::{self, Sizer};
use crate::eval::{self, Program};
use crate::syntax::{Expr, ExprId};
use crate::types::Type;
use crate::value::Value;

/// What a node refers to.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    /// A variable, by its full name; or a name that stands for a value.
    Name { constant: Option<Value<'static>> },
    /// The overloads that fit.
    Function(Vec<Arc<Overload>>),
}

/// An expression that is valid in its environment.
#[derive(Debug, Clone)]
pub struct Checked {
    pub(crate) text: Arc<str>,
    pub(crate) root: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Option<Reference>>,
    pub(crate) env: Env,
}

impl Checked {
    pub fn output_type(&self) -> &Type {
        self.type_of(self.root.id)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tree, with macros expanded and names resolved.
    pub fn expr(&self) -> &Expr {
        &self.root
    }

    pub fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn overloads(&self, id: ExprId) -> &[Arc<Overload>] {
        match self.references.get(id) {
            Some(Some(Reference::Function(overloads))) => overloads,
            _ => &[],
        }
    }

    /// Whether the variable or one of its fields is mentioned.
    pub fn mentions(&self, variable: &str) -> bool {
        let mut found = false;
        self.root.walk(&mut |expr| {
            if let crate::syntax::Kind::Ident(name) = &expr.kind {
                found |= &**name == variable;
            }
        });
        found
    }

    /// The least and the most that evaluating it can cost.
    pub fn estimate(&self, sizer: &dyn Sizer) -> CostEstimate {
        estimate::estimate(self, sizer)
    }

    /// The program to evaluate, with constants folded. It fails if a constant has no value, such as
    /// `int('x')`.
    pub fn program(&self) -> Result<Program, crate::Error> {
        eval::plan(self, eval::Folding::On)
    }

    /// The program without folding: constants cost what they cost when they are computed.
    pub fn program_unfolded(&self) -> Result<Program, crate::Error> {
        eval::plan(self, eval::Folding::Off)
    }
}
