//! How objects get from one version of a definition to another: by nobody, or by a webhook that is
//! asked. What a definition may say about that.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, WebhookClientConfig, WebhookConversion,
};

use apimachinery::{FieldErrors, Path};

use super::{CustomResourceDefinition, is_established};
use crate::webhook_client::{self, ServiceTarget, Unknown};

pub const STRATEGY: &str = "Webhook";
/// Of a Service that is asked.
const PORT: i32 = 443;
const UNUSED: &str = "should not be set when strategy is not set to Webhook";

/// Paths are those of upstream's form of old, where the webhook is no part of its own.
pub(super) fn validate(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    errors: &mut FieldErrors,
) {
    let Some(conversion) = &crd.spec.conversion else { return };
    let path = Path::new("spec").child("conversion");
    let strategy = conversion.strategy.as_str();
    if strategy != "None" && crd.spec.preserve_unknown_fields == Some(true) {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&path.child("strategy"), strategy, why);
    }
    match strategy {
        "None" | STRATEGY => {}
        "" => errors.required(&path.child("strategy"), ""),
        other => errors.not_supported(&path.child("strategy"), other, &["None", STRATEGY]),
    }
    let (client_path, versions_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let versions = review_versions(conversion);
    if strategy != STRATEGY {
        if client_of(conversion).is_some() {
            errors.forbidden(&client_path, UNUSED);
        }
        if !versions.is_empty() {
            errors.forbidden(&versions_path, UNUSED);
        }
        return;
    }
    match client_of(conversion) {
        None => errors.required(&client_path, "required when strategy is set to Webhook"),
        Some(client) => validate_client(client, stored, &client_path, errors),
    }
    let before = stored.and_then(|it| it.spec.conversion.as_ref()).map(review_versions);
    let is_tolerated =
        before.is_some_and(|it| !it.is_empty() && !webhook_client::has_known_review_version(it));
    let unknown = if is_tolerated { Unknown::Tolerated } else { Unknown::Refused };
    webhook_client::validate_review_versions(versions, "", unknown, &versions_path, errors);
}

fn client_of(conversion: &CustomResourceConversion) -> Option<&WebhookClientConfig> {
    conversion.webhook.as_ref().and_then(|it| it.client_config.as_ref())
}

fn review_versions(conversion: &CustomResourceConversion) -> &[String] {
    conversion.webhook.as_ref().map_or(&[], |it| &it.conversion_review_versions)
}

fn validate_client(
    client: &WebhookClientConfig,
    stored: Option<&CustomResourceDefinition>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    // Upstream takes the one for the other when it names what is missing.
    let service = client.service.as_ref().map(|service| ServiceTarget {
        namespace: &service.name,
        name: &service.namespace,
        url_path: service.path.as_deref(),
        port: service.port.unwrap_or(PORT),
    });
    webhook_client::validate_place(client.url.as_deref(), service, path, errors);
    // Who injects authorities does so later: nothing is served before.
    let must_be_good = stored.is_some_and(|it| is_established(it) && has_good_ca_bundle(it));
    let bundle = client.ca_bundle.as_ref().map_or(&[][..], |it| &it.0);
    if must_be_good {
        webhook_client::validate_ca_bundle(bundle, &path.child("caBundle"), errors);
    }
}

/// Whether whoever is asked can be known.
pub(super) fn has_good_ca_bundle(crd: &CustomResourceDefinition) -> bool {
    let client = crd.spec.conversion.as_ref().and_then(client_of);
    let bundle = client.and_then(|it| it.ca_bundle.as_ref());
    bundle.is_none_or(|it| webhook_client::ca_bundle_problem(&it.0).is_none())
}

/// Who is asked to convert objects of the definition, if anybody is.
pub fn webhook(crd: &CustomResourceDefinition) -> Option<&WebhookConversion> {
    let conversion = crd.spec.conversion.as_ref()?;
    conversion.webhook.as_ref().filter(|_| conversion.strategy == STRATEGY)
}
