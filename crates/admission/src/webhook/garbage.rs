//! What any bytes do that a webhook answers with.

use apimachinery::bounds::{DEPTH_MAX, depth};
use apimachinery::patch;
use serde_json::json;

use super::review::{self, Version};

/// The first byte says what was asked. Panics if what is taken is beyond the bounds.
pub fn answers(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let version = if form & 1 == 0 { Version::V1 } else { Version::V1Beta1 };
    let is_mutating = form & 2 == 0;
    let Ok(answer) = review::answer(version, ("u", is_mutating), rest) else { return };
    assert!(is_mutating || answer.patch.is_empty(), "who only looks changes nothing");
    let object = json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "data": {"d": "e"}});
    if let Ok(patched) = patch::json(&object, &answer.patch) {
        assert!(depth(&patched) <= DEPTH_MAX + 20, "{}", depth(&patched));
    }
    if !answer.is_allowed {
        let refused = super::messages::denied("w", answer.status);
        assert!(refused.code() >= 400, "a refusal is one");
    }
}
