//! Types of expressions from schemas. Objects are named by their path from the rule's `self`.

use std::sync::Arc;

use ::cel::{Type, TypeProvider};

use super::{Form, Node};

/// No expression can write this name, so that nobody depends on it.
const SELF: &str = "selfType";

/// The objects that a rule can reach.
#[derive(Debug)]
pub struct Scope {
    root: Arc<Node>,
}

impl Scope {
    pub fn new(root: Arc<Node>) -> Self {
        Self { root }
    }

    /// The type of `self`.
    pub fn root_type(&self) -> Type {
        type_of(&self.root, SELF)
    }

    fn find(&self, type_name: &str) -> Option<&Arc<Node>> {
        let mut parts = type_name.split('.');
        parts.next().filter(|it| *it == SELF)?;
        parts.try_fold(&self.root, |node, part| match part {
            "@idx" | "@elem" => node.element(),
            field => node.field(field),
        })
    }
}

fn type_of(node: &Node, name: &str) -> Type {
    match &node.form {
        Form::Object(_) => Type::object(name),
        Form::Map(value) => Type::map(Type::String, type_of(value, &format!("{name}.@elem"))),
        Form::List { item, .. } => Type::list(type_of(item, &format!("{name}.@idx"))),
        Form::Text => Type::String,
        Form::Bytes => Type::Bytes,
        Form::Duration => Type::Duration,
        Form::Date | Form::DateTime => Type::Timestamp,
        Form::Integer => Type::Int,
        Form::Number => Type::Double,
        Form::Boolean => Type::Bool,
        Form::IntOrString | Form::Unknown => Type::Dyn,
    }
}

impl TypeProvider for Scope {
    /// Objects of these types are not made by expressions.
    fn find_type(&self, _name: &str) -> Option<Type> {
        None
    }

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type> {
        let node = self.find(type_name)?.field(field)?;
        Some(type_of(node, &format!("{type_name}.{field}")))
    }
}
