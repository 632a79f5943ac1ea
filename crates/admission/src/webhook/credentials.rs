//! `WebhookAdmissionConfiguration`: who this server is to the webhooks that it asks.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use client::hooks::Credentials;
use serde::Deserialize;

use crate::configuration::{Configuration, Error, Settings};

/// Which of both plugins is told something.
pub(crate) trait Asking {
    const PLUGIN: &'static str;
}

pub(crate) struct Mutating;
pub(crate) struct Validating;

impl Asking for Mutating {
    const PLUGIN: &'static str = "MutatingAdmissionWebhook";
}

impl Asking for Validating {
    const PLUGIN: &'static str = "ValidatingAdmissionWebhook";
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "")]
struct WebhookAdmissionSettings<A> {
    api_version: String,
    kind: String,
    #[serde(default)]
    kube_config_file: Option<PathBuf>,
    #[serde(skip)]
    of: PhantomData<A>,
}

impl<A: Asking> Settings for WebhookAdmissionSettings<A> {
    const PLUGIN: &'static str = A::PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] =
        &[("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration")];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

/// None where nothing is said: then it is nobody to everybody.
pub(crate) fn load<A: Asking>(files: &Configuration) -> Result<Credentials, Error> {
    let settings: Option<WebhookAdmissionSettings<A>> = files.settings()?;
    let path = settings.and_then(|it| it.kube_config_file);
    let Some(path) = path.filter(|it| *it != Path::new("")) else {
        return Ok(Credentials::default());
    };
    if !path.is_absolute() {
        let what = format!("Invalid value: {path:?}: must be an absolute file path");
        return Err(files.refused(A::PLUGIN, "kubeConfigFile", what));
    }
    files.kubeconfig(&path)?.credentials()
}
