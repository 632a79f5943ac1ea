//! The functions of the language and those of cel-go's extensions that Kubernetes has.

mod arithmetic;
mod conversions;
mod format;
mod lists;
mod optional;
mod order;
mod pattern;
mod sets;
mod standard;
mod strings;
mod times;

#[cfg(test)]
mod tests;

pub(crate) use format::check as check_format;
pub use lists::{estimate_traversal, lists, traversal_of};
pub use optional::optional;
pub use pattern::{Pattern, pattern};
pub use sets::sets;
pub use standard::standard;
pub use strings::strings;

use crate::env::{Function, Library, Overload};
use crate::error::Error;
use crate::syntax::Macro;
use crate::types::Type;
use crate::value::{Map, Value};

/// `cel.bind(name, value, result)`, which few uses of the language have.
pub fn bindings() -> Library {
    Library { macros: Macro::BINDINGS, ..Library::default() }
}

/// Folds with a key or index beside the value.
pub fn two_variable_comprehensions() -> Library {
    let map = Type::map(Type::Param("K"), Type::Param("V"));
    let entry = [map.clone(), Type::Param("K"), Type::Param("V")];
    // Steps of folds insert in place; this is for the checker, and for whoever finds another way.
    let overloads = [
        Overload::global("@mapInsert_map_key_value", entry, map.clone(), insert),
        Overload::global("@mapInsert_map_map", [map.clone(), map.clone()], map, insert),
    ];
    Library {
        functions: vec![Function::new("cel.@mapInsert", overloads)],
        macros: Macro::TWO_VARIABLES,
        ..Library::default()
    }
}

fn insert<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Map(Map::Native(map)), Value::Map(more)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let mut map = (**map).clone();
    for key in more.keys() {
        if let Some(value) = more.get(&key)? {
            map.insert(key, value);
        }
    }
    Ok(map.into())
}
