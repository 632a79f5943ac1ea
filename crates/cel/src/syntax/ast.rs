//! The tree of an expression. Operators are calls with cel-go's names (`_+_`), macros are gone.

use std::sync::Arc;

/// Number of a node in its tree: the index of what the checker and the estimator know about it.
pub type ExprId = usize;

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub id: ExprId,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Literal(Literal),
    Ident(Arc<str>),
    /// `operand.field`, or `has(operand.field)` with `test`.
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        test: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Expr>,
        /// Indices of the elements written `?e`.
        optional: Vec<usize>,
    },
    Map(Vec<Entry>),
    Struct {
        name: Arc<str>,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub id: ExprId,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A fold: `accumulator = init; for variables in range { if !condition break; accumulator = step }`,
/// and then `result`. With an empty literal range it binds `accumulator` in `result`.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The second variable: values of a map, elements of a list; the first is then key or index.
    pub variable2: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Comprehension {
    /// Whether this is no loop but gives a name to a value.
    pub fn is_binding(&self) -> bool {
        matches!(&self.range.kind, Kind::List { elements, .. } if elements.is_empty())
            && self.condition.kind == Kind::Literal(Literal::Bool(false))
    }
}

impl Expr {
    /// `a.b.c` as one name, if it is made of names alone.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field, test: false } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Calls `visit` with this node and all below it, parents first.
    pub fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Self)) {
        visit(self);
        self.for_each_child(&mut |child| child.walk(visit));
    }

    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Self)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => visit(operand),
            Kind::Call { target, args, .. } => {
                target.iter().for_each(|it| visit(it));
                args.iter().for_each(visit);
            }
            Kind::List { elements, .. } => elements.iter().for_each(visit),
            Kind::Map(entries) => entries.iter().for_each(|it| {
                visit(&it.key);
                visit(&it.value);
            }),
            Kind::Struct { fields, .. } => fields.iter().for_each(|it| visit(&it.value)),
            Kind::Comprehension(fold) => {
                let parts = [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result];
                parts.into_iter().for_each(visit);
            }
        }
    }
}
