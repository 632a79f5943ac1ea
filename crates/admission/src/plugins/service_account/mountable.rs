//! `kubernetes.io/enforce-mountable-secrets` on an account: its pods use the Secrets that it lists,
//! and no others. Pure.

use std::collections::BTreeSet;

use api::core::ServiceAccount;
use api::core::pod_spec::references;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec};

const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
/// What upstream's parser takes for true.
const TRUE: &[&str] = &["1", "t", "T", "TRUE", "true", "True"];

pub(super) fn is_enforced(account: &ServiceAccount) -> bool {
    let value = account.metadata.annotations.as_ref().and_then(|it| it.get(ANNOTATION));
    value.is_some_and(|it| TRUE.contains(&it.as_str()))
}

/// `Err` names the first reference that the account does not have.
pub(super) fn validate(account: &ServiceAccount, spec: &PodSpec) -> Result<(), String> {
    let limit = Limit::new(account);
    for volume in spec.volumes.iter().flatten() {
        for name in references::secrets_of_volume(volume) {
            limit.validate(name, || format!("volume with secret.secretName=\"{name}\""))?;
        }
    }
    for it in spec.init_containers.iter().flatten() {
        limit.validate_environment("init container", &it.name, (&it.env, &it.env_from))?;
    }
    for it in &spec.containers {
        limit.validate_environment("container", &it.name, (&it.env, &it.env_from))?;
    }
    let references = account.image_pull_secrets.iter().flatten();
    let pulls: BTreeSet<&str> = references.map(|it| it.name.as_str()).collect();
    for (index, reference) in spec.image_pull_secrets.iter().flatten().enumerate() {
        if !pulls.contains(reference.name.as_str()) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{}\" is not allowed because service account {} does not \
                 reference that imagePullSecret",
                reference.name, limit.account
            ));
        }
    }
    Ok(())
}

pub(super) fn validate_ephemeral(account: &ServiceAccount, spec: &PodSpec) -> Result<(), String> {
    let limit = Limit::new(account);
    for it in spec.ephemeral_containers.iter().flatten() {
        limit.validate_environment("ephemeral container", &it.name, (&it.env, &it.env_from))?;
    }
    Ok(())
}

struct Limit<'a> {
    account: &'a str,
    secrets: BTreeSet<&'a str>,
}

type Environment<'a> = (&'a Option<Vec<EnvVar>>, &'a Option<Vec<EnvFromSource>>);

impl<'a> Limit<'a> {
    fn new(account: &'a ServiceAccount) -> Self {
        let secrets = account.secrets.iter().flatten().filter_map(|it| it.name.as_deref());
        let account = account.metadata.name.as_deref().unwrap_or_default();
        Self { account, secrets: secrets.collect() }
    }

    fn validate(&self, name: &str, what: impl Fn() -> String) -> Result<(), String> {
        if self.secrets.contains(name) {
            return Ok(());
        }
        let (what, account) = (what(), self.account);
        Err(format!(
            "{what} is not allowed because service account {account} does not reference that secret"
        ))
    }

    fn validate_environment(
        &self,
        kind: &str,
        container: &str,
        (env, env_from): Environment<'_>,
    ) -> Result<(), String> {
        for variable in env.iter().flatten() {
            let source = variable.value_from.as_ref().and_then(|it| it.secret_key_ref.as_ref());
            let Some(secret) = source.map(|it| it.name.as_str()) else { continue };
            let name = &variable.name;
            self.validate(secret, || {
                format!("{kind} {container} with envVar {name} referencing secret.secretName=\"{secret}\"")
            })?;
        }
        for secret in env_from.iter().flatten().flat_map(|it| &it.secret_ref).map(|it| &it.name) {
            self.validate(secret, || {
                format!(
                    "{kind} {container} with envFrom referencing secret.secretName=\"{secret}\""
                )
            })?;
        }
        Ok(())
    }
}
