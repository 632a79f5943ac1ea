//! Every amount that a pod spec can have is one that LimitRanges are held against, or is known not to
//! be. One that is new is neither, and fails here until somebody has thought about it.

use std::collections::{BTreeMap, BTreeSet};

use api::amounts::Amounts;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::json;

use super::{check_refused, create, ranges};
use crate::plugins::limit_ranger::totals;
use crate::plugins::pod_fields::{self, with};

/// What an amount is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// What is said of each container, and of the pod as a whole.
    Container,
    /// What is said of the pod.
    Pod,
    /// Nothing: the reason.
    Not(&'static str),
}

const DIVISOR: Held = Held::Not("it asks for nothing: it is what something is shown in");
const EPHEMERAL: Held = Held::Not("such containers may not ask for anything");
const CLAIM: Held =
    Held::Not("the claim that is made of it is held against what is said of claims");

const KNOWN: &[(&str, Held)] = &[
    ("containers.[].resources.limits.{}", Held::Container),
    ("containers.[].resources.requests.{}", Held::Container),
    ("ephemeralContainers.[].resources.limits.{}", EPHEMERAL),
    ("ephemeralContainers.[].resources.requests.{}", EPHEMERAL),
    ("initContainers.[].resources.limits.{}", Held::Container),
    ("initContainers.[].resources.requests.{}", Held::Container),
    ("overhead.{}", Held::Not("nobody asks for it: the RuntimeClass has it")),
    ("resources.limits.{}", Held::Pod),
    ("resources.requests.{}", Held::Pod),
    ("volumes.[].downwardAPI.items.[].resourceFieldRef.divisor", DIVISOR),
    ("volumes.[].emptyDir.sizeLimit", Held::Not("quotas and LimitRanges do not know it")),
    ("volumes.[].ephemeral.volumeClaimTemplate.spec.resources.limits.{}", CLAIM),
    ("volumes.[].ephemeral.volumeClaimTemplate.spec.resources.requests.{}", CLAIM),
    ("volumes.[].projected.sources.[].downwardAPI.items.[].resourceFieldRef.divisor", DIVISOR),
];
const OF_CONTAINERS: &[(&str, Held)] = &[("env.[].valueFrom.resourceFieldRef.divisor", DIVISOR)];

fn known() -> BTreeMap<String, Held> {
    let mut known = pod_fields::of_containers(OF_CONTAINERS);
    known.extend(KNOWN.iter().map(|(path, held)| ((*path).to_owned(), *held)));
    known
}

#[test]
fn no_amount_is_new() {
    let known: BTreeSet<String> = known().into_keys().collect();
    assert_eq!(pod_fields::quantities(), known, "are new ones held against LimitRanges?");
}

#[test]
fn the_pod_asks_for_what_its_parts_ask_for() {
    for (path, held) in known() {
        let spec: PodSpec = serde_json::from_value(with(&path, json!("2"))).expect("a pod spec");
        let asked = totals::asked_by(&spec);
        let of = |amounts: &Amounts| amounts.get("cpu").map(|it| it.amount.millis());
        let found = [of(&asked.requests), of(&asked.limits)];
        let expected = match (held, path.contains("limits.")) {
            (Held::Not(_), _) => [None, None],
            (_, false) => [Some(2_000), None],
            (_, true) => [None, Some(2_000)],
        };
        assert_eq!(found, expected, "{path}");
    }
}

/// Containers in each list, and what holds for each of them.
#[test]
fn each_container_is_held_against_what_is_said_of_containers() {
    let lists: BTreeSet<String> = known()
        .into_iter()
        .filter(|it| it.1 == Held::Container)
        .filter_map(|(path, _)| Some(path.split_once('.')?.0.to_owned()))
        .collect();
    assert_eq!(lists.len(), 2);
    for list in &lists {
        let given =
            json!({"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "1"}});
        let spec = |resources: &serde_json::Value| {
            let mut spec = json!({"containers": [{"name": "a"}]});
            spec[list] = json!([{"name": "x", "resources": resources}]);
            spec
        };
        let pod = create(ranges(&[given]), &spec(&json!({}))).expect("a pod");
        let expected = json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}});
        assert_eq!(pod["spec"][list][0]["resources"], expected, "{list}");
        // Beside it is one that is within the bounds, if it is another.
        let fine = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}});
        let asking = |requests: &str, limits: &str| {
            let mut spec = json!({"containers": [{"name": "a", "resources": fine}]});
            let resources = json!({"requests": {"cpu": requests}, "limits": {"cpu": limits}});
            spec[list] = json!([{"name": "x", "resources": resources}]);
            spec
        };
        let bound = |field: &str, value: &str| json!({"type": "Container", field: {"cpu": value}});
        check_refused(
            bound("max", "2"),
            &asking("1", "3"),
            "maximum cpu usage per Container is 2, but limit is 3",
        );
        check_refused(
            bound("min", "2"),
            &asking("1", "3"),
            "minimum cpu usage per Container is 2, but request is 1",
        );
        check_refused(
            bound("maxLimitRequestRatio", "2"),
            &asking("1", "3"),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        );
    }
}
