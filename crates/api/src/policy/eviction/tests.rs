//! Manifest in; problems out.

use serde_json::{Value, json};

use super::Eviction;
use crate::kind::Resource;
use crate::testing::{check, created};

#[test]
fn an_eviction_is_taken_as_it_is() {
    for manifest in [
        json!({}),
        json!({"metadata": {"name": "web-0", "namespace": "shop"}}),
        json!({"metadata": {"name": "web-0"}, "deleteOptions": null}),
        json!({"metadata": {"name": "web-0"}, "deleteOptions": {"dryRun": ["All"]}}),
    ] {
        check::<Eviction>(manifest, &[]);
    }
}

#[test]
fn options_are_those_of_any_deletion() {
    let options = json!({
        "gracePeriodSeconds": 0, "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
    });
    let eviction = created::<Eviction>(json!({"deleteOptions": options}));
    let kept: Value = serde_json::from_slice(&eviction.encode()).unwrap();
    assert_eq!(kept["deleteOptions"], options);
    // What they say is checked by the server, with those of DELETE; their types are checked here.
    let wrong = json!({"deleteOptions": {"gracePeriodSeconds": "soon"}});
    assert!(Eviction::decode(wrong.to_string().as_bytes()).is_err());
}
