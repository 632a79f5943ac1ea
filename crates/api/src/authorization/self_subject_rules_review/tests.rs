//! Manifest in; object and problems out.

use serde_json::{Value, json};

use super::SelfSubjectRulesReview;
use crate::testing::{check, check_created};

/// The server asks for a namespace, as upstream's does where it answers.
#[test]
fn any_question_is_taken_without_the_answer_that_came_with_it() {
    for namespace in [json!("shop"), json!(""), Value::Null] {
        let manifest = json!({
            "spec": {"namespace": namespace},
            "status": {"incomplete": false, "resourceRules": [], "nonResourceRules": []},
        });
        check::<SelfSubjectRulesReview>(manifest.clone(), &[]);
        check_created::<SelfSubjectRulesReview>(manifest, "/status/resourceRules/0", Value::Null);
    }
    let answered = json!({"spec": {"namespace": "a"}, "status": {
        "incomplete": true, "nonResourceRules": [],
        "resourceRules": [{"verbs": ["*"]}],
    }});
    check_created::<SelfSubjectRulesReview>(answered, "/status/resourceRules/0", Value::Null);
}
