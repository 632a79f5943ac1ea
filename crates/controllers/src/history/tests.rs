//! Templates and revisions in, what the history needs out.

use std::sync::Arc;

use api::Resource as _;
use api::apps::{ControllerRevision, StatefulSet};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Limit, Record, Step, data, hash, plan, surplus, template};

/// A set whose template has this image.
pub(crate) fn set(image: &str) -> StatefulSet {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    });
    let mut set: StatefulSet = serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "owner",
            "annotations": {"kubernetes.io/change-cause": image},
        },
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }))
    .unwrap();
    set.apply_defaults();
    set
}

fn stored(mut revision: ControllerRevision) -> Arc<ControllerRevision> {
    revision.metadata.uid = revision.metadata.name.clone();
    Arc::new(revision)
}

fn made(set: &StatefulSet, revisions: &[Arc<ControllerRevision>]) -> Arc<ControllerRevision> {
    match plan(set, revisions.to_vec()) {
        Step::Create(it) => stored(*it),
        other => panic!("{other:?}"),
    }
}

fn complete(set: &StatefulSet, revisions: &[Arc<ControllerRevision>]) -> Record {
    match plan(set, revisions.to_vec()) {
        Step::Complete(it) => it,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_revision_stores_the_patch_that_brings_its_template_back() {
    let one = made(&set("a"), &[]);
    let data = &one.data.as_ref().unwrap().0;
    assert_eq!(data["spec"]["template"]["$patch"], "replace");
    assert_eq!(data["spec"]["template"]["spec"]["containers"][0]["image"], "a");
    assert_eq!(data.as_object().unwrap().len(), 1);
    assert_eq!(template(&one).as_ref(), Some(&set("a").spec.unwrap().template));
    let meta = &one.metadata;
    let hash = &meta.labels.as_ref().unwrap()["controller.kubernetes.io/hash"];
    assert_eq!(meta.name.as_deref(), Some(format!("web-{hash}").as_str()));
    assert_eq!(meta.labels.as_ref().unwrap()["app"], "web");
    assert_eq!(meta.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "a");
    assert_eq!((one.revision, &meta.owner_references.as_ref().unwrap()[0].uid[..]), (1, "owner"));
}

/// What upstream writes of a template with this container.
fn upstreams(container: &str) -> String {
    format!(
        "{{\"spec\":{{\"template\":{{\"$patch\":\"replace\",\
         \"metadata\":{{\"labels\":{{\"app\":\"web\"}}}},\
         \"spec\":{{\"containers\":[{container}],\"dnsPolicy\":\"ClusterFirst\",\
         \"restartPolicy\":\"Always\",\"schedulerName\":\"default-scheduler\",\
         \"securityContext\":{{}},\"terminationGracePeriodSeconds\":30}}}}}}}}"
    )
}

/// What upstream's controllers of v1.34 and later write, and kubectl compares its own with.
#[test]
fn a_revision_has_upstreams_bytes() {
    let made = made(&set("a"), &[]);
    let written = serde_json::to_string(&made.data.as_ref().unwrap().0).unwrap();
    let container = "{\"image\":\"a\",\"imagePullPolicy\":\"Always\",\"name\":\"main\",\
                     \"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\
                     \"terminationMessagePolicy\":\"File\"}";
    let expected = upstreams(container);
    assert_eq!(written, expected);
}

/// Upstream compares the bytes of revisions, and Go escapes what could end a script in a page.
#[test]
fn texts_are_escaped_as_upstream_escapes_them() {
    let mut set = set("a");
    let template = &mut set.spec.as_mut().unwrap().template;
    let container = &mut template.spec.as_mut().unwrap().containers[0];
    container.command = Some(vec!["sh".to_owned(), "-c".to_owned(), "a < b && c > d".to_owned()]);
    let made = made(&set, &[]);
    let container = "{\"command\":[\"sh\",\"-c\",\"a \\u003c b \\u0026\\u0026 c \\u003e d\"],\
                     \"image\":\"a\",\"imagePullPolicy\":\"Always\",\"name\":\"main\",\
                     \"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\
                     \"terminationMessagePolicy\":\"File\"}";
    let expected = upstreams(container);
    // As it goes to any API server, and comes from ours.
    let sent = String::from_utf8(made.encode()).unwrap();
    assert!(sent.contains(&format!("\"data\":{expected},")), "{sent}");
    // FNV-1 of those bytes and the number of collisions, which upstream names it by, too.
    assert_eq!(made.metadata.name.as_deref(), Some("web-545bc7d59c"));
    // What upstream wrote, as any API server gives it back, is found again.
    let theirs = sent.replace(&made.metadata.name.clone().unwrap(), "web-theirs");
    let theirs = Arc::new(ControllerRevision::decode(theirs.as_bytes()).unwrap());
    assert_eq!(complete(&set, std::slice::from_ref(&theirs)).update, theirs);
}

#[test]
fn names_are_upstreams() {
    // FNV-1 of `{}0`, spelt in decimal with letters that make no words.
    let hash = hash(&json!({}), 0);
    assert!((6..=10).contains(&hash.len()), "{hash}");
    assert!(hash.bytes().all(|it| b"bcdfghjklmnpqrstvwxz2456789".contains(&it)), "{hash}");
    assert_ne!(hash, super::plan::hash(&json!({}), 1));
}

#[test]
fn a_template_that_is_known_is_not_stored_again() {
    let one = made(&set("a"), &[]);
    assert_eq!(complete(&set("a"), std::slice::from_ref(&one)).update, one);
    let two = made(&set("b"), std::slice::from_ref(&one));
    assert_eq!(two.revision, 2);
    assert_eq!(complete(&set("b"), &[two.clone(), one]).update, two);
}

#[test]
fn a_template_that_comes_back_becomes_the_latest() {
    let one = made(&set("a"), &[]);
    let two = made(&set("b"), std::slice::from_ref(&one));
    let step = plan(&set("a"), vec![one.clone(), two]);
    assert!(matches!(step, Step::Renumber(it, 3) if it == one));
}

#[test]
fn what_leaves_out_defaults_means_the_same() {
    let mut short = ControllerRevision::clone(&made(&set("a"), &[]));
    let template = json!({
        "$patch": "replace",
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "a"}]},
    });
    short.data.as_mut().unwrap().0 = json!({"spec": {"template": template}});
    let short = Arc::new(short);
    assert_ne!(short.data.as_ref().unwrap().0, data(&set("a")));
    let record = complete(&set("a"), std::slice::from_ref(&short));
    assert_eq!((&record.update, record.equal.len()), (&short, 1));
    assert!(matches!(plan(&set("b"), vec![short]), Step::Create(_)));
}

#[test]
fn absurd_data_is_another_template() {
    for data in [Value::Null, json!([]), json!({"spec": 3}), json!({"spec": {"template": "x"}})] {
        let mut odd = ControllerRevision::clone(&made(&set("a"), &[]));
        odd.data.as_mut().unwrap().0 = data;
        odd.revision = i64::MAX;
        let Step::Create(new) = plan(&set("a"), vec![Arc::new(odd)]) else { panic!() };
        assert_eq!(new.revision, i64::MAX);
    }
}

fn past(count: i64) -> Record {
    let revision = |number: i64| {
        let mut revision = ControllerRevision { revision: number, ..Default::default() };
        revision.metadata.name = Some(format!("r{number}"));
        stored(revision)
    };
    let revisions: Vec<_> = (1..=count).map(revision).collect();
    let update = revisions.last().unwrap().clone();
    Record { revisions, equal: vec![update.clone()], update }
}

#[test]
fn the_oldest_that_nobody_uses_go_beyond_the_limit() {
    let names = |limit: Limit, used: &[&str]| -> Vec<String> {
        let is_used =
            |it: &ControllerRevision| used.contains(&it.metadata.name.as_deref().unwrap());
        let gone = surplus(&past(5), limit, is_used);
        gone.iter().map(|it| it.metadata.name.clone().unwrap()).collect()
    };
    assert_eq!(names(Limit::BesideUsed(2), &[]), ["r1", "r2"]);
    assert_eq!(names(Limit::BesideUsed(2), &["r1"]), ["r2"]);
    assert_eq!(names(Limit::WithUsed(2), &["r1"]), ["r2", "r3"]);
    assert_eq!(names(Limit::BesideUsed(0), &[]), ["r1", "r2", "r3", "r4"]);
    assert_eq!(names(Limit::BesideUsed(-1), &[]), [""; 0]);
    assert_eq!(names(Limit::WithUsed(10), &[]), [""; 0]);
}

proptest! {
    #[test]
    fn a_history_is_complete_after_one_step_and_stays_so(images in prop::collection::vec("[a-c]", 1..12)) {
        let mut revisions: Vec<Arc<ControllerRevision>> = Vec::new();
        for image in images {
            let set = set(&image);
            let steps = |revisions: &Vec<Arc<ControllerRevision>>| match plan(&set, revisions.clone()) {
                Step::Complete(_) => Vec::new(),
                Step::Create(it) => vec![stored(*it)],
                Step::Renumber(it, number) => {
                    let mut it = ControllerRevision::clone(&it);
                    it.revision = number;
                    vec![Arc::new(it)]
                }
            };
            let apply = |revisions: &mut Vec<Arc<ControllerRevision>>, written: Arc<ControllerRevision>| {
                revisions.retain(|it| it.metadata.name != written.metadata.name);
                revisions.push(written);
            };
            revisions = converges(steps, apply, revisions, 1).unwrap();
            let record = complete(&set, &revisions);
            prop_assert!(template(&record.update).as_ref() == set.spec.as_ref().map(|it| &it.template));
            prop_assert!(record.revisions.iter().all(|it| it.revision <= record.update.revision));
        }
        prop_assert!(revisions.len() <= 3);
    }
}
