//! Our CEL beside two others: `cel-core`, which checks types, and `kube-cel`, which has Kubernetes'
//! functions on the crate `cel`. The same random expressions on the same values must have the same
//! value, or fail, in all of them. Where an oracle is otherwise than cel-go, `deviations` says why.

pub mod compare;
pub mod deviations;
mod form;
pub mod oracles;
pub mod values;

pub use compare::{Difference, Tally, compare};
pub use deviations::Oracle;

use cel::garbage::forms::{LANGUAGE, LISTS, OPTIONALS, STRINGS, TWO_VARIABLES};
use cel::garbage::typed::Generator;

/// What makes the expressions that an oracle is asked about: all forms that it has.
pub fn generator(oracle: Oracle) -> Generator {
    let all = [LANGUAGE, OPTIONALS, STRINGS, LISTS, TWO_VARIABLES, form::KUBERNETES].concat();
    let rows: Vec<&str> =
        all.into_iter().filter(|row| deviations::not_asked(oracle, row).is_none()).collect();
    Generator::new(&[&rows], form::POOLS)
}
