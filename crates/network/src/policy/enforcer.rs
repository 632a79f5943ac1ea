//! Makes the kernel hold what the state says, one transaction per family and change, and ends
//! connections that are not allowed any more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use linux::netlink;
use linux::netlink::conntrack::{Conntrack, Entry};
use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{Nftables, TableId};
use linux::netlink::route::RouteSocket;
use node_api::ClusterId;
use stdx::Family;

use super::model::{Direction, Protocol};
use super::state::{Connection, State};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open the kernel's rules of network policies")]
    Open { source: netlink::Error },
    #[error("change the kernel's rules of network policies")]
    Apply { source: netlink::Error },
    #[error("compare the kernel's rules of network policies")]
    Resync { source: netlink::Error },
    #[error("end connections that network policies forbid")]
    EndConnections { source: netlink::Error },
    #[error("hear of changes to the kernel's rules of network policies")]
    Listen { source: netlink::Error },
    #[error("tell the kernel of network policies: we panicked")]
    Panicked,
    #[error("remove the kernel's rules of network policies")]
    Purge { source: netlink::Error },
}

pub(super) fn table(cluster: ClusterId, family: Family) -> TableId {
    TableId::new(table_family(family), cluster.table("policy"))
}

/// Removes the cluster's tables, if they are there. Needs nothing running.
pub fn purge(cluster: ClusterId) -> Result<(), Error> {
    let purge = |family| Nftables::open(table(cluster, family))?.purge();
    let purged = FAMILIES.map(purge).into_iter().collect::<Result<(), _>>();
    purged.map_err(|source| Error::Purge { source })
}

/// In the network namespace in which it was opened.
#[derive(Debug)]
pub struct Enforcer {
    pub state: State,
    tables: BTreeMap<Family, Nftables>,
    conntrack: Conntrack,
    routes: RouteSocket,
}

impl Enforcer {
    /// In the network namespace of the calling thread. Changes nothing yet.
    pub fn open(cluster: ClusterId, state: State) -> Result<Self, Error> {
        let open = || {
            let open = |family| Ok((family, Nftables::open(table(cluster, family))?));
            let tables = FAMILIES.into_iter().map(open).collect::<Result<_, netlink::Error>>()?;
            Ok((tables, Conntrack::open()?, RouteSocket::open()?))
        };
        let (tables, conntrack, routes) = open().map_err(|source| Error::Open { source })?;
        Ok(Self { state, tables, conntrack, routes })
    }

    /// Of the sockets by which the tables are changed.
    pub(super) fn ports(&self) -> Vec<u32> {
        self.tables.values().map(Nftables::port).collect()
    }

    /// Tells the kernel what changed. On an error only [`Self::resync`] helps.
    pub fn apply(&mut self) -> Result<(), Error> {
        for (family, changes) in self.state.take_changes() {
            if let Some(table) = self.tables.get_mut(&family).filter(|_| !changes.is_empty()) {
                table.apply(&changes).map_err(|source| Error::Apply { source })?;
            }
        }
        Ok(())
    }

    /// Compares everything, and changes what differs.
    pub fn resync(&mut self) -> Result<(), Error> {
        self.converge().map(drop)
    }

    /// Says in which families anything had to change.
    fn converge(&mut self) -> Result<Vec<Family>, Error> {
        let wanted: BTreeMap<_, _> = self.state.tables().collect();
        let mut changed = Vec::new();
        for (family, socket) in &mut self.tables {
            let done = match wanted.get(family).copied().flatten() {
                Some(table) => socket.converge(table),
                // Nobody is isolated, or pods have no such addresses any more.
                None => socket.purge().map(|()| false),
            };
            if done.map_err(|source| Error::Resync { source })? {
                changed.push(*family);
            }
        }
        self.state.know_told();
        Ok(changed)
    }

    /// After somebody else changed the tables.
    pub(super) fn mend(&mut self) -> Result<(), Error> {
        for family in self.converge()? {
            tracing::warn!(%family, "somebody changed the rules of network policies; mended");
        }
        Ok(())
    }

    /// After the rules changed, so that what is tried again meets the new ones.
    pub fn end_forbidden(&mut self) -> Result<(), Error> {
        let suspects = self.state.take_suspects();
        let families: Vec<Family> =
            self.state.tables().filter(|(_, it)| it.is_some()).map(|(family, _)| family).collect();
        if suspects.is_empty() || families.is_empty() {
            return Ok(());
        }
        let ended = self.try_to_end(&suspects, &families);
        if ended.is_err() {
            self.state.suspect(suspects);
        }
        ended.map_err(|source| Error::EndConnections { source })
    }

    fn try_to_end(
        &mut self,
        suspects: &BTreeSet<IpAddr>,
        families: &[Family],
    ) -> Result<(), netlink::Error> {
        let local = self.routes.addresses()?.iter().map(|it| it.address).collect();
        for family in families {
            for protocol in Protocol::ALL {
                let state = &self.state;
                let is_forbidden =
                    |it: &Entry| is_forbidden(it, protocol, state, (suspects, &local));
                let number = protocol.number();
                let n_ended = self.conntrack.delete_where(*family, number, is_forbidden)?;
                if n_ended > 0 {
                    tracing::info!(%protocol, n_ended, "ended connections that policies forbid");
                }
            }
        }
        Ok(())
    }
}

/// What the node itself sends is allowed, and what it is sent, but for our DNS.
fn is_forbidden(
    entry: &Entry,
    protocol: Protocol,
    state: &State,
    (suspects, local): (&BTreeSet<IpAddr>, &BTreeSet<IpAddr>),
) -> bool {
    let (source, destination) = (entry.original.source, entry.reply.source);
    let port = entry.reply.source_port;
    let is_suspect = suspects.contains(&source) || suspects.contains(&destination);
    if !is_suspect || source.is_loopback() || local.contains(&source) {
        return false;
    }
    let connection = Connection { protocol, source, destination, port };
    match local.contains(&destination) {
        true => {
            state.is_name_server(destination, protocol, port)
                && !state.allows_at(&connection, Direction::Egress)
        }
        false => !state.allows(&connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{NamedPort, Pod, Policy};
    use crate::policy::state::NameServer;
    use apimachinery::ObjectKey;
    use linux::netlink::conntrack::Tuple;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_connection_is_judged_by_where_it_really_goes() {
        let mut state = State::new("node-1", &[Family::V4]);
        let pod = |address: &str, app: &str| Pod {
            labels: [("app", app)].into_iter().collect(),
            node: "node-1".into(),
            addresses: vec![ip(address)],
            ..Pod::default()
        };
        let pods = apimachinery::selector::Labels::parse("app=closed").unwrap();
        let policy = Policy { pods, ingress: Some(vec![]), egress: Some(vec![]) };
        state.set_policy(&ObjectKey::new("x", "p"), Some(policy));
        state.set_pod(&ObjectKey::new("x", "a"), Some(pod("10.0.0.2", "closed")));
        state.set_pod(&ObjectKey::new("x", "b"), Some(pod("10.0.0.3", "open")));
        let port = NamedPort { name: "dns".into(), protocol: Protocol::Udp, number: 53 };
        let server = NameServer { address: ip("10.0.0.1"), ports: vec![port] };
        state.set_name_servers([server].into());
        let check = |source: &str, to: &str, really: &str, port: u16, expected: bool| {
            let tuple = |source: &str, source_port, destination: &str, destination_port| Tuple {
                source: ip(source),
                source_port,
                destination: ip(destination),
                destination_port,
            };
            let reply = tuple(really, port, source, 4000);
            let entry = Entry::new(17, tuple(source, 4000, to, 80), reply);
            let suspects = ["10.0.0.2"].map(ip).into();
            let local = ["10.0.0.1", "192.0.2.1"].map(ip).into();
            let result = is_forbidden(&entry, Protocol::Udp, &state, (&suspects, &local));
            assert_eq!(result, expected, "{source} {to} {really} {port}");
        };
        check("10.0.0.3", "10.96.0.9", "10.0.0.2", 80, true);
        check("10.0.0.2", "198.51.100.7", "198.51.100.7", 80, true);
        check("10.0.0.3", "10.96.0.9", "198.51.100.7", 80, false);
        // The node's probes, its clients of host ports, and what it serves.
        check("10.0.0.1", "10.0.0.2", "10.0.0.2", 80, false);
        check("127.0.0.1", "127.0.0.1", "10.0.0.2", 80, false);
        check("10.0.0.2", "192.0.2.1", "192.0.2.1", 6443, false);
        check("10.0.0.2", "10.96.0.10", "10.0.0.1", 53, true);
    }
}
