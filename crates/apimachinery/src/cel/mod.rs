//! The Common Expression Language as Kubernetes offers it: cel-go's language and extensions
//! (`cel::Env::extended`) with Kubernetes' own libraries. Expressions of all uses see the same
//! functions (upstream, `apiserver/pkg/cel/environment/base.go`, at 1.36); variables and types are
//! each use's own, added with `environment().variable(…)`, which copies nothing.

pub mod libraries;
pub mod rules;
pub mod schema;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

/// What one evaluation may cost, whatever it is for.
pub const EVALUATION_BUDGET: u64 = 1_000_000;
/// What all expressions for one object may cost: the rules of one custom resource, or a policy with
/// one binding and one parameter.
pub const OBJECT_BUDGET: u64 = 10_000_000;
/// What the match conditions of one webhook or policy may cost together.
pub const CONDITIONS_BUDGET: u64 = 2_500_000;

/// All that expressions may use, without variables. One copy for everybody.
pub fn environment() -> &'static cel::Env {
    static ENVIRONMENT: LazyLock<cel::Env> =
        LazyLock::new(|| libraries::all().into_iter().fold(cel::Env::extended(), cel::Env::extend));
    &ENVIRONMENT
}
