//! A webhook as its configuration says it, made ready once per change.

use std::time::Duration;

use client::hooks::{Credentials, Place, Target};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::matching::Constraints;
use crate::policy::conditions::MatchConditions;

const TIMEOUT_SECONDS: i32 = 10;
const PORT: u16 = 443;

pub(super) struct Hook {
    /// Of the object that it is part of.
    pub(super) configuration: String,
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) conditions: MatchConditions,
    /// What cannot be asked is left out, instead of refusing the request.
    pub(super) fails_open: bool,
    /// Whether it does nothing else on a dry run.
    pub(super) takes_dry_runs: bool,
    /// Asked again if the object changed since.
    pub(super) is_reinvoked: bool,
    pub(super) timeout: Duration,
    /// Of AdmissionReview, as it prefers them.
    pub(super) review_versions: Vec<String>,
    pub(super) target: Target,
}

/// What both kinds of webhooks say, though their types are two.
macro_rules! said {
    ($it:ident, $reinvocation:expr) => {
        Said {
            name: &$it.name,
            client: &$it.client_config,
            rules: $it.rules.as_ref(),
            match_policy: $it.match_policy.as_deref(),
            namespaces: $it.namespace_selector.as_ref(),
            objects: $it.object_selector.as_ref(),
            conditions: $it.match_conditions.as_ref(),
            failure_policy: $it.failure_policy.as_deref(),
            side_effects: &$it.side_effects,
            reinvocation: $reinvocation,
            timeout_seconds: $it.timeout_seconds,
            review_versions: &$it.admission_review_versions,
        }
    };
}

struct Said<'a> {
    name: &'a str,
    client: &'a WebhookClientConfig,
    rules: Option<&'a Vec<RuleWithOperations>>,
    match_policy: Option<&'a str>,
    namespaces: Option<&'a LabelSelector>,
    objects: Option<&'a LabelSelector>,
    conditions: Option<&'a Vec<MatchCondition>>,
    failure_policy: Option<&'a str>,
    side_effects: &'a str,
    reinvocation: Option<&'a str>,
    timeout_seconds: Option<i32>,
    review_versions: &'a [String],
}

impl Hook {
    pub(super) fn mutating(
        configuration: &str,
        it: &MutatingWebhook,
        credentials: &Credentials,
    ) -> Self {
        let said = said!(it, it.reinvocation_policy.as_deref());
        Self::new(configuration, &said, credentials)
    }

    pub(super) fn validating(
        configuration: &str,
        it: &ValidatingWebhook,
        credentials: &Credentials,
    ) -> Self {
        Self::new(configuration, &said!(it, None), credentials)
    }

    fn new(configuration: &str, said: &Said<'_>, credentials: &Credentials) -> Self {
        let rules = said.rules.map_or(&[][..], Vec::as_slice);
        let selectors = (said.namespaces, said.objects);
        let seconds = said.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        let ca_bundle = said.client.ca_bundle.as_ref().map_or(&[][..], |it| &it.0);
        Self {
            configuration: configuration.to_owned(),
            name: said.name.to_owned(),
            constraints: Constraints::of_webhook(rules, said.match_policy, selectors),
            conditions: MatchConditions::new(said.conditions.map_or(&[], Vec::as_slice)),
            fails_open: said.failure_policy == Some("Ignore"),
            takes_dry_runs: matches!(said.side_effects, "None" | "NoneOnDryRun"),
            is_reinvoked: said.reinvocation == Some("IfNeeded"),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default().max(1)),
            review_versions: said.review_versions.to_vec(),
            target: Target::new(place_of(said.client), ca_bundle).known_by(credentials),
        }
    }

    /// Which of all, while its configuration is what it is.
    pub(super) fn id(&self) -> (&str, &str) {
        (&self.configuration, &self.name)
    }
}

fn place_of(client: &WebhookClientConfig) -> Place {
    match &client.service {
        Some(service) => Place::Service {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: service.port.and_then(|it| u16::try_from(it).ok()).unwrap_or(PORT),
            path: service.path.clone().unwrap_or_default(),
        },
        None => Place::Url { url: client.url.clone().unwrap_or_default() },
    }
}
