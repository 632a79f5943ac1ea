//! What validating and mutating policies share, and the conditions of webhooks: which requests they
//! are for (`crate::matching`), with which parameters (`params`), and the evaluation of their expressions
//! (`evaluation`). Policies are compiled once, when the first request comes that one is for.

pub mod conditions;
pub mod counts;
pub(crate) mod evaluation;
pub(crate) mod exempt;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod request;
pub(crate) mod source;
mod variables;

use std::sync::Arc;

use api::admissionregistration::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};

pub use params::{Found, Parameters};
use telemetry::Registry;

use crate::plugins::mutating_admission_policy::Mutations;
use crate::plugins::validating_admission_policy::Validations;
use metrics::Metrics;
use source::{Binding, Source};

/// All policies that there are. Told of every change of one.
pub struct Policies {
    pub(crate) validating: Source<Validations>,
    pub(crate) mutating: Source<Mutations>,
    pub(crate) parameters: Arc<dyn Parameters>,
    pub(crate) metrics: Metrics,
}

impl Policies {
    pub fn new(parameters: Arc<dyn Parameters>, metrics: &Registry) -> Self {
        let metrics = Metrics::new(metrics);
        Self { validating: Source::default(), mutating: Source::default(), parameters, metrics }
    }

    /// `None`: it is gone.
    pub fn set_validating(&self, name: &str, policy: Option<&ValidatingAdmissionPolicy>) {
        self.validating.set_definition(name, policy.and_then(Validations::compile));
    }

    pub fn set_validating_binding(
        &self,
        name: &str,
        binding: Option<&ValidatingAdmissionPolicyBinding>,
    ) {
        self.validating.set_binding(name, binding.map(Binding::validating));
    }

    pub fn set_mutating(&self, name: &str, policy: Option<&MutatingAdmissionPolicy>) {
        self.mutating.set_definition(name, policy.and_then(Mutations::compile));
    }

    pub fn set_mutating_binding(
        &self,
        name: &str,
        binding: Option<&MutatingAdmissionPolicyBinding>,
    ) {
        self.mutating.set_binding(name, binding.and_then(Binding::mutating));
    }
}
