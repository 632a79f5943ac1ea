//! Manifest in; objects out.

use serde_json::json;

use super::ServiceAccount;
use crate::kind::{Part, Resource as _};
use crate::testing::{check_created, created};

#[test]
fn of_secrets_only_the_names_are_kept() {
    let secrets = json!([{"name": "a", "namespace": "b"}, {"namespace": "c"}]);
    let manifest = json!({"metadata": {"name": "a"}, "secrets": secrets});
    check_created::<ServiceAccount>(manifest, "/secrets", json!([{"name": "a"}, {}]));
}

#[test]
fn an_annotation_that_is_deprecated_is_told_of_when_it_is_new() {
    let annotation = json!({"kubernetes.io/enforce-mountable-secrets": "true"});
    let new = created::<ServiceAccount>(json!({"metadata": {"annotations": annotation}}));
    let said = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    assert_eq!(new.warnings(), [said]);
    let plain = created::<ServiceAccount>(json!({"metadata": {}}));
    assert_eq!(new.update_warnings(&plain, Part::Main), [said]);
    assert_eq!(new.update_warnings(&new, Part::Main), Vec::<String>::new());
}
