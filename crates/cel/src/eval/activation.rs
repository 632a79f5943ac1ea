//! Where variables come from.

use crate::value::Value;

/// Values of variables, by name.
pub trait Activation<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>>;
}

/// A few variables.
#[derive(Debug, Clone, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Bindings<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.values.push((name, value));
        self
    }
}

impl<'a> Activation<'a> for Bindings<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        let found = self.values.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }
}
