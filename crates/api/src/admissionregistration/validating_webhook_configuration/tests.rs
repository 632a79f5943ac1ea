//! Manifest in; problems, defaults or cells out. What this kind has in common with webhooks that
//! mutate is tested there.

use serde_json::json;

use super::ValidatingWebhookConfiguration;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

#[test]
fn its_webhooks_have_the_rules_of_all_webhooks() {
    check::<ValidatingWebhookConfiguration>(
        json!({"metadata": {"name": "w"}, "webhooks": [{"name": "a"}]}),
        &[
            "webhooks[0].name: Invalid value: \"a\": should be a domain with at least three segments separated by dots",
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ],
    );
    let fine: serde_json::Value = serde_json::from_str(include_str!("example.json")).unwrap();
    check::<ValidatingWebhookConfiguration>(fine.clone(), &[]);
    let stored = created::<ValidatingWebhookConfiguration>(fine.clone());
    check_update(&stored, fine.clone(), Part::Main, &[]);
    check_created::<ValidatingWebhookConfiguration>(
        fine.clone(),
        "/webhooks/0/matchPolicy",
        json!("Equivalent"),
    );
    check_created::<ValidatingWebhookConfiguration>(
        fine,
        "/webhooks/0/reinvocationPolicy",
        json!(null),
    );
    assert!(stored.warnings().is_empty());
    assert!(
        stored.is_new_generation(&ValidatingWebhookConfiguration {
            webhooks: None,
            ..stored.clone()
        })
    );
}

#[test]
fn columns_count_the_webhooks() {
    check_row::<ValidatingWebhookConfiguration>(
        json!({"metadata": {"name": "w", "creationTimestamp": "2024-01-02T03:04:05Z"}}),
        "2024-01-02T03:05:05Z",
        json!(["w", 0, "60s"]),
    );
}
