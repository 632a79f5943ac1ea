//! How large values can be, for the estimate of what rules cost.

use ::cel::{Operand, SizeEstimate, Sizer};

use super::{Form, Node, names};

/// What a request may have at most; no value in it is larger.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// A bound that the schema does not have, to see what it would do: where, from the rule's `self`,
/// and how much.
#[derive(Clone, Debug)]
pub struct Bound {
    pub path: Vec<String>,
    pub most: u64,
}

/// Sizes below one schema.
#[derive(Debug)]
pub struct Sizes<'n> {
    pub root: &'n Node,
    pub bounds: &'n [Bound],
}

impl Sizes<'_> {
    fn most(&self, path: &[&str]) -> Option<u64> {
        let mut node = self.root;
        for part in path {
            node = match *part {
                "@items" | "@values" => node.element()?,
                // Upstream knows no size of keys.
                "@keys" => return matches!(node.form, Form::Map(_)).then_some(0),
                field => node.field(field).filter(|_| !names::is_reserved(field))?,
            };
        }
        let is_here = |it: &&Bound| it.path.iter().map(String::as_str).eq(path.iter().copied());
        Some(self.bounds.iter().find(is_here).map_or(node.most, |it| it.most))
    }
}

impl Sizer for Sizes<'_> {
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate> {
        let (_, path) = operand.path.split_first()?;
        let path: Vec<&str> = path.iter().map(|it| &**it).collect();
        self.most(&path).map(|most| SizeEstimate::new(0, most))
    }
}

impl Node {
    /// How many of it there can be in one request, if nothing else bounds them.
    pub fn repeats_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.least + 1)
    }
}
