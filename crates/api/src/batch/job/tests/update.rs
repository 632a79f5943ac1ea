//! A stored Job and a change in; problems out.

use apimachinery::FieldErrors;
use serde_json::{Value, json};

use super::{Job, indexed, job};
use crate::kind::{Part, Resource};
use crate::testing::created;

/// The change is made to what is stored, as `kubectl edit` does.
fn problems(stored: &Job, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut tree: Value = serde_json::from_slice(&stored.encode()).unwrap();
    change(&mut tree);
    let mut object = Job::decode(tree.to_string().as_bytes()).unwrap();
    object.apply_defaults();
    object.prepare_update(stored, Part::Main);
    let mut errors = FieldErrors::new();
    object.validate(&mut errors);
    object.validate_update(stored, Part::Main, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// The field and whether it may be changed.
fn is_free(stored: &Job, pointer: &str, value: Value) -> bool {
    let found = problems(stored, |it| {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        it.pointer_mut(parent).unwrap()[field] = value;
    });
    for problem in &found {
        assert!(problem.ends_with("field is immutable"), "{problem}");
    }
    found.is_empty()
}

fn suspended(status: Value) -> Job {
    let mut stored = created::<Job>(job(json!({"suspend": true})));
    stored.status = Some(serde_json::from_value(status).unwrap());
    stored
}

#[test]
fn how_it_works_does_not_change_and_how_much_does() {
    let stored = created::<Job>(job(json!({})));
    assert_eq!(problems(&stored, |_| {}), Vec::<String>::new());
    for (field, value) in [
        ("parallelism", json!(4)),
        ("suspend", json!(true)),
        ("backoffLimit", json!(1)),
        ("activeDeadlineSeconds", json!(9)),
        ("ttlSecondsAfterFinished", json!(9)),
    ] {
        assert!(is_free(&stored, &format!("/spec/{field}"), value), "{field}");
    }
    for (field, value) in [
        ("completions", json!(4)),
        ("completionMode", json!("Indexed")),
        ("managedBy", json!("example.com/mine")),
    ] {
        assert!(!is_free(&stored, &format!("/spec/{field}"), value), "{field}");
    }
    let stored = created::<Job>(indexed(json!({"backoffLimitPerIndex": 1})));
    for (field, value) in [
        ("backoffLimitPerIndex", json!(2)),
        ("successPolicy", json!({"rules": [{"succeededCount": 1}]})),
    ] {
        assert!(!is_free(&stored, &format!("/spec/{field}"), value), "{field}");
    }
    assert!(is_free(&stored, "/spec/maxFailedIndexes", json!(2)));
}

#[test]
fn an_indexed_job_is_scaled_with_its_workers() {
    let stored = created::<Job>(indexed(json!({"parallelism": 5})));
    let scale = |completions: i32, parallelism: i32| {
        problems(&stored, |it| {
            it["spec"]["completions"] = json!(completions);
            it["spec"]["parallelism"] = json!(parallelism);
        })
    };
    assert!(scale(3, 3).is_empty());
    assert!(scale(5, 2).is_empty());
    assert_eq!(
        scale(3, 5),
        [
            "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
        ]
    );
}

#[test]
fn a_job_that_runs_keeps_its_template() {
    let stored = created::<Job>(job(json!({})));
    for (pointer, value) in [
        ("/spec/template/spec/nodeSelector", json!({"a": "b"})),
        ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "1"}})),
    ] {
        assert!(!is_free(&stored, pointer, value), "{pointer}");
    }
}

#[test]
fn a_suspended_job_may_go_elsewhere_and_ask_for_other_resources() {
    let paused = json!({"startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Suspended", "status": "True"}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    }}});
    for stored in [suspended(json!({})), suspended(paused)] {
        for (pointer, value) in [
            ("/spec/template/spec/nodeSelector", json!({"a": "b"})),
            ("/spec/template/spec/tolerations", json!([{"operator": "Exists"}])),
            ("/spec/template/spec/affinity", affinity.clone()),
            ("/spec/template/spec/schedulingGates", json!([{"name": "example.com/wait"}])),
            ("/spec/template/metadata/annotations", json!({"a": "b"})),
            ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "1"}})),
        ] {
            assert!(is_free(&stored, pointer, value), "{pointer}");
        }
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {}},
        ]}});
        for (pointer, value) in [
            ("/spec/template/spec/containers/0/image", json!("perl:6")),
            ("/spec/template/spec/affinity", apart.clone()),
            ("/spec/template/spec/hostNetwork", json!(true)),
        ] {
            assert!(!is_free(&stored, pointer, value), "{pointer}");
        }
    }
}

#[test]
fn a_job_that_is_only_asked_to_stop_still_runs() {
    for status in [
        json!({"active": 1}),
        json!({"startTime": "2026-01-01T00:00:00Z"}),
        json!({"startTime": "2026-01-01T00:00:00Z", "active": 2,
            "conditions": [{"type": "Suspended", "status": "True"}]}),
    ] {
        let stored = suspended(status);
        assert!(!is_free(&stored, "/spec/template/spec/nodeSelector", json!({"a": "b"})));
    }
}

#[test]
fn affinity_to_nodes_comes_and_goes() {
    let nodes = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
        "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]});
    let mut stored = suspended(json!({}));
    let pod = stored.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.affinity = serde_json::from_value(json!({"nodeAffinity": nodes})).unwrap();
    assert!(is_free(&stored, "/spec/template/spec/affinity", Value::Null));
    assert!(is_free(&stored, "/spec/template/spec/affinity", json!({})));
    let pod = stored.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.affinity =
        serde_json::from_value(json!({"nodeAffinity": nodes, "podAffinity": {}})).unwrap();
    assert!(!is_free(&stored, "/spec/template/spec/affinity", Value::Null));
    assert!(is_free(&stored, "/spec/template/spec/affinity", json!({"podAffinity": {}})));
}

#[test]
fn jobs_from_before_labels_had_prefixes_can_be_written_on() {
    let mut stored = created::<Job>(job(json!({})));
    let spec = stored.spec.as_mut().unwrap();
    let labels = spec.template.metadata.as_mut().unwrap().labels.as_mut().unwrap();
    labels.retain(|key, _| !key.contains('/'));
    let old = [("controller-uid".to_owned(), "u1".to_owned())].into();
    spec.selector.as_mut().unwrap().match_labels = Some(old);
    assert!(is_free(&stored, "/spec/suspend", json!(true)));
}
