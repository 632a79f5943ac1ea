//! From text to a tree: source positions, tokens, the grammar, and the macros, which are gone after
//! this stage.

mod ast;
mod lexer;
mod literal;
mod macros;
mod parser;
mod source;

#[cfg(test)]
mod tests;

pub use ast::{Comprehension, Entry, Expr, ExprId, Field, Kind, Literal};
pub(crate) use macros::Macro;
pub use parser::is_reserved;
pub(crate) use parser::{Parsed, parse};
pub(crate) use source::Report;
pub use source::{Issue, Issues, Position};
