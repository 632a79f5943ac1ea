//! Manifest in; problems or defaults out.

use serde_json::{Value, json};

use super::LimitRange;
use crate::testing::{check, check_created};

fn range(items: Value) -> Value {
    json!({"metadata": {"name": "small"}, "spec": {"limits": items}})
}

#[test]
fn containers_get_the_most_and_request_what_they_get() {
    check_created::<LimitRange>(
        range(json!([{
            "type": "Container",
            "max": {"cpu": "2"}, "min": {"memory": "1024Ki", "cpu": "1"},
            "default": {"hugepages-2Mi": "2Mi"}, "defaultRequest": {"example.com/a": "1"},
        }])),
        "/spec/limits/0",
        json!({
            "type": "Container",
            "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"},
            "default": {"cpu": "2", "hugepages-2Mi": "2Mi"},
            "defaultRequest": {
                "cpu": "2", "example.com/a": "1", "hugepages-2Mi": "2Mi", "memory": "1Mi",
            },
        }),
    );
    check_created::<LimitRange>(
        range(json!([{"type": "Pod", "max": {"cpu": "2000m"}}])),
        "/spec/limits/0",
        json!({"type": "Pod", "max": {"cpu": "2"}}),
    );
}

#[test]
fn types_are_known_and_there_once() {
    check::<LimitRange>(range(json!([{"type": "example.com/Thing", "max": {"cpu": "1"}}])), &[]);
    check::<LimitRange>(
        range(json!([{"type": "Node"}, {"type": "Pod"}, {"type": "Pod"}])),
        &[
            "spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified",
            "spec.limits[2].type: Duplicate value: \"Pod\"",
        ],
    );
}

#[test]
fn resources_are_those_that_the_type_has() {
    check::<LimitRange>(
        range(json!([
            {"type": "Pod", "max": {"storage": "1"}, "min": {"bananas": "1"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        ])),
        &[
            "spec.limits[0].max[storage]: Invalid value: \"storage\": must be a standard resource for containers",
            "spec.limits[0].min[bananas]: Invalid value: \"bananas\": must be a standard resource type or fully qualified",
            "spec.limits[0].min[bananas]: Invalid value: \"bananas\": must be a standard resource for containers",
        ],
    );
    check::<LimitRange>(
        range(json!([{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}])),
        &[
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
        ],
    );
}

#[test]
fn pods_get_nothing_by_default() {
    check::<LimitRange>(
        range(json!([{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}])),
        &[
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
        ],
    );
}

#[test]
fn bounds_are_in_order() {
    check::<LimitRange>(
        range(json!([{
            "type": "Container",
            "min": {"cpu": "5"}, "max": {"cpu": "2"},
            "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"},
        }])),
        &[
            "spec.limits[0].min[cpu]: Invalid value: \"5\": min value 5 is greater than max value 2",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": min value 5 is greater than default request value 4",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max value 2",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than default limit value 3",
            "spec.limits[0].default[cpu]: Invalid value: \"5\": min value 5 is greater than default value 3",
            "spec.limits[0].default[cpu]: Invalid value: \"2\": default value 3 is greater than max value 2",
        ],
    );
}

#[test]
fn a_ratio_can_be_kept() {
    let pod = |ratio: &str| {
        range(json!([{
            "type": "Pod",
            "min": {"cpu": "500m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": ratio},
        }]))
    };
    check::<LimitRange>(pod("2"), &[]);
    check::<LimitRange>(
        pod("2500m"),
        &[
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"2500m\": ratio 2500m is greater than max/min = 2.000000",
        ],
    );
    check::<LimitRange>(
        pod("900m"),
        &[
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"900m\": ratio 900m is less than 1",
        ],
    );
}

#[test]
fn what_cannot_be_promised_twice_is_given_as_requested() {
    check::<LimitRange>(
        range(json!([{
            "type": "Container",
            "default": {"example.com/a": "2"}, "defaultRequest": {"example.com/a": "1"},
        }])),
        &[
            "spec.limits[0].defaultRequest[example.com/a]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/a",
        ],
    );
}
