//! What other servers serve of this API: whose which group and version is, as APIServices say, and
//! what is known of it. Kept here for all who show or pass on; who asks those servers is
//! `aggregation`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::apiregistration::APIService;
use api::apiregistration::api_service::availability;
use api::discovery_documents::{Foreign, group_priority, version_priority};
use apimachinery::{GroupResource, GroupVersion, GroupVersionResource, Scope};
use arc_swap::ArcSwap;
use authn::pki::Rotating;
use bytes::Bytes;
use client::{Deprecated, Discovered, Trust};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use serde::Deserialize;
use telemetry::Registry;

/// Taken over by connections for other protocols, which HTTP/2 does not allow.
const PROTOCOL: &[u8] = b"http/1.1";

/// One version of a group that another server serves.
pub(crate) struct Remote {
    /// Of its APIService.
    pub(crate) name: String,
    pub(crate) group_version: GroupVersion,
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) port: u16,
    /// How it is believed, and what this server shows to it; or why that cannot be.
    pub(crate) tls: Result<Arc<ClientConfig>, String>,
    /// As its condition says.
    pub(crate) is_available: bool,
    /// What the rest was made from, so that it is made anew only when it changes.
    origin: Origin,
}

#[derive(Clone, PartialEq, Eq)]
struct Origin {
    ca_bundle: Vec<u8>,
    is_insecure: bool,
}

impl Remote {
    /// The name that its certificate must have.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// What a server said about a version of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// The resources, as aggregated discovery has them: a JSON array.
    pub(crate) resources: Bytes,
    /// `pods`, `pods/log`.
    names: BTreeSet<String>,
    /// Where its OpenAPI v3 is: a path with the hash of the document.
    pub(crate) openapi_v3: Option<String>,
}

impl Told {
    pub(crate) fn with_resources(self, resources: Bytes) -> Self {
        #[derive(Deserialize)]
        struct Resource {
            #[serde(default)]
            resource: String,
            #[serde(default)]
            subresources: Vec<Subresource>,
        }
        #[derive(Deserialize)]
        struct Subresource {
            subresource: String,
        }
        let all: Vec<Resource> = serde_json::from_slice(&resources).unwrap_or_default();
        let names = all.into_iter().flat_map(|Resource { resource, subresources }| {
            let below = |it: Subresource| format!("{resource}/{}", it.subresource);
            let below: Vec<String> = subresources.into_iter().map(below).collect();
            below.into_iter().chain([resource])
        });
        Self { names: names.collect(), resources, ..self }
    }

    /// Whether its server says that it has such a resource.
    pub(crate) fn has(&self, resource: &str, subresource: &str) -> bool {
        match subresource {
            "" => self.names.contains(resource),
            _ => self.names.contains(&format!("{resource}/{subresource}")),
        }
    }
}

/// One consistent view.
#[derive(Clone, Default)]
pub(crate) struct Table {
    remotes: BTreeMap<GroupVersion, Arc<Remote>>,
    told: BTreeMap<GroupVersion, Arc<Told>>,
    /// Of the group and of the version, where they are not what everybody assumes.
    priorities: BTreeMap<GroupVersion, (u32, u32)>,
    /// Grows with every change of what is shown.
    pub(crate) generation: u64,
}

impl Table {
    pub(crate) fn remotes(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.remotes.values()
    }

    pub(crate) fn find(&self, group_version: &GroupVersion) -> Option<&Arc<Remote>> {
        self.remotes.get(group_version)
    }

    pub(crate) fn told(&self, group_version: &GroupVersion) -> Option<&Arc<Told>> {
        self.told.get(group_version)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.remotes.keys().any(|it| it.group == group)
    }

    /// What discovery shows of it.
    pub(crate) fn foreign(&self) -> Vec<Foreign> {
        let each = self.remotes.iter().map(|(group_version, remote)| {
            let told = self.told.get(group_version);
            Foreign {
                group_version: group_version.clone(),
                resources: told
                    .map_or_else(|| Bytes::from_static(b"[]"), |it| it.resources.clone()),
                is_stale: !remote.is_available || told.is_none(),
            }
        });
        each.collect()
    }

    /// The resources of those that can be asked for them: the preferred version of each.
    pub(crate) fn discovered(&self) -> Vec<Discovered> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Resource {
            resource: String,
            response_kind: Option<ResponseKind>,
            scope: String,
            verbs: Vec<String>,
        }
        #[derive(Deserialize)]
        struct ResponseKind {
            kind: String,
        }
        let mut found: BTreeMap<GroupResource, (u32, Discovered)> = BTreeMap::new();
        for (version, told) in &self.told {
            let is_available = self.remotes.get(version).is_some_and(|it| it.is_available);
            let resources: Vec<Resource> = match is_available {
                true => serde_json::from_slice(&told.resources).unwrap_or_default(),
                false => Vec::new(),
            };
            let place = self.priorities.get(version).map_or(0, |it| it.1);
            for it in resources {
                let Some(kind) = it.response_kind else { continue };
                let resource = GroupVersionResource::new(
                    version.group.as_str(),
                    version.version.as_str(),
                    it.resource,
                );
                let is_cluster = it.scope == "Cluster";
                let scope = if is_cluster { Scope::Cluster } else { Scope::Namespaced };
                let key = resource.group_resource();
                let discovered = Discovered { resource, kind: kind.kind, scope, verbs: it.verbs };
                if found.get(&key).is_none_or(|it| it.0 < place) {
                    found.insert(key, (place, discovered));
                }
            }
        }
        found.into_values().map(|it| it.1).collect()
    }

    pub(crate) fn priorities(&self) -> &BTreeMap<GroupVersion, (u32, u32)> {
        &self.priorities
    }
}

pub(crate) struct Aggregated {
    /// What this server shows to others; without one it passes nothing on.
    identity: Option<Arc<Rotating>>,
    /// What is wrong with the certificates that others show.
    pub(crate) deprecated: Arc<Deprecated>,
    current: ArcSwap<Table>,
    changing: Mutex<()>,
}

impl Aggregated {
    pub(crate) fn new(identity: Option<Arc<Rotating>>, metrics: &Registry) -> Self {
        let deprecated = Deprecated::of_aggregator(metrics);
        Self { identity, deprecated, current: ArcSwap::default(), changing: Mutex::default() }
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        self.current.load_full()
    }

    /// Who serves a path that begins with `/apis/group/version`, if not this server.
    pub(crate) fn find_path(&self, path: &str) -> Option<Arc<Remote>> {
        let table = self.current.load();
        if table.remotes.is_empty() {
            return None;
        }
        let rest = path.trim_start_matches('/').strip_prefix("apis/")?;
        let mut segments = rest.split('/').map(|it| percent_decode_str(it).decode_utf8_lossy());
        let group_version = GroupVersion::new(segments.next()?, segments.next()?);
        table.find(&group_version).cloned()
    }

    /// What the server of a version says that it has, if it said anything.
    pub(crate) fn told(&self, group_version: &GroupVersion) -> Option<Arc<Told>> {
        self.current.load().told(group_version).cloned()
    }

    pub(crate) fn find(&self, group_version: &GroupVersion) -> Option<Arc<Remote>> {
        self.current.load().find(group_version).cloned()
    }

    /// An APIService as it is now. Those of versions that are built in here are heeded for their
    /// place in line alone.
    pub(crate) fn set(&self, service: &APIService, is_built_in: bool) {
        let Some(spec) = &service.spec else { return };
        let group_version = GroupVersion::new(
            spec.group.clone().unwrap_or_default(),
            spec.version.clone().unwrap_or_default(),
        );
        let priority = |it: i32| u32::try_from(it).unwrap_or_default();
        let places = (priority(spec.group_priority_minimum), priority(spec.version_priority));
        let usual = (
            group_priority(&group_version.group),
            version_priority(&group_version.group, &group_version.version),
        );
        self.change(|table| {
            let before = table.remotes.get(&group_version).cloned();
            let remote = match is_built_in {
                true => None,
                false => self.remote(service, &group_version, before.as_deref()),
            };
            let is_same = match (&before, &remote) {
                (None, None) => true,
                (Some(before), Some(remote)) => before.is_available == remote.is_available,
                _ => false,
            };
            let places = (places != usual).then_some(places);
            let is_in_place = table.priorities.get(&group_version) == places.as_ref();
            match places {
                Some(places) => drop(table.priorities.insert(group_version.clone(), places)),
                None => drop(table.priorities.remove(&group_version)),
            }
            match remote {
                Some(remote) => drop(table.remotes.insert(group_version.clone(), Arc::new(remote))),
                None => {
                    table.remotes.remove(&group_version);
                    table.told.remove(&group_version);
                }
            }
            !is_same || !is_in_place
        });
    }

    /// There is no APIService of this version any more.
    pub(crate) fn remove(&self, group_version: &GroupVersion) {
        self.change(|table| {
            table.told.remove(group_version);
            let had_place = table.priorities.remove(group_version).is_some();
            table.remotes.remove(group_version).is_some() || had_place
        });
    }

    /// What its server said; nothing of one that is registered no more.
    pub(crate) fn tell(&self, group_version: &GroupVersion, told: Told) {
        self.change(|table| {
            let is_meant = table.remotes.contains_key(group_version);
            if !is_meant || table.told.get(group_version).is_some_and(|it| **it == told) {
                return false;
            }
            table.told.insert(group_version.clone(), Arc::new(told));
            true
        });
    }

    /// `change` says whether what is shown is another.
    fn change(&self, change: impl FnOnce(&mut Table) -> bool) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.current.load());
        if change(&mut table) {
            table.generation += 1;
        }
        self.current.store(Arc::new(table));
    }

    fn remote(
        &self,
        service: &APIService,
        group_version: &GroupVersion,
        before: Option<&Remote>,
    ) -> Option<Remote> {
        let spec = service.spec.as_ref()?;
        let target = spec.service.as_ref()?;
        let origin = Origin {
            ca_bundle: spec.ca_bundle.as_ref().map(|it| it.0.clone()).unwrap_or_default(),
            is_insecure: spec.insecure_skip_tls_verify == Some(true),
        };
        let kept = before.filter(|it| it.origin == origin).map(|it| it.tls.clone());
        Some(Remote {
            name: service.metadata.name.clone().unwrap_or_default(),
            group_version: group_version.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            service: target.name.clone().unwrap_or_default(),
            port: u16::try_from(target.port.unwrap_or(443)).unwrap_or_default(),
            tls: kept.unwrap_or_else(|| self.tls(&origin).map(Arc::new)),
            is_available: availability::is_reachable(service),
            origin,
        })
    }

    fn tls(&self, origin: &Origin) -> Result<ClientConfig, String> {
        let identity = self.identity.clone();
        let identity: Arc<dyn ResolvesClientCert> =
            identity.ok_or("this server has no identity to show to other servers")?;
        let trust = match origin.is_insecure {
            true => Trust::Anybody,
            false => Trust::Authorities(origin.ca_bundle.clone()),
        };
        let config = trust.config(Some(identity), &self.deprecated);
        let mut config = config.map_err(|err| err.to_string())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use api::Resource as _;
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value, is_available: bool) -> APIService {
        let mut whole = json!({
            "group": "example.org", "version": "v1",
            "groupPriorityMinimum": 1000, "versionPriority": 100,
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
        let mut service = APIService::decode(
            json!({"metadata": {"name": "v1.example.org"}, "spec": whole}).to_string().as_bytes(),
        )
        .unwrap();
        if is_available {
            let now = jiff::Timestamp::UNIX_EPOCH;
            availability::set(&mut service, availability::Verdict::passed(), now);
        }
        service
    }

    fn remote() -> Value {
        json!({"service": {"namespace": "n", "name": "s"}, "insecureSkipTLSVerify": true})
    }

    #[test]
    fn only_what_is_another_server_s_is_passed_on() {
        let aggregated = Aggregated::new(None, &Registry::default());
        let at = |path: &str| aggregated.find_path(path).map(|it| it.host());
        assert_eq!(at("/apis/example.org/v1"), None);
        aggregated.set(&service(remote(), true), false);
        for path in [
            "/apis/example.org/v1",
            "//apis/example.org/v1/",
            "/apis/example.org/v1/a/b",
            "/apis/example%2Eorg/v1",
        ] {
            assert_eq!(at(path).as_deref(), Some("s.n.svc"), "{path}");
        }
        for path in ["/apis/example.org", "/apis/example.org/v2/a", "/api/v1", "/apis", "/x"] {
            assert_eq!(at(path), None, "{path}");
        }
        // It is served here, now; or was all the time.
        aggregated.set(&service(json!({}), true), false);
        assert_eq!(at("/apis/example.org/v1"), None);
        aggregated.set(&service(remote(), true), true);
        assert_eq!(at("/apis/example.org/v1"), None);
    }

    #[test]
    fn what_is_shown_changes_with_what_is_known_alone() {
        let aggregated = Aggregated::new(None, &Registry::default());
        let version = GroupVersion::new("example.org", "v1");
        let mut before = 0;
        let mut has_changed = || {
            let after = aggregated.table().generation;
            std::mem::replace(&mut before, after) != after
        };
        aggregated.set(&service(remote(), false), false);
        assert!(has_changed());
        assert!(aggregated.table().foreign()[0].is_stale);
        aggregated.set(&service(remote(), false), false);
        assert!(!has_changed());
        aggregated.set(&service(remote(), true), false);
        assert!(has_changed());
        let told = Told::default().with_resources(Bytes::from_static(b"[{}]"));
        aggregated.tell(&version, told.clone());
        assert!(has_changed());
        assert!(!aggregated.table().foreign()[0].is_stale);
        aggregated.tell(&version, told.clone());
        assert!(!has_changed());
        let mut first = service(remote(), true);
        first.spec.as_mut().unwrap().version_priority = 7;
        aggregated.set(&first, false);
        assert!(has_changed());
        assert_eq!(aggregated.table().priorities()[&version], (1000, 7));
        aggregated.remove(&version);
        assert!(has_changed());
        aggregated.tell(&version, told);
        assert!(!has_changed(), "of one that is gone nothing is kept");
        assert!(aggregated.table().foreign().is_empty());
    }

    #[test]
    fn who_cannot_be_believed_is_not_called() {
        let authority = authn::pki::Authority::create(
            "test",
            jiff::Timestamp::UNIX_EPOCH,
            &stdx::Random::from_seed(1),
        )
        .unwrap();
        let identity = Rotating::new(&authority.identity()).unwrap();
        let aggregated = Aggregated::new(Some(identity), &Registry::default());
        let check = |bundle: &[u8], is_insecure: bool, expected: Result<(), &str>| {
            let origin = Origin { ca_bundle: bundle.to_vec(), is_insecure };
            let seen = aggregated.tls(&origin).map(drop);
            assert_eq!(seen, expected.map_err(str::to_owned));
        };
        check(authority.certificate_pem().as_bytes(), false, Ok(()));
        check(b"", true, Ok(()));
        // Whom the system trusts is trusted, then.
        check(b"", false, Ok(()));
        let unreadable =
            "unable to load root certificates: the caBundle has no certificate that can be read";
        check(b"nothing", false, Err(unreadable));
        check(b"\xff", false, Err(unreadable));
    }
}
