//! The sockets' maps and programs, and behind them the packets' rules.

use apimachinery::ObjectKey;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use node_api::ClusterId;
use rustix::io::Errno;

use super::SocketError;
use super::addresses::NodeAddresses;
use super::attachments::Attachments;
use super::ended::EndedSockets;
use super::layout::Table;
use super::maps::KernelMaps;
use super::ruleset::{Maps, Ruleset};
use crate::backends::{Backend, Error, Networks, nftables};
use crate::service_port::ServicePort;

/// The table of the packets' rules: not that of mode nftables, so that either mode can be purged
/// while the other is in use.
const TABLE: &str = "packets";

pub(super) fn open(cluster: ClusterId, networks: &Networks) -> Result<Box<dyn Backend>, Error> {
    let sockets = Sockets::open(cluster, networks)?;
    let packets = nftables::open_table(cluster, networks, TABLE)?;
    Ok(Box::new(Both { packets, sockets }))
}

pub(super) fn purge(cluster: ClusterId) -> Result<(), Error> {
    let purge = || match Attachments::find(cluster) {
        Ok(Some(attachments)) => attachments.purge(),
        // Where the mode cannot be, nothing of it is.
        Ok(None) | Err(SocketError::Missing { .. }) => Ok(()),
        Err(err) => Err(err),
    };
    let purged = purge().map_err(Error::from);
    nftables::purge_table(cluster, TABLE).and(purged)
}

#[derive(Debug)]
struct Both {
    packets: Box<dyn Backend>,
    sockets: Sockets,
}

impl Backend for Both {
    fn set_pods_cgroup(&mut self, name: &str) {
        self.sockets.attachments.set_pods(name);
        self.sockets.ended.set_pods(name);
    }

    fn adopt(&mut self) -> Result<(), Error> {
        self.packets.adopt()?;
        Ok(self.sockets.adopt()?)
    }

    fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        self.packets.set(service, ports.clone());
        self.sockets.set(service, ports);
    }

    /// Packets' rules first: what sockets do not translate meets them.
    fn apply(&mut self) -> Result<(), Error> {
        self.packets.apply()?;
        Ok(self.sockets.apply()?)
    }

    fn resync(&mut self) -> Result<(), Error> {
        self.packets.resync()?;
        Ok(self.sockets.resync()?)
    }

    fn disturbed(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        let Self { packets, sockets } = self;
        let disturbed = async move {
            let mut disturbed = packets.disturbed();
            loop {
                tokio::select! {
                    biased;
                    told = &mut disturbed => return told,
                    changed = sockets.addresses.changed() => {
                        changed.map_err(|source| Error::Listen { source })?;
                        sockets.apply_addresses()?;
                    }
                }
            }
        };
        disturbed.boxed()
    }
}

/// What is translated before there is a packet.
#[derive(Debug)]
struct Sockets {
    networks: Networks,
    attachments: Attachments,
    addresses: NodeAddresses,
    ended: EndedSockets,
    ruleset: Ruleset,
    /// `None`: there are none yet.
    maps: Option<KernelMaps>,
}

impl Sockets {
    fn open(cluster: ClusterId, networks: &Networks) -> Result<Self, SocketError> {
        let attachments = Attachments::find(cluster)?.ok_or(SocketError::Missing {
            what: "cgroups of version 2, mounted (mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified)",
            source: None,
        })?;
        attachments.check()?;
        let addresses = NodeAddresses::open(networks);
        Ok(Self {
            networks: networks.clone(),
            attachments,
            addresses: addresses.map_err(|source| SocketError::ReadAddresses { source })?,
            ended: EndedSockets::open(cluster.cgroup())?,
            ruleset: Ruleset::default(),
            maps: None,
        })
    }

    fn adopt(&mut self) -> Result<(), SocketError> {
        let Some(program) = self.attachments.any()? else { return Ok(()) };
        self.maps = KernelMaps::of(&program)?;
        if let Some(maps) = &self.maps {
            self.ruleset.adopt(&maps.read(Table::Slots)?.into_iter().collect());
        }
        Ok(())
    }

    fn set(&mut self, service: &ObjectKey, mut ports: Vec<ServicePort>) {
        ports.retain(|it| self.networks.serves(it.family()));
        self.ended.suspect(self.ruleset.ports(service), &ports);
        self.ruleset.set(service, ports);
    }

    fn apply(&mut self) -> Result<(), SocketError> {
        let changes = self.ruleset.take_changes();
        let Some(maps) = &self.maps else { return self.resync() };
        match maps.apply(&changes) {
            // There is no more room: in larger maps there is.
            Err(SocketError::Kernel { source }) if source.is(Errno::TOOBIG) => {
                return self.resync();
            }
            applied => applied?,
        }
        self.ended.end(maps)
    }

    fn resync(&mut self) -> Result<(), SocketError> {
        let wanted = self.ruleset.maps();
        self.ruleset.take_changes();
        let maps = match self.maps.take().filter(|it| it.have_room(&wanted)) {
            Some(maps) => maps,
            // Clients and sockets are remembered across the change by whoever has them: the programs
            // of before, until they are replaced.
            None => self.make(&wanted)?,
        };
        let before = maps.read_all()?;
        maps.apply(&wanted.since(&before))?;
        let addresses = self.addresses.read();
        let addresses = addresses.map_err(|source| SocketError::ReadAddresses { source })?;
        maps.converge(Table::Addresses, addresses)?;
        // Programs come last: they find everything.
        self.attachments.converge(&maps)?;
        self.ended.suspect_all(self.ruleset.all_ports());
        self.ended.end(&maps)?;
        self.maps = Some(maps);
        Ok(())
    }

    fn make(&self, wanted: &Maps) -> Result<KernelMaps, SocketError> {
        let before = match self.attachments.any()? {
            Some(program) => KernelMaps::of(&program)?,
            None => None,
        };
        KernelMaps::make(wanted, before)
    }

    fn apply_addresses(&mut self) -> Result<(), SocketError> {
        let Some(maps) = &self.maps else { return Ok(()) };
        let addresses = self.addresses.read();
        let addresses = addresses.map_err(|source| SocketError::ReadAddresses { source })?;
        maps.converge(Table::Addresses, addresses)
    }
}
