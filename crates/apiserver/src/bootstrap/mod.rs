//! What every cluster starts with: the first namespaces, the RBAC objects, and the Service that points to this
//! server. Written directly, before anybody is let in. What a start leaves undone, by a crash between two transactions, the
//! next one does.

use api::core::{Endpoints, Namespace, Service};
use api::discovery::EndpointSlice;
use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use api::{ApiObject, Lookup, Resource};
use apimachinery::ObjectKey;
use authz::bootstrap::{Reconcile, reconcile};
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as CorePort, EndpointSubset, NamespaceSpec, NamespaceStatus,
    ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kvstore::{Compare, Op, Revision, TXN_OPS_MAX, Txn};

use crate::cache::{path_of, put, store_key};
use crate::server::Core;

const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Everything to write, with what must hold for it.
#[derive(Default)]
struct Plan {
    writes: Vec<(Compare, Op)>,
}

/// How often to look again when another server over the same store writes the same objects.
const TRIES_MAX: usize = 5;

pub(crate) async fn run(core: &Core) -> Result<(), kvstore::Error> {
    for _ in 0..TRIES_MAX {
        let plan = plan(core);
        if plan.writes.is_empty() || plan.apply(core).await? {
            return Ok(());
        }
        tracing::info!("another server is writing the first objects");
        let _ = core.cache.wait_current().await;
    }
    Ok(())
}

fn plan(core: &Core) -> Plan {
    let mut plan = Plan::default();
    for name in NAMESPACES {
        plan.ensure(core, namespace(name), |_, _| None);
    }
    let rbac = authz::bootstrap::objects();
    for it in rbac.cluster_roles {
        plan.reconcile::<ClusterRole>(core, it);
    }
    for it in rbac.cluster_role_bindings {
        plan.reconcile::<ClusterRoleBinding>(core, it);
    }
    for it in rbac.roles {
        plan.reconcile::<Role>(core, it);
    }
    for it in rbac.role_bindings {
        plan.reconcile::<RoleBinding>(core, it);
    }
    plan.ensure(core, service(core), |_, _| None);
    plan.ensure(core, endpoints(core), |old, new| {
        (old.subsets != new.subsets)
            .then(|| Endpoints { subsets: new.subsets.clone(), ..old.clone() })
    });
    plan.ensure(core, endpoint_slice(core), |old, new| {
        let is_same = old.endpoints == new.endpoints && old.ports == new.ports;
        (!is_same).then(|| EndpointSlice {
            endpoints: new.endpoints.clone(),
            ports: new.ports.clone(),
            ..old.clone()
        })
    });
    plan
}

impl Plan {
    /// Whether nobody else was faster.
    async fn apply(mut self, core: &Core) -> Result<bool, kvstore::Error> {
        let mut is_done = true;
        while !self.writes.is_empty() {
            let rest = self.writes.split_off(TXN_OPS_MAX.min(self.writes.len()));
            let (compares, ops) = std::mem::replace(&mut self.writes, rest).into_iter().unzip();
            let txn = Txn::when(compares, ops).without_previous_values();
            let response = core.cache.store().txn(txn).await?;
            is_done &= response.succeeded;
            let _ = core.cache.wait_for(response.revision.0).await;
        }
        Ok(is_done)
    }

    /// Creates what is missing; `change` may give a better form of what is there.
    fn ensure<T: Resource>(
        &mut self,
        core: &Core,
        mut wanted: T,
        change: impl FnOnce(&T, &T) -> Option<T>,
    ) {
        let kind = core.kind_of::<T>();
        let key = api::object::key_of(wanted.metadata());
        let lookup: &dyn Lookup = core.cache.as_ref();
        let store_key = store_key(kind.as_ref(), &path_of(&key.namespace, &key.name));
        match lookup.get::<T>(&ObjectKey::new(key.namespace, key.name)) {
            None => {
                let meta = wanted.metadata_mut();
                meta.uid = Some(core.world.random.uuid());
                meta.creation_timestamp = Some(now(core));
                meta.generation = kind.has_generation().then_some(1);
                kind.apply_defaults(&mut wanted);
                let absent = Compare::absent(&store_key);
                self.writes.push((absent, put(store_key, &ApiObject::encode(&wanted))));
            }
            Some(stored) => {
                let Some(mut better) = change(&stored, &wanted) else { return };
                let meta = better.metadata_mut();
                let version = meta.resource_version.take();
                let revision = version.and_then(|it| it.parse().ok()).unwrap_or(0);
                let at = Compare::mod_revision(&store_key, Revision(revision));
                self.writes.push((at, put(store_key, &ApiObject::encode(&better))));
            }
        }
    }

    fn reconcile<T: Resource + Reconcile>(&mut self, core: &Core, wanted: T) {
        self.ensure(core, wanted, |old, new| reconcile(old, new));
    }
}

fn now(core: &Core) -> Time {
    let now = core.world.clock.now();
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

fn labels(pairs: &[(&str, &str)]) -> Option<std::collections::BTreeMap<String, String>> {
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: labels(&[("kubernetes.io/metadata.name", name)]),
            ..ObjectMeta::default()
        },
        spec: Some(NamespaceSpec { finalizers: Some(vec!["kubernetes".to_owned()]) }),
        status: Some(NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() }),
    }
}

fn metadata(pairs: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some("kubernetes".to_owned()),
        namespace: Some("default".to_owned()),
        labels: labels(pairs),
        ..ObjectMeta::default()
    }
}

fn service(core: &Core) -> Service {
    let address = core.config.service_cidr.first().to_string();
    Service {
        metadata: metadata(&[("component", "apiserver"), ("provider", "kubernetes")]),
        spec: Some(ServiceSpec {
            cluster_ip: Some(address.clone()),
            cluster_ips: Some(vec![address]),
            internal_traffic_policy: Some("Cluster".to_owned()),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ip_family_policy: Some("SingleStack".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: 443,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(core.config.advertise.port().into())),
                ..ServicePort::default()
            }]),
            session_affinity: Some("None".to_owned()),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        }),
        status: Some(Default::default()),
    }
}

fn endpoints(core: &Core) -> Endpoints {
    Endpoints {
        metadata: metadata(&[("endpointslice.kubernetes.io/skip-mirror", "true")]),
        subsets: Some(vec![EndpointSubset {
            addresses: Some(vec![EndpointAddress {
                ip: core.config.advertise.ip().to_string(),
                ..EndpointAddress::default()
            }]),
            not_ready_addresses: None,
            ports: Some(vec![CorePort {
                name: Some("https".to_owned()),
                port: core.config.advertise.port().into(),
                protocol: Some("TCP".to_owned()),
                ..CorePort::default()
            }]),
        }]),
    }
}

fn endpoint_slice(core: &Core) -> EndpointSlice {
    EndpointSlice {
        metadata: metadata(&[("kubernetes.io/service-name", "kubernetes")]),
        address_type: "IPv4".to_owned(),
        endpoints: Some(vec![Endpoint {
            addresses: vec![core.config.advertise.ip().to_string()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                ..EndpointConditions::default()
            }),
            ..Endpoint::default()
        }]),
        ports: Some(vec![EndpointPort {
            name: Some("https".to_owned()),
            port: Some(core.config.advertise.port().into()),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}
