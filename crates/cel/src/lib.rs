//! The Common Expression Language, as cel-go 0.26 speaks it and Kubernetes uses it: parsed, type
//! checked, its cost estimated before and counted while it is evaluated. It knows no Kubernetes; what
//! it promises is that types, values, error texts and above all costs are upstream's
//! ([ADR 26](../../../docs/adr/0026-cel-by-hand.md)).
//!
//! ```
//! use cel::{AnySize, Bindings, Env, Type, UNTYPED, from_json};
//!
//! let env = Env::extended().variable("self", Type::map(Type::String, Type::Int));
//! let checked = env.compile("self.min <= self.max").unwrap();
//! assert_eq!(*checked.output_type(), Type::Bool);
//! assert_eq!(checked.estimate(&AnySize).max, 5);
//!
//! let program = checked.program().unwrap();
//! let json = serde_json::json!({"min": 1, "max": 3});
//! let variables = Bindings::new().with("self", from_json(&json, &UNTYPED).unwrap());
//! let evaluated = program.evaluate(&variables, 1_000_000);
//! assert_eq!(evaluated.result.unwrap().as_bool(), Some(true));
//! assert_eq!(evaluated.cost, 5);
//! ```
//!
//! # The way of an expression
//!
//! `Env::compile` gives a `Checked` or `Issues`, whose text is cel-go's. A `Checked` has its
//! `output_type`, an `estimate` and a `program`. A `Program` is evaluated any number of times with an
//! `Activation` and a budget; `Evaluated` has the result and the cost.
//!
//! # How to declare things
//!
//! - A **library** is a list of `Function`s with `Overload`s: id, types of the parameters (`Type::Param`
//!   stands for any one type), result, and an implementation over a slice of values, which answers
//!   `Error::NoSuchOverload` to what it does not take. `Overload::cost` and `estimate` say what it costs
//!   at run time and at most; both default to 1. `Overload::prepare` may compile a constant argument
//!   once. `env.extend(library)`.
//! - A **variable** is `env.variable("name", type)`: a copy of the environment that shares all else.
//! - **Objects with fields** are `Type::object("name")`, and a `TypeProvider` that knows the fields.
//! - **Opaque values** implement `Opaque` and have the type `Type::opaque(name)`; a function finds its
//!   own with `value.downcast_ref::<T>()`. List the type in `Library::types` if expressions may name it.
//! - **JSON** becomes a value in place with `from_json(&json, &shape)`. A `Shape` says which fields are
//!   visible under which names, and that a string is a timestamp; `UNTYPED` is JSON as it is. Other data
//!   of the host implements `MapView` or `ListView`.
//! - **Lazy variables** (`variables.x`, evaluated when first asked for) are a `MapView` of the host's.
//! - **Sizes** for the estimate come from a `Sizer`, by path.

mod check;
mod cost;
mod env;
mod error;
mod estimate;
mod eval;
pub mod garbage;
pub mod library;
mod syntax;
mod types;
mod value;
mod work;

pub use check::Checked;
pub use cost::{
    CallEstimate, CostEstimate, REGEX_LENGTH, STRING_TRAVERSAL, SizeEstimate, scale, traversal,
};
pub use env::{
    CostRule, Env, Function, Implementation, Library, Overload, Prepare, Prepared, RuntimeCost,
    StaticCost, Strictness, TypeProvider,
};
pub use error::Error;
pub use estimate::{AnySize, CallShape, Operand, Sizer};
pub use eval::{Activation, Bindings, Evaluated, Program};
pub use syntax::{
    Comprehension, Entry, Expr, ExprId, Field, Issue, Issues, Kind, Literal, Position, is_reserved,
};
pub use types::Type;
pub use value::{
    Bytes, Duration, Key, List, ListKind, ListView, Map, MapView, NativeMap, Opaque, Shape, Text,
    Timestamp, UNTYPED, Untyped, Value, from_json, to_json,
};
