//! Manifest in; problems and defaults out.

use serde_json::json;

use super::TokenRequest;
use crate::testing::{check, check_created};

#[test]
fn tokens_live_ten_minutes_at_least() {
    check_created::<TokenRequest>(json!({}), "/spec/expirationSeconds", json!(3600));
    check::<TokenRequest>(
        json!({"spec": {"expirationSeconds": 599}}),
        &[
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ],
    );
}
