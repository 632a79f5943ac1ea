//! What both kinds of webhooks say, how what is not said is filled in, and what is wrong with it.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_subdomain, validate_label_selector, validate_older_label_selector,
};

use super::expressions::Sees;
use super::match_resources::MATCH_POLICIES;
use super::policies::{FAILURE_POLICIES, REINVOCATION_POLICIES};
use super::{match_conditions, rules};
use crate::webhook_client::{self, ServiceTarget, Unknown};

/// Of webhooks that can be asked on a dry run.
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const TIMEOUT_SECONDS: i32 = 10;
const PORT: i32 = 443;

/// A webhook of either kind.
pub(super) struct Webhook<'a> {
    name: &'a str,
    client_config: &'a WebhookClientConfig,
    rules: &'a [RuleWithOperations],
    failure_policy: Option<&'a str>,
    match_policy: Option<&'a str>,
    namespace_selector: Option<&'a LabelSelector>,
    object_selector: Option<&'a LabelSelector>,
    /// Empty if it does not say.
    side_effects: &'a str,
    timeout_seconds: Option<i32>,
    review_versions: &'a [String],
    match_conditions: &'a [MatchCondition],
    reinvocation_policy: Option<&'a str>,
}

impl<'a> From<&'a MutatingWebhook> for Webhook<'a> {
    fn from(it: &'a MutatingWebhook) -> Self {
        Self {
            name: &it.name,
            client_config: &it.client_config,
            rules: it.rules.as_deref().unwrap_or_default(),
            failure_policy: it.failure_policy.as_deref(),
            match_policy: it.match_policy.as_deref(),
            namespace_selector: it.namespace_selector.as_ref(),
            object_selector: it.object_selector.as_ref(),
            side_effects: &it.side_effects,
            timeout_seconds: it.timeout_seconds,
            review_versions: &it.admission_review_versions,
            match_conditions: it.match_conditions.as_deref().unwrap_or_default(),
            reinvocation_policy: it.reinvocation_policy.as_deref(),
        }
    }
}

impl<'a> From<&'a ValidatingWebhook> for Webhook<'a> {
    fn from(it: &'a ValidatingWebhook) -> Self {
        Self {
            name: &it.name,
            client_config: &it.client_config,
            rules: it.rules.as_deref().unwrap_or_default(),
            failure_policy: it.failure_policy.as_deref(),
            match_policy: it.match_policy.as_deref(),
            namespace_selector: it.namespace_selector.as_ref(),
            object_selector: it.object_selector.as_ref(),
            side_effects: &it.side_effects,
            timeout_seconds: it.timeout_seconds,
            review_versions: &it.admission_review_versions,
            match_conditions: it.match_conditions.as_deref().unwrap_or_default(),
            reinvocation_policy: None,
        }
    }
}

/// The fields of a webhook of either kind that have defaults.
pub(super) struct Defaulted<'a> {
    pub(super) failure_policy: &'a mut Option<String>,
    pub(super) match_policy: &'a mut Option<String>,
    pub(super) namespace_selector: &'a mut Option<LabelSelector>,
    pub(super) object_selector: &'a mut Option<LabelSelector>,
    pub(super) timeout_seconds: &'a mut Option<i32>,
    pub(super) rules: &'a mut Option<Vec<RuleWithOperations>>,
    pub(super) client_config: &'a mut WebhookClientConfig,
}

impl Defaulted<'_> {
    pub(super) fn apply(self) {
        self.failure_policy.get_or_insert_with(|| "Fail".to_owned());
        self.match_policy.get_or_insert_with(|| "Equivalent".to_owned());
        self.namespace_selector.get_or_insert_default();
        self.object_selector.get_or_insert_default();
        self.timeout_seconds.get_or_insert(TIMEOUT_SECONDS);
        for rule in self.rules.iter_mut().flatten() {
            rules::default_scope(&mut rule.scope);
        }
        if let Some(service) = &mut self.client_config.service {
            service.port.get_or_insert(PORT);
        }
    }
}

/// Rules that came later than objects: what broke one of them before may go on to do so.
#[derive(Default)]
struct Tolerated {
    any_conditions: bool,
    any_side_effects: bool,
    any_review_version: bool,
    same_names: bool,
    any_label_values: bool,
}

impl Tolerated {
    fn by(webhooks: &[Webhook<'_>], stored: &[Webhook<'_>]) -> Self {
        let pairs = || webhooks.iter().zip(stored);
        let names: BTreeSet<&str> = stored.iter().map(|it| it.name).collect();
        Self {
            any_conditions: webhooks.len() == stored.len()
                && pairs().all(|(new, old)| new.match_conditions == old.match_conditions),
            any_side_effects: stored.iter().any(|it| !NO_SIDE_EFFECTS.contains(&it.side_effects)),
            any_review_version: stored
                .iter()
                .any(|it| !it.review_versions.is_empty() && !it.has_known_review_version()),
            same_names: names.len() < stored.len(),
            any_label_values: stored.iter().any(Webhook::has_invalid_selector),
        }
    }
}

pub(super) fn validate<'a, W>(webhooks: &'a [W], stored: Option<&'a [W]>, errors: &mut FieldErrors)
where
    &'a W: Into<Webhook<'a>>,
{
    let all = |it: &'a [W]| it.iter().map(Into::into).collect::<Vec<Webhook<'a>>>();
    let webhooks = all(webhooks);
    let tolerated = stored.map(|it| Tolerated::by(&webhooks, &all(it))).unwrap_or_default();
    let mut names = BTreeSet::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        webhook.validate(&tolerated, &path, errors);
        let is_new = webhook.name.is_empty() || names.insert(webhook.name);
        if !is_new && !tolerated.same_names {
            errors.duplicate(&path.child("name"), webhook.name);
        }
    }
}

impl Webhook<'_> {
    fn has_known_review_version(&self) -> bool {
        webhook_client::has_known_review_version(self.review_versions)
    }

    fn has_invalid_selector(&self) -> bool {
        let mut errors = FieldErrors::new();
        for selector in [self.namespace_selector, self.object_selector].into_iter().flatten() {
            validate_label_selector(selector, &Path::root(), &mut errors);
        }
        !errors.is_empty()
    }

    fn validate(&self, tolerated: &Tolerated, path: &Path, errors: &mut FieldErrors) {
        validate_name(self.name, &path.child("name"), errors);
        for (index, rule) in self.rules.iter().enumerate() {
            rules::validate(rule, &path.child("rules").index(index), errors);
        }
        for (field, value, supported) in [
            ("failurePolicy", self.failure_policy, FAILURE_POLICIES),
            ("matchPolicy", self.match_policy, MATCH_POLICIES),
        ] {
            validate_choice(value, supported, &path.child(field), errors);
        }
        let allowed = if tolerated.any_side_effects { SIDE_EFFECTS } else { NO_SIDE_EFFECTS };
        validate_side_effects(self.side_effects, allowed, &path.child("sideEffects"), errors);
        if let Some(seconds) = self.timeout_seconds.filter(|it| !(1..=30).contains(it)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            errors.invalid(&path.child("timeoutSeconds"), seconds, why);
        }
        self.validate_selectors(tolerated, path, errors);
        let reinvocation_path = path.child("reinvocationPolicy");
        validate_choice(
            self.reinvocation_policy,
            REINVOCATION_POLICIES,
            &reinvocation_path,
            errors,
        );
        validate_client_config(self.client_config, &path.child("clientConfig"), errors);
        if !tolerated.any_conditions {
            let path = path.child("matchConditions");
            let sees = Sees { params: false, authorizer: true, patches: false };
            match_conditions::validate(self.match_conditions, sees, &path, errors);
        }
        self.validate_review_versions(tolerated, &path.child("admissionReviewVersions"), errors);
    }

    fn validate_selectors(&self, tolerated: &Tolerated, path: &Path, errors: &mut FieldErrors) {
        let validate = match tolerated.any_label_values {
            true => validate_older_label_selector,
            false => validate_label_selector,
        };
        for (field, selector) in [
            ("namespaceSelector", self.namespace_selector),
            ("objectSelector", self.object_selector),
        ] {
            if let Some(selector) = selector {
                validate(selector, &path.child(field), errors);
            }
        }
    }

    fn validate_review_versions(
        &self,
        tolerated: &Tolerated,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        let missing = format!("must specify one of {}", webhook_client::known_review_versions());
        let unknown =
            if tolerated.any_review_version { Unknown::Tolerated } else { Unknown::Refused };
        let all = self.review_versions;
        webhook_client::validate_review_versions(all, &missing, unknown, path, errors);
    }
}

/// A webhook's name is a domain of its author.
fn validate_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let problems = is_dns_subdomain(name);
    if !problems.is_empty() {
        errors.invalid(path, name, &problems.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.invalid(path, name, why);
    }
}

fn validate_choice(value: Option<&str>, supported: &[&str], path: &Path, errors: &mut FieldErrors) {
    if let Some(value) = value.filter(|it| !supported.contains(it)) {
        errors.not_supported(path, value, supported);
    }
}

fn validate_side_effects(value: &str, allowed: &[&str], path: &Path, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.required(path, &format!("must specify one of {}", allowed.join(", ")));
    } else if !allowed.contains(&value) {
        errors.not_supported(path, value, allowed);
    }
}

fn validate_client_config(config: &WebhookClientConfig, path: &Path, errors: &mut FieldErrors) {
    // Upstream takes the one for the other when it names what is missing.
    let service = config.service.as_ref().map(|service| ServiceTarget {
        namespace: &service.name,
        name: &service.namespace,
        url_path: service.path.as_deref(),
        port: service.port.unwrap_or(PORT),
    });
    webhook_client::validate_place(config.url.as_deref(), service, path, errors);
}
