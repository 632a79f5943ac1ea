//! How pods reach the API: the Service `kubernetes`, and its endpoints, which are this server, or
//! all servers that are alive over the same store.

mod master_lease;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::core::Endpoints;
use api::discovery::EndpointSlice;
use lifecycle::Shutdown;
use stdx::Family;

pub(crate) use master_lease::MasterLease;
pub(crate) use objects::service;

use crate::pipeline::Core;
use crate::plan::Plan;

/// As upstream: well within the life of a master lease.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// What saying goodbye may take.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Where the API servers of this cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Servers {
    /// Sorted.
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Servers {
    pub(crate) fn one(address: SocketAddr) -> Self {
        Self { addresses: vec![address.ip()], port: address.port() }
    }

    /// Endpoints have one port and one family: those that most servers have, and of several the
    /// lowest, so that all servers choose the same.
    fn of(found: &BTreeSet<SocketAddr>) -> Option<Self> {
        let mut alike: BTreeMap<(u16, Family), Vec<IpAddr>> = BTreeMap::new();
        for address in found {
            let key = (address.port(), Family::of(address.ip()));
            alike.entry(key).or_default().push(address.ip());
        }
        let most = alike.values().map(Vec::len).max()?;
        let ((port, _), addresses) = alike.into_iter().find(|(_, it)| it.len() == most)?;
        Some(Self { addresses, port })
    }

    fn family(&self) -> Family {
        self.addresses.first().map_or(Family::V4, |it| Family::of(*it))
    }
}

/// Writes what the endpoints should be, where they are not.
pub(crate) fn plan_endpoints(core: &Core, servers: &Servers, plan: &mut Plan) {
    plan.ensure(core, objects::endpoints(servers), |old, new| {
        (old.subsets != new.subsets)
            .then(|| Endpoints { subsets: new.subsets.clone(), ..old.clone() })
    });
    plan.ensure(core, objects::endpoint_slice(servers), |old, new| {
        let is_same = old.endpoints == new.endpoints
            && old.ports == new.ports
            && old.address_type == new.address_type;
        (!is_same).then(|| EndpointSlice { metadata: old.metadata.clone(), ..new.clone() })
    });
}

/// Joins the servers over the same store, if there may be others. `run` must follow.
pub(crate) async fn join(core: &Core) -> Result<Option<MasterLease>, kvstore::Error> {
    if !core.config.is_shared() {
        return Ok(None);
    }
    let mut lease = MasterLease::new(core.config.advertise);
    reconcile(core, &mut lease).await?;
    Ok(Some(lease))
}

/// Says that this server is alive, and makes the endpoints all that are.
async fn reconcile(core: &Core, lease: &mut MasterLease) -> Result<(), kvstore::Error> {
    let found = lease.renew(core).await?;
    let Some(servers) = Servers::of(&found) else { return Ok(()) };
    let mut plan = Plan::default();
    plan_endpoints(core, &servers, &mut plan);
    // If another was faster, it wrote the same, or the next turn puts it right.
    plan.apply(core).await.map(drop)
}

pub(crate) async fn run(core: Arc<Core>, mut lease: MasterLease, shutdown: Shutdown) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(RENEW_EVERY) => {}
        }
        if let Err(err) = reconcile(&core, &mut lease).await {
            tracing::warn!(error = %stdx::error_chain(&err), "the endpoints of the API were not renewed");
        }
    }
    // Without it, the key goes by itself.
    let _ = tokio::time::timeout(LEAVE_MAX, lease.leave(&core)).await;
}

#[cfg(test)]
mod tests {
    use super::Servers;

    #[test]
    fn endpoints_are_the_servers_of_one_port() {
        let check = |found: &[&str], expected: &str| {
            let found = found.iter().map(|it| it.parse().expect("an address")).collect();
            let servers = Servers::of(&found).map(|it| (it.addresses, it.port));
            assert_eq!(format!("{servers:?}"), expected);
        };
        check(&[], "None");
        check(&["10.0.0.2:6443", "10.0.0.1:6443"], "Some(([10.0.0.1, 10.0.0.2], 6443))");
        check(&["10.0.0.1:7443", "10.0.0.1:6443"], "Some(([10.0.0.1], 6443))");
        check(
            &["10.0.0.1:6443", "10.0.0.2:7443", "10.0.0.3:7443"],
            "Some(([10.0.0.2, 10.0.0.3], 7443))",
        );
        check(
            &["10.0.0.1:6443", "[fd00::1]:6443", "[fd00::2]:6443"],
            "Some(([fd00::1, fd00::2], 6443))",
        );
    }
}
