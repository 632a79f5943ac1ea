//! Policies in; problems out.

use serde_json::{Value, json};

use super::{Job, indexed, job};
use crate::testing::check;

fn check_failure(rules: Value, expected: &[&str]) {
    check::<Job>(job(json!({"podFailurePolicy": {"rules": rules}})), expected);
}

fn check_success(rules: Value, expected: &[&str]) {
    check::<Job>(indexed(json!({"successPolicy": {"rules": rules}})), expected);
}

const RULE: &str = "spec.podFailurePolicy.rules[0]";

#[test]
fn a_rule_acts_on_exit_codes_or_conditions() {
    check_failure(
        json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "pi", "operator": "In", "values": [1, 42]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}},
        ]),
        &[],
    );
    let codes = json!({"operator": "In", "values": [1]});
    check_failure(
        json!([{"action": "Count", "onExitCodes": codes, "onPodConditions": [{"type": "A"}]}]),
        &[&format!(
            "{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
        )],
    );
    check_failure(
        json!([{"action": "Count"}]),
        &[&format!(
            "{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        )],
    );
}

#[test]
fn actions_are_known_and_failing_an_index_takes_a_limit() {
    let rules = |action: &str| json!([{"action": action, "onPodConditions": [{"type": "A"}]}]);
    check_failure(
        rules(""),
        &[&format!(
            "{RULE}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
        )],
    );
    check_failure(
        rules("Wait"),
        &[&format!(
            "{RULE}.action: Unsupported value: \"Wait\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""
        )],
    );
    check_failure(
        rules("FailIndex"),
        &[&format!(
            "{RULE}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"
        )],
    );
    let policy = json!({"rules": rules("FailIndex")});
    check::<Job>(indexed(json!({"podFailurePolicy": policy, "backoffLimitPerIndex": 1})), &[]);
}

#[test]
fn exit_codes_are_ordered_and_there_once() {
    let rules = |codes: Value| json!([{"action": "Count", "onExitCodes": codes}]);
    check_failure(
        rules(json!({"containerName": "other", "operator": "In", "values": [0, 5, 5, 3]})),
        &[
            &format!(
                "{RULE}.onExitCodes.containerName: Invalid value: \"other\": must be one of the container or initContainer names in the pod template"
            ),
            &format!(
                "{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"
            ),
            &format!("{RULE}.onExitCodes.values[2]: Duplicate value: 5"),
            &format!("{RULE}.onExitCodes.values: Invalid value: [0,5,5,3]: must be ordered"),
        ],
    );
    check_failure(
        rules(json!({"operator": "", "values": []})),
        &[
            &format!(
                "{RULE}.onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]"
            ),
            &format!(
                "{RULE}.onExitCodes.values: Invalid value: null: at least one value is required"
            ),
        ],
    );
    let many: Vec<i32> = (1..=256).collect();
    check_failure(
        rules(json!({"operator": "Near", "values": many})),
        &[
            &format!(
                "{RULE}.onExitCodes.operator: Unsupported value: \"Near\": supported values: \"In\", \"NotIn\""
            ),
            &format!("{RULE}.onExitCodes.values: Too many: 256: must have at most 255 items"),
        ],
    );
}

#[test]
fn conditions_and_rules_are_few_and_well_formed() {
    let pattern = json!({"type": "A", "status": "Maybe"});
    check_failure(
        json!([{"action": "Count", "onPodConditions": [pattern]}]),
        &[&format!(
            "{RULE}.onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
        )],
    );
    let patterns: Vec<Value> = vec![json!({"type": "A"}); 21];
    check_failure(
        json!([{"action": "Count", "onPodConditions": patterns}]),
        &[&format!("{RULE}.onPodConditions: Too many: 21: must have at most 20 items")],
    );
    let rules = vec![json!({"action": "Count", "onPodConditions": [{"type": "A"}]}); 21];
    check_failure(
        json!(rules),
        &["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"],
    );
}

#[test]
fn with_a_failure_policy_pods_fail_for_good() {
    let policy = json!({"rules": [{"action": "Count", "onPodConditions": [{"type": "A"}]}]});
    let mut manifest = job(json!({
        "podFailurePolicy": policy, "podReplacementPolicy": "TerminatingOrFailed",
    }));
    manifest["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    check::<Job>(
        manifest,
        &[
            "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
        ],
    );
    check::<Job>(
        job(json!({"podReplacementPolicy": "Never"})),
        &[
            "spec.podReplacementPolicy: Unsupported value: \"Never\": supported values: \"Failed\", \"TerminatingOrFailed\"",
        ],
    );
}

#[test]
fn success_is_of_some_indexes_or_of_a_number_of_them() {
    let rule = "spec.successPolicy.rules[0]";
    check_success(json!([{"succeededIndexes": "0-2"}, {"succeededCount": 5}]), &[]);
    check_success(
        json!([]),
        &[
            "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified",
        ],
    );
    check_success(
        json!([{}]),
        &[&format!(
            "{rule}: Required value: at least one of succeededCount or succeededIndexes must be specified"
        )],
    );
    check_success(
        json!([{"succeededIndexes": "0-7", "succeededCount": 6}]),
        &[
            &format!(
                "{rule}.succeededIndexes: Invalid value: \"0-7\": error parsing succeededIndexes: too large index: \"7\""
            ),
            &format!(
                "{rule}.succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)"
            ),
            &format!(
                "{rule}.succeededCount: Invalid value: 6: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)"
            ),
        ],
    );
    check_success(
        json!([{"succeededIndexes": "1,3", "succeededCount": 3}]),
        &[&format!(
            "{rule}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"
        )],
    );
    check_success(
        json!(vec![json!({"succeededCount": 1}); 21]),
        &["spec.successPolicy.rules: Too many: 21: must have at most 20 items"],
    );
    check::<Job>(
        job(json!({"successPolicy": {"rules": [{"succeededCount": 1}]}})),
        &[
            "spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: requires indexed completion mode",
        ],
    );
}
