//! Manifest in; problems out.

use serde_json::json;

use super::ConfigMap;
use crate::kind::Part;
use crate::testing::{check, check_row, check_update, created};

#[test]
fn a_key_is_text_or_bytes() {
    check::<ConfigMap>(
        json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
}

#[test]
fn size_is_bounded() {
    let text = "x".repeat(1024 * 1024 + 1);
    check::<ConfigMap>(
        json!({"data": {"a": text}}),
        &["<nil>: Too long: may not be more than 1048576 bytes"],
    );
}

#[test]
fn an_immutable_one_never_changes() {
    let stored = created::<ConfigMap>(json!({"immutable": true, "data": {"a": "x"}}));
    check_update(
        &stored,
        json!({"immutable": true, "data": {"a": "y"}}),
        Part::Main,
        &["data: Forbidden: field is immutable when `immutable` is set"],
    );
}

#[test]
fn the_row_counts_keys() {
    check_row::<ConfigMap>(
        json!({"metadata": {"name": "c"}, "data": {"a": "x", "b": "y"}}),
        "2026-01-01T00:00:00Z",
        json!(["c", 2, "<unknown>"]),
    );
}
