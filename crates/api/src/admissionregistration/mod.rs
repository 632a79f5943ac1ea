//! The group admissionregistration.k8s.io: one folder per kind, and what they share.

mod bindings;
pub mod expressions;
mod match_conditions;
mod match_resources;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod mutating_webhook_configuration;
mod parameters;
mod policies;
mod reserved_names;
mod rules;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod validating_webhook_configuration;
mod webhooks;

pub use mutating_admission_policy::MutatingAdmissionPolicy;
pub use mutating_admission_policy_binding::MutatingAdmissionPolicyBinding;
pub use mutating_webhook_configuration::MutatingWebhookConfiguration;
pub use validating_admission_policy::ValidatingAdmissionPolicy;
pub use validating_admission_policy_binding::ValidatingAdmissionPolicyBinding;
pub use validating_webhook_configuration::ValidatingWebhookConfiguration;
