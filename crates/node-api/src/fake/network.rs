//! A pod network of one range per family that carries nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use stdx::{Cidr, Family};
use tokio::sync::watch;

use super::Node;
use super::state::{Attached, State};
use crate::network::{Attachment, HostPort, Loss, Namespace, PodNetwork, Protocol, Status};
use crate::{Error, Future, SandboxId};

impl PodNetwork for Node {
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>> {
        Box::pin(async move {
            self.enter(format!("network.attach {}", attachment.pod)).await?;
            self.state().attach(attachment)
        })
    }

    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()> {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let pod = self.state().attachments.get(&sandbox).map(|it| it.pod.to_string());
            self.enter(format!("network.detach {}", pod.as_deref().unwrap_or("?"))).await?;
            self.state().attachments.remove(&sandbox);
            self.forget_losses();
            Ok(())
        })
    }

    fn keep_only(&self, sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()> {
        Box::pin(async move {
            self.enter(format!("network.keep_only {}", sandboxes.len())).await?;
            self.state().attachments.retain(|id, _| sandboxes.contains_key(id));
            self.forget_losses();
            Ok(())
        })
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.inner.network.subscribe()
    }
}

impl Node {
    /// From which pods get addresses from now on, one of each. At first it is 10.244.0.0/24 alone.
    pub fn set_pod_cidrs(&self, cidrs: Vec<Cidr>) {
        self.state().pod_cidrs = cidrs;
    }

    /// Takes the network away from the sandbox, as if its link had been deleted.
    pub fn lose_network(&self, sandbox: &SandboxId, what: &str) {
        let Some(pod) = self.state().attachments.get(sandbox).map(|it| it.pod.clone()) else {
            return;
        };
        self.inner.network.send_modify(|status| {
            let times = status.losses.get(sandbox).map_or(0, |it| it.times) + 1;
            let what = what.to_owned();
            let loss = Loss { pod, what, times, is_mended: false, is_pods_own: false };
            status.losses.insert(sandbox.clone(), loss);
        });
    }

    pub fn mend_network(&self, sandbox: &SandboxId) {
        self.inner.network.send_if_modified(|status| {
            status
                .losses
                .get_mut(sandbox)
                .is_some_and(|it| !std::mem::replace(&mut it.is_mended, true))
        });
    }

    /// Something that all pods share is broken, or whole again.
    pub fn set_network_fault(&self, fault: Option<&str>) {
        self.inner.network.send_modify(|it| it.fault = fault.map(str::to_owned));
    }

    /// What a sandbox lost is over when it is detached.
    pub(super) fn forget_losses(&self) {
        let attached: BTreeSet<SandboxId> = self.state().attachments.keys().cloned().collect();
        self.inner.network.send_if_modified(|status| {
            let before = status.losses.len();
            status.losses.retain(|it, _| attached.contains(it));
            status.losses.len() != before
        });
    }
}

impl State {
    pub(super) fn attach(&mut self, attachment: Attachment) -> Result<Vec<IpAddr>, Error> {
        if let Some(attached) = self.attachments.get(&attachment.sandbox) {
            return Ok(attached.addresses.clone());
        }
        let host_ports = attachment.host_ports;
        self.validate_families(&host_ports)?;
        let taken = host_ports.iter().find_map(|it| Some((it, self.holder_of(it)?)));
        if let Some((wanted, holder)) = taken {
            let protocol = name_of(wanted.protocol);
            return Err(Error::HostPortTaken { port: wanted.host_port, protocol, holder });
        }
        let mut addresses = Vec::new();
        for cidr in self.pod_cidrs.clone() {
            addresses.push(self.free_address(cidr)?);
        }
        let attached = Attached { pod: attachment.pod, addresses: addresses.clone(), host_ports };
        self.attachments.insert(attachment.sandbox, attached);
        Ok(addresses)
    }

    /// The first after the network's own and the gateway's.
    fn free_address(&self, cidr: Cidr) -> Result<IpAddr, Error> {
        let attached = self.attachments.values();
        let used: BTreeSet<&IpAddr> = attached.flat_map(|it| &it.addresses).collect();
        let mut addresses = (2..).map_while(|it| cidr.nth(it)).filter(|it| *it != cidr.last());
        let free = addresses.find(|it| !used.contains(it));
        free.ok_or_else(|| Error::AddressesExhausted { range: cidr.to_string() })
    }

    fn validate_families(&self, host_ports: &[HostPort]) -> Result<(), Error> {
        let has = |family: Family| self.pod_cidrs.iter().any(|it| it.family() == family);
        let of_port = |it: &HostPort| it.host_address.filter(|it| !it.is_unspecified());
        match host_ports.iter().filter_map(of_port).find(|it| !has(Family::of(*it))) {
            None => Ok(()),
            Some(address) => Err(Error::Refused(format!(
                "no host port can be opened on {address}: pods have no {} addresses",
                Family::of(address)
            ))),
        }
    }

    /// Who has this port, on this address or on all.
    fn holder_of(&self, wanted: &HostPort) -> Option<String> {
        let collides = |it: &HostPort| {
            it.protocol == wanted.protocol
                && it.host_port == wanted.host_port
                && (it.host_address.is_none()
                    || wanted.host_address.is_none()
                    || it.host_address == wanted.host_address)
        };
        let holder = self.attachments.values().find(|it| it.host_ports.iter().any(collides))?;
        Some(holder.pod.to_string())
    }
}

fn name_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}
