//! Our CEL beside two others: `cel-core`, which checks types, and `kube-cel`, which has Kubernetes'
//! functions on the crate `cel`. The same random expressions on the same values must have the same
//! value, or fail, in all of them. Where an oracle is otherwise than cel-go, `deviations` says why.

pub mod compare;
pub mod deviations;
mod form;
pub mod oracles;
mod values;

pub use compare::{Difference, Tally, compare};

use cel::garbage::forms::{LANGUAGE, LISTS, OPTIONALS, STRINGS, TWO_VARIABLES};
use cel::garbage::typed::Generator;

/// What makes the expressions that are compared.
pub fn generator() -> Generator {
    let rows = [LANGUAGE, OPTIONALS, STRINGS, LISTS, TWO_VARIABLES, form::KUBERNETES];
    Generator::new(&rows, form::POOLS)
}
