//! What this server stores and can read, in a StorageVersion for each resource that is its own. One
//! that somebody changed or deleted is put right at the next look.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::apiserverinternal::{StorageVersion, storage_version};
use apimachinery::ApiError;
use k8s_openapi::api::apiserverinternal::v1alpha1::ServerStorageVersion;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::version_of;
use crate::own_calls;
use crate::pipeline::{self, Core};
use crate::registry::{Family, Kinds};

/// What is to be said, as long as nothing else is served: built-in kinds stay what they are.
#[derive(Default)]
pub(super) struct Published {
    wanted: Option<Vec<(String, ServerStorageVersion)>>,
}

impl Published {
    /// A look at the cache for each; a write where it is not right.
    pub(super) async fn settle(&mut self, core: &Core, id: &str) {
        let wanted = self.wanted.get_or_insert_with(|| wanted(&core.registry.kinds(), id));
        for (name, own) in wanted {
            if let Err(err) = settle(core, name, own).await
                && !err.is_conflict()
                && !err.is_already_exists()
                && !err.is_not_found()
            {
                let error = stdx::error_chain(&err);
                tracing::warn!(%name, error, "what is stored was not published");
            }
        }
    }
}

async fn settle(core: &Core, name: &str, own: &ServerStorageVersion) -> Result<(), ApiError> {
    let stored = match version_of(core, name) {
        Some(stored) => stored,
        None => {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let made = StorageVersion { metadata, ..StorageVersion::default() };
            own_calls::create(core, made).await?;
            // A status is written apart.
            let Some(made) = version_of(core, name) else { return Ok(()) };
            made
        }
    };
    match with_own(&stored, own, pipeline::now(core)) {
        Some(better) => own_calls::update(core, better, Some("status")).await,
        None => Ok(()),
    }
}

/// With what this server says; `None`: it says so already.
fn with_own(
    stored: &StorageVersion,
    own: &ServerStorageVersion,
    now: Time,
) -> Option<StorageVersion> {
    let mut better = stored.clone();
    let generation = better.metadata.generation;
    let status = better.status.get_or_insert_default();
    let all = status.storage_versions.get_or_insert_default();
    match all.iter_mut().find(|it| it.api_server_id == own.api_server_id) {
        Some(said) => *said = own.clone(),
        None => all.push(own.clone()),
    }
    storage_version::agree(status, generation, now);
    (better != *stored).then_some(better)
}

/// By the name of the StorageVersion. Resources of several groups that share a place in the store
/// are said once, under the first.
fn wanted(kinds: &Kinds, id: &str) -> Vec<(String, ServerStorageVersion)> {
    let mut all: Vec<_> = kinds.families().filter_map(|it| of_family(it, id)).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

fn of_family(family: &Arc<Family>, id: &str) -> Option<(String, ServerStorageVersion)> {
    let served = family.served();
    let first = served.iter().min_by_key(|it| (&it.group, &it.plural))?;
    let group = if first.group.is_empty() { "core" } else { &first.group };
    let of_it = served.iter().filter(|it| it.group == first.group && it.plural == first.plural);
    let served: BTreeSet<String> = of_it.map(|it| it.api_version()).collect();
    let own = ServerStorageVersion {
        api_server_id: id.to_owned(),
        encoding_version: family.stored().names().api_version(),
        decodable_versions: family.decodable().map(str::to_owned).collect(),
        served_versions: Some(served.into_iter().collect()),
    };
    Some((format!("{group}.{}", first.plural), own))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use features::{Gates, RuntimeConfig};
    use jiff::Timestamp;

    use super::*;
    use crate::enabled;
    use crate::registry::Registry;

    fn all() -> BTreeMap<String, ServerStorageVersion> {
        let kinds = enabled::kinds(&RuntimeConfig::default(), &Gates::default()).unwrap();
        wanted(&Registry::new(kinds).kinds(), "a").into_iter().collect()
    }

    #[test]
    fn each_place_in_the_store_is_said_once_with_all_that_can_be_read_there() {
        let all = all();
        let check = |name: &str, encoding: &str, decodable: &[&str], served: &[&str]| {
            let found = &all[name];
            assert_eq!((&*found.api_server_id, &*found.encoding_version), ("a", encoding));
            assert_eq!(found.decodable_versions, decodable, "{name}");
            assert_eq!(found.served_versions.as_deref().unwrap(), served, "{name}");
        };
        check("core.pods", "v1", &["v1"], &["v1"]);
        check("apps.deployments", "apps/v1", &["apps/v1"], &["apps/v1"]);
        let both = &["autoscaling/v1", "autoscaling/v2"];
        let autoscalers = &all["autoscaling.horizontalpodautoscalers"];
        assert_eq!(autoscalers.served_versions.as_deref().unwrap(), both);
        check(
            "core.events",
            &all["core.events"].encoding_version,
            &["events.k8s.io/v1", "v1"],
            &["v1"],
        );
        assert!(!all.contains_key("events.k8s.io.events"));
        assert!(!all.contains_key("authentication.k8s.io.tokenreviews"), "it is not stored");
    }

    #[test]
    fn what_a_server_says_stands_beside_what_others_say() {
        let own = all().remove("apps.deployments").unwrap();
        let at = |seconds| Time(Timestamp::from_second(seconds).unwrap());
        let empty = StorageVersion::default();
        let first = with_own(&empty, &own, at(1)).expect("it is new");
        assert_eq!(with_own(&first, &own, at(2)), None, "it is said");
        let status = first.status.clone().unwrap();
        assert_eq!(status.common_encoding_version.as_deref(), Some("apps/v1"));
        assert_eq!(status.conditions.unwrap()[0].status, "True");
        let other = ServerStorageVersion {
            api_server_id: "b".to_owned(),
            encoding_version: "apps/v2".to_owned(),
            ..own.clone()
        };
        let both = with_own(&first, &other, at(3)).expect("another is new").status.unwrap();
        assert_eq!(both.storage_versions.unwrap().len(), 2);
        assert_eq!(
            (both.common_encoding_version, &*both.conditions.unwrap()[0].status),
            (None, "False")
        );
    }
}
