//! The keys by which API servers over one etcd know of each other, as upstream's:
//! `/registry/masterleases/IP`, with an Endpoints as value, bound to a lease that ends 15 s after
//! its server was last heard of.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use api::core::Endpoints;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use kvstore::{Error, KeyRange, KeyValue, LeaseId, Op, PutLease, RangeRequest, Store, Txn};

use crate::cache::{MASTER_LEASES, ROOT};
use crate::pipeline::Core;

const TTL: Duration = Duration::from_secs(15);
/// Upstream's keys have no port. Servers that have not this one may share a machine, and need keys
/// of their own.
const PORT_DEFAULT: u16 = 6443;

pub(crate) struct MasterLease {
    address: SocketAddr,
    lease: Option<LeaseId>,
}

impl MasterLease {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, lease: None }
    }

    fn key(&self) -> String {
        match self.address.port() {
            PORT_DEFAULT => format!("{ROOT}{MASTER_LEASES}{}", self.address.ip()),
            _ => format!("{ROOT}{MASTER_LEASES}{}", self.address),
        }
    }

    /// Keeps this server's key, and returns where all servers are.
    pub(super) async fn renew(&mut self, core: &Core) -> Result<BTreeSet<SocketAddr>, Error> {
        let store = core.cache.store().as_ref();
        let (id, is_new) = self.keep_alive(store).await?;
        let all = KeyRange::prefix(format!("{ROOT}{MASTER_LEASES}").as_bytes());
        let entries = store.range(RangeRequest::latest(all)).await?.entries;
        let key = self.key();
        // One that another server on this address had bound to its lease has gone with that.
        if is_new || !entries.iter().any(|it| it.key == key.as_bytes()) {
            store.txn(Txn::of(vec![self.put(core, key, id)]).without_previous_values()).await?;
        }
        let found = entries.iter().filter_map(|it| self.address_in(core, it));
        Ok(found.chain([self.address]).collect())
    }

    /// The lease, and whether it is a new one.
    async fn keep_alive(&mut self, store: &dyn Store) -> Result<(LeaseId, bool), Error> {
        if let Some(id) = self.lease {
            match store.lease_keep_alive(id).await {
                Ok(_) => return Ok((id, false)),
                Err(Error::LeaseNotFound { .. }) => self.lease = None,
                Err(err) => return Err(err),
            }
        }
        let id = store.lease_grant(None, TTL).await?;
        self.lease = Some(id);
        Ok((id, true))
    }

    fn put(&self, core: &Core, key: String, lease: LeaseId) -> Op {
        let endpoints = Endpoints {
            subsets: Some(vec![EndpointSubset {
                addresses: Some(vec![EndpointAddress {
                    ip: self.address.ip().to_string(),
                    ..EndpointAddress::default()
                }]),
                ports: Some(vec![EndpointPort {
                    port: self.address.port().into(),
                    ..EndpointPort::default()
                }]),
                ..EndpointSubset::default()
            }]),
            ..Endpoints::default()
        };
        match core.cache.put(core.kind_of::<Endpoints>().as_ref(), key.into(), &endpoints) {
            Op::Put(put) => Op::Put(kvstore::Put { lease: PutLease::Bound(lease), ..put }),
            other => other,
        }
    }

    /// Upstream's values have no port: its servers all have the same.
    fn address_in(&self, core: &Core, entry: &KeyValue) -> Option<SocketAddr> {
        let kind = core.kind_of::<Endpoints>();
        let object = core.config.encoding.read_object(kind.as_ref(), &entry.value).ok()?;
        let subset = object.downcast_ref::<Endpoints>()?.subsets.as_ref()?.first()?;
        let address = subset.addresses.as_ref()?.first()?.ip.parse().ok()?;
        let port = subset.ports.as_ref().and_then(|it| it.first()).map(|it| it.port);
        let port =
            port.and_then(|it| u16::try_from(it).ok()).unwrap_or_else(|| self.address.port());
        Some(SocketAddr::new(address, port))
    }

    /// Lets the others know at once.
    pub(super) async fn leave(self, core: &Core) {
        if let Some(id) = self.lease
            && let Err(err) = core.cache.store().lease_revoke(id).await
        {
            tracing::debug!(error = %stdx::error_chain(&err), "the master lease was not given up");
        }
    }
}
