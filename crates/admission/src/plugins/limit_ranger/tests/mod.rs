//! LimitRanges and a pod or claim in; the object or the refusal out.

mod fields;

use api::core::{PersistentVolumeClaim, Pod};
use apimachinery::User;
use serde_json::{Value, json};

use super::LimitRanger;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode, encode, pod};

fn ranges(items: &[Value]) -> Objects {
    let each = items.iter().enumerate();
    each.fold(Objects::default(), |objects, (index, item)| {
        let metadata = json!({"name": format!("r{index}"), "namespace": "ns"});
        objects.with("limitranges", &json!({"metadata": metadata, "spec": {"limits": [item]}}))
    })
}

fn create(objects: Objects, spec: &Value) -> Result<Value, String> {
    let user = User::new("alice", &[]);
    let object: Pod = decode(&pod(spec));
    let case = Case::of(Operation::Create, "/pods", &user);
    case.run(LimitRanger, objects, (Some(&object), None)).map_err(|it| it.to_string())
}

fn check_refused(item: Value, spec: &Value, expected: &str) {
    let refused = create(ranges(&[item]), spec).unwrap_err();
    assert_eq!(refused, format!("pods \"web\" is forbidden: {expected}"));
}

fn container(resources: Value) -> Value {
    json!({"name": "a", "resources": resources})
}

#[test]
fn containers_get_what_they_do_not_ask_for() {
    let item = json!({
        "type": "Container",
        "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m", "memory": "512Mi"},
    });
    let spec = json!({
        "containers": [container(json!({"requests": {"cpu": "2"}})), {"name": "b"}],
        "initContainers": [{"name": "i", "resources": {
            "limits": {"cpu": "3", "memory": "3Gi"}, "requests": {"cpu": "3"},
        }}],
    });
    let pod = create(ranges(&[item]), &spec).unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "512Mi"}})
    );
    assert_eq!(
        pod["spec"]["initContainers"][0]["resources"],
        json!({"limits": {"cpu": "3", "memory": "3Gi"}, "requests": {"cpu": "3", "memory": "512Mi"}})
    );
    assert_eq!(
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container a; cpu, memory limit for container a; \
         cpu, memory request for container b; cpu, memory limit for container b; \
         memory request for init container i"
    );
}

#[test]
fn who_lacks_nothing_stays_as_it_is() {
    let spec = json!({"containers": [{"name": "a"}]});
    let unchanged = encode(&decode::<Pod>(&pod(&spec)));
    assert_eq!(create(Objects::default(), &spec).unwrap(), unchanged);
    let other = json!({"type": "Pod", "max": {"cpu": "1"}});
    let elsewhere =
        json!({"metadata": {"name": "r", "namespace": "other"}, "spec": {"limits": [other]}});
    let objects = Objects::default().with("limitranges", &elsewhere);
    assert_eq!(create(objects, &spec).unwrap(), unchanged);
}

#[test]
fn each_container_keeps_the_bounds() {
    let min = || json!({"type": "Container", "min": {"cpu": "100m"}});
    let of = |resources: Value| json!({"containers": [container(resources)]});
    check_refused(
        min(),
        &of(json!({})),
        "minimum cpu usage per Container is 100m.  No request is specified",
    );
    check_refused(
        min(),
        &of(json!({"requests": {"cpu": "50m"}})),
        "minimum cpu usage per Container is 100m, but request is 50m",
    );
    check_refused(
        min(),
        &of(json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "50m"}})),
        "minimum cpu usage per Container is 100m, but limit is 50m",
    );
    let max = || json!({"type": "Container", "max": {"memory": "1Gi"}});
    check_refused(
        max(),
        &of(json!({})),
        "maximum memory usage per Container is 1Gi.  No limit is specified",
    );
    check_refused(
        max(),
        &of(json!({"limits": {"memory": "2Gi"}})),
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
    );
    check_refused(
        max(),
        &of(json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1025Mi"}})),
        "maximum memory usage per Container is 1Gi, but request is 1025Mi",
    );
    let exact = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1024Mi"}});
    assert!(create(ranges(&[max()]), &of(exact)).is_ok());
}

#[test]
fn a_limit_is_not_too_far_from_the_request() {
    let item = || json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}});
    let of = |resources: Value| json!({"containers": [container(resources)]});
    let fits = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "150m"}});
    assert!(create(ranges(&[item()]), &of(fits)).is_ok());
    let rule = "cpu max limit to request ratio per Container is 1500m, but";
    check_refused(
        item(),
        &of(json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}})),
        &format!("{rule} provided ratio is 2.000000"),
    );
    check_refused(
        item(),
        &of(json!({"limits": {"cpu": "1"}})),
        &format!("{rule} no request is specified or request is 0"),
    );
    check_refused(
        item(),
        &of(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "0"}})),
        &format!("{rule} no limit is specified or limit is 0"),
    );
}

#[test]
fn a_pod_is_the_sum_of_its_containers_or_what_it_says() {
    let item = || json!({"type": "Pod", "max": {"cpu": "1", "memory": "2Gi"}});
    let each = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "1Gi"}});
    let two = json!({"containers": [container(each("500m")), container(each("500m"))]});
    assert!(create(ranges(&[item()]), &two).is_ok());
    let three = json!({"containers": [
        container(each("500m")), container(each("500m")), container(each("1m")),
    ]});
    check_refused(
        item(),
        &three,
        "[maximum cpu usage per Pod is 1, but limit is 1001m, maximum memory usage per Pod is 2Gi, but limit is 3Gi]",
    );
    let own = json!({
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
        "containers": [container(each("500m"))],
    });
    check_refused(item(), &own, "maximum cpu usage per Pod is 1, but limit is 2");
    let init = json!({
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": each("600m")},
            {"name": "i", "resources": each("600m")},
        ],
        "containers": [container(each("100m"))],
    });
    check_refused(item(), &init, "maximum cpu usage per Pod is 1, but limit is 1200m");
}

#[test]
fn a_claim_is_neither_too_small_nor_too_large() {
    let user = User::new("alice", &[]);
    let claim = |size: Value| -> PersistentVolumeClaim {
        let metadata = json!({"name": "data", "namespace": "ns"});
        decode(&json!({"metadata": metadata, "spec": {"resources": {"requests": size}}}))
    };
    let item = json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}});
    let run = |operation: Operation, size: Value| {
        let case = Case { name: "data", ..Case::of(operation, "/persistentvolumeclaims", &user) };
        let (new, old) = (claim(size), claim(json!({})));
        let old = (operation == Operation::Update).then_some(&old as _);
        let outcome = case.run(LimitRanger, ranges(std::slice::from_ref(&item)), (Some(&new), old));
        outcome.map(drop).map_err(|it| it.to_string())
    };
    let refused = |why: &str| Err(format!("persistentvolumeclaims \"data\" is forbidden: {why}"));
    assert_eq!(run(Operation::Create, json!({"storage": "5Gi"})), Ok(()));
    for operation in [Operation::Create, Operation::Update] {
        assert_eq!(
            run(operation, json!({"storage": "512Mi"})),
            refused("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi")
        );
        assert_eq!(
            run(operation, json!({"storage": "6Gi"})),
            refused("maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi")
        );
    }
}

#[test]
fn what_goes_may_ask_for_anything() {
    let user = User::new("alice", &[]);
    let claim: PersistentVolumeClaim = decode(&json!({
        "metadata": {"name": "data", "namespace": "ns", "deletionTimestamp": "2024-01-02T03:04:05Z"},
    }));
    let item = json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}});
    let case = Case::of(Operation::Update, "/persistentvolumeclaims", &user);
    assert!(case.run(LimitRanger, ranges(&[item]), (Some(&claim), Some(&claim))).is_ok());
}
