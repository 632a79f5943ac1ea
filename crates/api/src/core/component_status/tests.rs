//! Health in; cells out.

use serde_json::{Value, json};

use super::{ComponentStatus, of};
use crate::kind::Resource;

fn check(status: &ComponentStatus, expected: Value) {
    let now = "2024-01-02T03:05:05Z".parse().unwrap();
    assert_eq!(Value::from(status.row(now)), expected);
}

#[test]
fn a_component_is_healthy_or_not() {
    check(&of("etcd-0", Ok(())), json!(["etcd-0", "Healthy", "ok", ""]));
    check(
        &of("scheduler", Err("it has no leader".to_owned())),
        json!(["scheduler", "Unhealthy", "it has no leader", ""]),
    );
    let mut unknown = of("scheduler", Ok(()));
    unknown.conditions = None;
    check(&unknown, json!(["scheduler", "Unknown", "", ""]));
}
