//! Discovery of the built-in kinds.

use serde_json::Value;

use super::*;

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn versions_go_from_stable_to_alpha() {
    let mut versions = ["v1alpha1", "foo", "v1", "v1beta2", "v10", "v2", "v1beta1", "bar"];
    versions.sort_by(|a, b| version_order(a, b));
    assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo"]);
}

#[test]
fn groups_come_by_priority() {
    let kinds = crate::kinds();
    let list = parse(&group_list(&kinds));
    let names: Vec<&str> =
        list["groups"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    let places: Vec<u32> = names.iter().map(|it| group_priority(it)).collect();
    assert!(places.is_sorted_by(|a, b| a >= b), "{names:?}");
    assert_eq!(names[..2], ["apiregistration.k8s.io", "apps"]);
    // Every built-in group has its place, before those of custom resources.
    assert!(places.last() > Some(&group_priority("example.org")), "{names:?}");
    assert_eq!(group_versions(&kinds)[0].to_string(), "v1");
}

#[test]
fn a_group_names_its_preferred_version() {
    let group = parse(&group(&crate::kinds(), "apps").unwrap());
    assert_eq!(group["kind"], "APIGroup");
    assert_eq!(group["preferredVersion"]["groupVersion"], "apps/v1");
    assert!(super::group(&crate::kinds(), "nothing.example.org").is_none());
}

#[test]
fn a_subresource_of_another_kind_names_its_group() {
    let list = parse(&resource_list(&crate::kinds(), &GroupVersion::new("apps", "v1")).unwrap());
    let find = |name: &str| {
        list["resources"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    };
    let deployments = find("deployments");
    assert_eq!(deployments["shortNames"][0], "deploy");
    assert_eq!(deployments["storageVersionHash"], "8aSe+NMegvE=");
    assert_eq!(deployments["namespaced"], true);
    assert_eq!(find("deployments/scale")["group"], "autoscaling");
    assert!(find("deployments/status").get("group").is_none());
}

#[test]
fn the_aggregated_form_of_the_core_group_has_no_name() {
    let list = parse(&aggregated_core(&crate::kinds()));
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert!(list["items"][0]["metadata"].get("name").is_none());
    let version = &list["items"][0]["versions"][0];
    assert_eq!(version["freshness"], "Current");
    let pods = version["resources"].as_array().unwrap().iter().find(|it| it["resource"] == "pods");
    let eviction = pods.unwrap()["subresources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["subresource"] == "eviction")
        .unwrap();
    assert_eq!(eviction["responseKind"]["group"], "policy");
    assert_eq!(eviction["responseKind"]["kind"], "Eviction");
}

#[test]
fn the_aggregated_form_shows_scope_and_verbs() {
    let list = parse(&aggregated_groups(&crate::kinds()));
    let apps = &list["items"][1];
    assert_eq!(apps["metadata"]["name"], "apps");
    let resources = apps["versions"][0]["resources"].as_array().unwrap();
    let deployment = resources.iter().find(|it| it["resource"] == "deployments").unwrap();
    assert_eq!(deployment["scope"], "Namespaced");
    assert_eq!(deployment["responseKind"]["kind"], "Deployment");
    assert_eq!(deployment["verbs"][0], "create");
}

fn foreign(version: &str, group: &str, resources: &'static str, is_stale: bool) -> Foreign {
    let group_version = GroupVersion::new(group, version);
    Foreign { group_version, resources: resources.into(), is_stale }
}

#[test]
fn versions_of_other_servers_stand_among_the_rest_by_priority() {
    let kinds = crate::kinds();
    let others = [
        foreign("v1", "wardle.example.com", r#"[{"resource":"flunders"}]"#, false),
        foreign("v2", "wardle.example.com", "[]", true),
        foreign("v1beta1", "metrics.k8s.io", "[]", false),
        foreign("v1", "a.example.com", "[]", false),
    ];
    let priorities = [
        (GroupVersion::new("wardle.example.com", "v1"), (17_801, 200)),
        (GroupVersion::new("wardle.example.com", "v2"), (10, 100)),
    ];
    let priorities = priorities.into();
    let shown = Shown { kinds: &kinds, foreign: &others, priorities: Some(&priorities) };
    let list = parse(&aggregated_groups(shown));
    let items = list["items"].as_array().unwrap();
    let names: Vec<&str> =
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "wardle.example.com", "apps"]);
    assert_eq!(names.last(), Some(&"metrics.k8s.io"), "{names:?}");
    assert_eq!(names[names.len() - 2], "a.example.com");
    let versions = &items[1]["versions"];
    assert_eq!(
        (&versions[0]["version"], &versions[0]["freshness"]),
        (&"v1".into(), &"Current".into())
    );
    assert_eq!(versions[0]["resources"][0]["resource"], "flunders");
    assert_eq!(
        (&versions[1]["version"], &versions[1]["freshness"]),
        (&"v2".into(), &"Stale".into())
    );
    // What another server serves is not served here.
    let metrics = items.last().unwrap();
    assert_eq!(metrics["versions"].as_array().unwrap().len(), 1);
    assert_eq!(metrics["versions"][0]["resources"], serde_json::json!([]));
    let group = parse(&group(shown, "wardle.example.com").unwrap());
    assert_eq!(group["preferredVersion"]["groupVersion"], "wardle.example.com/v1");
    assert_eq!(group["versions"][1]["version"], "v2");
}
