//! What a file asks to be judged by, or why that cannot be. Pure.

use anyhow::{Result, bail};
use api::admissionregistration::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use api::apiextensions::CustomResourceDefinition;
use api::{Kind, Resource};
use apimachinery::FieldErrors;
use serde_json::{Value, json};
use std::sync::Arc;

use super::super::super::manifest::Document;

const POLICY_GROUP: &str = "admissionregistration.k8s.io/";
const CRD_GROUP: &str = "apiextensions.k8s.io/";

pub(super) enum Plan {
    Policies(Policies),
    Definition(Box<CustomResourceDefinition>),
    PodSecurity { level: String, version: String },
}

/// Policies of both kinds, where they are bound, and objects that may be their parameters.
#[derive(Default)]
pub(super) struct Policies {
    pub(super) validating: Vec<ValidatingAdmissionPolicy>,
    pub(super) validating_bindings: Vec<ValidatingAdmissionPolicyBinding>,
    pub(super) mutating: Vec<MutatingAdmissionPolicy>,
    pub(super) mutating_bindings: Vec<MutatingAdmissionPolicyBinding>,
    pub(super) params: Vec<Value>,
    pub(super) notes: Vec<String>,
}

impl Plan {
    pub(super) fn of(documents: &[Document]) -> Result<Self> {
        let mut policies = Policies::default();
        let mut definitions = Vec::new();
        for document in documents {
            let (api_version, kind) = (document.text("apiVersion"), document.text("kind"));
            let is_policy = api_version.starts_with(POLICY_GROUP);
            match kind {
                "ValidatingAdmissionPolicy" if is_policy => {
                    policies.validating.push(read(document)?);
                }
                "ValidatingAdmissionPolicyBinding" if is_policy => {
                    policies.validating_bindings.push(read(document)?);
                }
                "MutatingAdmissionPolicy" if is_policy => policies.mutating.push(read(document)?),
                "MutatingAdmissionPolicyBinding" if is_policy => {
                    policies.mutating_bindings.push(read(document)?);
                }
                "CustomResourceDefinition" if api_version.starts_with(CRD_GROUP) => {
                    definitions.push(read(document)?);
                }
                _ => policies.params.push(document.object.clone()),
            }
        }
        let n_policies = policies.validating.len() + policies.mutating.len();
        match (n_policies, definitions.len()) {
            (0, 0) => bail!(
                "the file has no ValidatingAdmissionPolicy, MutatingAdmissionPolicy or \
                 CustomResourceDefinition"
            ),
            (0, 1) => Ok(Self::Definition(Box::new(definitions.remove(0)))),
            (_, 0) => {
                policies.bind_everywhere()?;
                Ok(Self::Policies(policies))
            }
            _ => bail!("check definitions one by one, and apart from policies"),
        }
    }

    /// `baseline`, `restricted:v1.35`
    pub(super) fn of_pod_security(text: &str) -> Result<Self> {
        let (level, version) = text.split_once(':').unwrap_or((text, "latest"));
        if !["privileged", "baseline", "restricted"].contains(&level) {
            bail!("--pod-security: {level:?} must be one of privileged, baseline, restricted");
        }
        let minor = version.strip_prefix("v1.").and_then(|it| it.parse::<u32>().ok());
        if version != "latest" && minor.is_none() {
            bail!("--pod-security: the version {version:?} must be \"latest\" or \"v1.x\"");
        }
        Ok(Self::PodSecurity { level: level.to_owned(), version: version.to_owned() })
    }
}

/// With its defaults, and valid: what does not compile could judge nothing.
fn read<T: Resource>(document: &Document) -> Result<T> {
    let (line, kind) = (document.line, T::FACTS.kind);
    let mut text = document.object.clone();
    // What is stored is the newest version; the fields are the same in all.
    text["apiVersion"] = json!(format!("{}/{}", T::FACTS.group, T::FACTS.version));
    let text = text.to_string();
    let mut object = match T::decode(text.as_bytes()) {
        Ok(object) => object,
        Err(err) => bail!("line {line}: this is no {kind}: {err}"),
    };
    object.apply_defaults();
    if object.metadata().name.as_deref().unwrap_or_default().is_empty() {
        bail!("line {line}: metadata.name of the {kind} is missing");
    }
    let mut errors = FieldErrors::new();
    let unknown = kind_of::<T>().map(|it| it.schema().validate_fields(text.as_bytes()).problems);
    let unknown = unknown.unwrap_or_default();
    if !unknown.is_empty() {
        bail!("line {line}: {kind}: {}", unknown.join(", "));
    }
    object.validate(&mut errors);
    object.validate_create(&mut errors);
    let all: Vec<String> = errors.iter().map(|it| format!("{}: {}", it.path, it.message)).collect();
    if !all.is_empty() {
        bail!("line {line}: the {kind} is not valid: {}", all.join("; "));
    }
    Ok(object)
}

fn kind_of<T: Resource>() -> Option<Arc<dyn Kind>> {
    let facts = T::FACTS;
    let is_it = |names: &apimachinery::Names| {
        names.group == facts.group && names.version == facts.version && names.plural == facts.plural
    };
    api::kinds().into_iter().find(|it| is_it(it.names()))
}

impl Policies {
    /// Policies without bindings are judged as if they were bound to everything, and bindings that
    /// only warn or note as if they refused.
    fn bind_everywhere(&mut self) -> Result<()> {
        for policy in &self.validating {
            let name = policy.metadata.name.clone().unwrap_or_default();
            if self.validating_bindings.iter().any(|it| it.spec.policy_name == name) {
                continue;
            }
            let takes_params = policy.spec.as_ref().is_some_and(|it| it.param_kind.is_some());
            self.notes.push(unbound(&name, takes_params, self.params.is_empty())?);
            let binding = self.binding("ValidatingAdmissionPolicyBinding", &name, takes_params);
            self.validating_bindings.push(decode(&binding)?);
        }
        for policy in &self.mutating {
            let name = policy.metadata.name.clone().unwrap_or_default();
            let bound = |it: &MutatingAdmissionPolicyBinding| {
                it.spec.as_ref().and_then(|it| it.policy_name.as_ref()) == Some(&name)
            };
            if self.mutating_bindings.iter().any(bound) {
                continue;
            }
            let takes_params = policy.spec.as_ref().is_some_and(|it| it.param_kind.is_some());
            self.notes.push(unbound(&name, takes_params, self.params.is_empty())?);
            let binding = self.binding("MutatingAdmissionPolicyBinding", &name, takes_params);
            self.mutating_bindings.push(decode(&binding)?);
        }
        for binding in &mut self.validating_bindings {
            let actions = &mut binding.spec.validation_actions;
            if !actions.iter().any(|it| it == "Deny") {
                let name = binding.metadata.name.as_deref().unwrap_or_default();
                self.notes.push(format!(
                    "binding {name} has validationActions [{}]: judged as if it was Deny",
                    actions.join(", ")
                ));
                *actions = vec!["Deny".to_owned()];
            }
        }
        Ok(())
    }

    fn binding(&self, kind: &str, policy: &str, takes_params: bool) -> Value {
        let mut binding = json!({
            "apiVersion": format!("{POLICY_GROUP}v1"), "kind": kind,
            "metadata": {"name": "(none)"},
            "spec": {"policyName": policy},
        });
        if kind.starts_with("Validating") {
            binding["spec"]["validationActions"] = json!(["Deny"]);
        }
        if takes_params {
            let param = &self.params[0]["metadata"];
            let mut reference = json!({"name": param["name"], "parameterNotFoundAction": "Deny"});
            if param["namespace"].is_string() {
                reference["namespace"] = param["namespace"].clone();
            }
            binding["spec"]["paramRef"] = reference;
        }
        binding
    }
}

fn unbound(policy: &str, takes_params: bool, has_none: bool) -> Result<String> {
    if takes_params && has_none {
        bail!("policy {policy} takes parameters: add a binding, or a parameter, to the file");
    }
    Ok(format!("policy {policy} has no binding in the file: judged as if bound to everything"))
}

fn decode<T: Resource>(value: &Value) -> Result<T> {
    Ok(T::decode(value.to_string().as_bytes())?)
}
