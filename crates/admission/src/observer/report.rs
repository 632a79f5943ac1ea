//! What is told of a request's way through the chain: the answer to whoever asked for it.

use std::collections::BTreeMap;

use apimachinery::ApiError;
use serde::{Deserialize, Serialize};

use super::diff::Change;

/// In place of what somebody may not know.
pub const NO_RIGHT: &str = "(no right to read it)";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub kind: String,
    pub api_version: String,
    /// It is no object; those who read it as one find none.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// `CREATE`, `UPDATE` or `DELETE`: what it came to.
    pub operation: String,
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// In the order in which they ran.
    pub steps: Vec<Step>,
    /// Policies and webhooks that did not fit.
    #[serde(default, skip_serializing_if = "is_none")]
    pub n_parts_left_out: usize,
    /// Of the whole request, as the client gets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The object as it would be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<serde_json::Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Allowed,
    Refused,
    /// Nothing refuses it, but somebody was not asked.
    Unknown,
}

/// One plugin in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub plugin: String,
    /// `mutate` or `validate`.
    pub phase: String,
    /// 2 for the second time, because somebody has changed the object since.
    pub round: u32,
    pub micros: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "is_none")]
    pub n_changes_left_out: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Policies and webhooks that it asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// Who a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum By {
    #[serde(rename_all = "camelCase")]
    Policy {
        /// `validatingadmissionpolicies` or `mutatingadmissionpolicies`.
        resource: String,
        name: String,
        binding: String,
        /// `namespace/name` of the parameter that it was evaluated with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        param: Option<String>,
    },
    #[serde(rename_all = "camelCase")]
    Webhook { resource: String, configuration: String, name: String },
}

/// One policy with one binding and one parameter, or one webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub by: By,
    pub micros: u64,
    /// Of all its expressions, in CEL's units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<Expression>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "is_none")]
    pub n_changes_left_out: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Why it was not asked, or why what it said does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// It would be asked about a real write, and nobody can tell what it would say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unasked: bool,
}

/// One expression of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expression {
    /// `spec.validations[0].expression`
    pub field: String,
    pub text: String,
    pub cost: u64,
    /// What the request is told if it does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Refusal {
    pub fn of(error: &ApiError) -> Self {
        let status = error.to_status();
        Self {
            code: error.code(),
            reason: status.reason.unwrap_or_default(),
            message: error.message().to_owned(),
        }
    }
}

impl Report {
    pub const KIND: &'static str = "AdmissionReport";
    pub const API_VERSION: &'static str = "xebec/v1";

    pub(super) fn new(
        operation: &str,
        steps: Vec<Step>,
        n_parts_left_out: usize,
        refusal: Option<Refusal>,
    ) -> Self {
        let is_unasked = steps.iter().flat_map(|it| &it.parts).any(|it| it.is_unasked);
        let verdict = match (&refusal, is_unasked) {
            (Some(_), _) => Verdict::Refused,
            (None, true) => Verdict::Unknown,
            (None, false) => Verdict::Allowed,
        };
        Self {
            kind: Self::KIND.to_owned(),
            api_version: Self::API_VERSION.to_owned(),
            metadata: BTreeMap::new(),
            operation: operation.to_owned(),
            verdict,
            refusal,
            steps,
            n_parts_left_out,
            warnings: Vec::new(),
            object: None,
        }
    }

    /// Takes out what `may_read` does not let the caller know: of policies and webhooks that they
    /// may not read only what any answer to the request would tell them.
    pub fn redact(&mut self, may_read: impl Fn(&By) -> bool) {
        for step in &mut self.steps {
            let mut is_hidden = false;
            for part in &mut step.parts {
                if !may_read(&part.by) {
                    part.redact();
                    is_hidden = true;
                }
            }
            // They name configurations.
            if is_hidden {
                step.annotations.clear();
            }
        }
    }
}

impl Part {
    pub fn new(by: By, micros: u64) -> Self {
        Self {
            by,
            micros,
            cost: None,
            expressions: Vec::new(),
            changes: Vec::new(),
            n_changes_left_out: 0,
            refusal: None,
            warnings: Vec::new(),
            annotations: BTreeMap::new(),
            note: None,
            is_unasked: false,
        }
    }

    fn redact(&mut self) {
        let is_told = self.refusal.is_some() || !self.warnings.is_empty();
        let hide = |text: &mut String| NO_RIGHT.clone_into(text);
        match &mut self.by {
            By::Policy { name, binding, param, .. } => {
                *param = None;
                // Refusals and warnings name both.
                if !is_told {
                    hide(name);
                    hide(binding);
                }
            }
            By::Webhook { configuration, name, .. } => {
                hide(configuration);
                if self.refusal.is_none() {
                    hide(name);
                }
            }
        }
        self.cost = None;
        self.annotations.clear();
        self.note = self.note.take().map(|_| NO_RIGHT.to_owned());
        self.expressions.clear();
    }
}
