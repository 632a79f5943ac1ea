//! Which APIServices there should be, and what is to be done about one that is there or not. Pure.
//!
//! As upstream's autoregistration: what is built in is put right once, when a server starts; what
//! definitions add is kept right. What nobody marked as managed is its author's.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Kind;
use api::apiregistration::APIService;
use api::apiregistration::api_service::name_of;
use api::discovery_documents::{group_priority, version_priority};
use apimachinery::GroupVersion;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;

use crate::registry::Kinds;

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";

/// The group of APIServices themselves, which has none of its own.
const OWN_GROUP: &str = "apiregistration.k8s.io";

/// What is served unless somebody registers another server for it: an APIService of this group is
/// always its author's.
const UNREGISTERED: &str = api::metrics::GROUP;

/// By name.
pub(super) type Wanted = BTreeMap<String, APIService>;

/// Every group and version of the set but the one of APIServices.
pub(super) fn wanted(kinds: &Kinds) -> Wanted {
    all(kinds.iter(), |_| true)
}

/// Makes those of one group that definitions add what they are now; the names of those that came
/// or went.
pub(super) fn renew(wanted: &mut Wanted, kinds: &Kinds, group: &str) -> Vec<String> {
    let now = kinds.groups().get(group);
    let now = all(now.into_iter().flat_map(|it| it.iter()), |is_custom| is_custom);
    let is_of_group = |name: &&String| name.split_once('.').is_some_and(|it| it.1 == group);
    let before: Vec<String> = wanted.keys().filter(is_of_group).cloned().collect();
    let gone: Vec<String> = before.iter().filter(|it| !now.contains_key(*it)).cloned().collect();
    let new: Vec<String> = now.keys().filter(|it| !before.contains(it)).cloned().collect();
    wanted.retain(|name, _| !gone.contains(name));
    wanted.extend(now);
    [gone, new].concat()
}

fn all<'a>(kinds: impl Iterator<Item = &'a Arc<dyn Kind>>, is_meant: fn(bool) -> bool) -> Wanted {
    let versions: BTreeMap<GroupVersion, bool> = kinds
        .filter(|it| ![OWN_GROUP, UNREGISTERED].contains(&it.names().group.as_str()))
        .map(|it| (it.names().gvr().group_version(), it.is_custom()))
        .collect();
    let meant = versions.iter().filter(|(_, is_custom)| is_meant(**is_custom));
    let each = meant.map(|(it, is_custom)| {
        let how = if *is_custom { ALWAYS } else { ON_START };
        (name_of(&it.group, &it.version), api_service(it, how))
    });
    each.collect()
}

fn api_service(version: &GroupVersion, how: &str) -> APIService {
    let GroupVersion { group, version } = version;
    APIService {
        metadata: ObjectMeta {
            name: Some(name_of(group, version)),
            labels: Some([(MANAGED.to_owned(), how.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(APIServiceSpec {
            group: Some(group.clone()).filter(|it| !it.is_empty()),
            version: Some(version.clone()),
            group_priority_minimum: i32::try_from(group_priority(group)).unwrap_or(i32::MAX),
            version_priority: i32::try_from(version_priority(group, version)).unwrap_or(i32::MAX),
            ..APIServiceSpec::default()
        }),
        status: None,
    }
}

fn managed(service: &APIService) -> Option<&str> {
    let label = service.metadata.labels.as_ref()?.get(MANAGED)?;
    Some(label.as_str()).filter(|it| [ON_START, ALWAYS].contains(it))
}

/// What to do about an APIService.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Keep,
    Create(APIService),
    Update(APIService),
    Delete,
}

/// When a server starts: whatever is managed is made what it should be.
pub(super) fn step_at_start(found: Option<&APIService>, wanted: Option<&APIService>) -> Step {
    match (found, wanted) {
        (None, None) => Step::Keep,
        (None, Some(wanted)) => Step::Create(wanted.clone()),
        (Some(found), _) if managed(found).is_none() => Step::Keep,
        (Some(_), None) => Step::Delete,
        (Some(found), Some(wanted)) if found.spec == wanted.spec => Step::Keep,
        (Some(found), Some(wanted)) => {
            Step::Update(APIService { spec: wanted.spec.clone(), ..found.clone() })
        }
    }
}

/// While it runs: only of what is always to be there.
pub(super) fn step(found: Option<&APIService>, wanted: Option<&APIService>) -> Step {
    match found.map(managed) {
        Some(Some(ON_START)) => Step::Keep,
        _ => step_at_start(found, wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(how: Option<&str>, priority: i32) -> APIService {
        let version = GroupVersion::new("example.org", "v1");
        let mut service = api_service(&version, how.unwrap_or_default());
        if let Some(spec) = &mut service.spec {
            spec.version_priority = priority;
        }
        service
    }

    fn name(step: Step) -> &'static str {
        match step {
            Step::Keep => "keep",
            Step::Create(_) => "create",
            Step::Update(_) => "update",
            Step::Delete => "delete",
        }
    }

    #[test]
    fn what_is_managed_is_put_right_at_the_start() {
        let wanted = found(Some(ALWAYS), 100);
        for (how, priority, with, without) in [
            (None, 1, "keep", "keep"),
            (Some(ON_START), 1, "update", "delete"),
            (Some(ON_START), 100, "keep", "delete"),
            (Some(ALWAYS), 1, "update", "delete"),
        ] {
            let found = found(how, priority);
            assert_eq!(name(step_at_start(Some(&found), Some(&wanted))), with);
            assert_eq!(name(step_at_start(Some(&found), None)), without);
        }
        assert_eq!(name(step_at_start(None, Some(&wanted))), "create");
        assert_eq!(name(step_at_start(None, None)), "keep");
    }

    #[test]
    fn afterwards_only_what_is_always_managed_is() {
        let wanted = found(Some(ALWAYS), 100);
        for (how, with, without) in [
            (None, "keep", "keep"),
            (Some(ON_START), "keep", "keep"),
            (Some(ALWAYS), "update", "delete"),
        ] {
            let found = found(how, 1);
            assert_eq!(name(step(Some(&found), Some(&wanted))), with);
            assert_eq!(name(step(Some(&found), None)), without);
        }
        assert_eq!(name(step(None, Some(&wanted))), "create");
    }

    #[test]
    fn every_version_but_its_own_has_one() {
        let registry = crate::registry::Registry::new(api::kinds());
        let wanted = wanted(&registry.kinds());
        assert!(wanted.contains_key("v1."));
        assert!(wanted.contains_key("v2.autoscaling"));
        assert!(!wanted.contains_key("v1.apiregistration.k8s.io"));
        let spec = wanted["v1.apps"].spec.as_ref().expect("a spec");
        assert_eq!((spec.group_priority_minimum, spec.version_priority), (17_800, 15));
        let mut always = Wanted::new();
        assert!(renew(&mut always, &registry.kinds(), "apps").is_empty());
        assert!(always.is_empty());
    }
}
