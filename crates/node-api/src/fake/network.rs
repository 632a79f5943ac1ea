//! A pod network of one range that carries nothing.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::Node;
use super::state::{Attached, State};
use crate::network::{Attachment, HostPort, PodNetwork, Protocol};
use crate::{Error, Future, SandboxId};

const RANGE: &str = "10.244.0.0/24";

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
            Ok(())
        })
    }

    fn keep_only(&self, sandboxes: Vec<SandboxId>) -> Future<'_, ()> {
        Box::pin(async move {
            self.enter(format!("network.keep_only {}", sandboxes.len())).await?;
            self.state().attachments.retain(|id, _| sandboxes.contains(id));
            Ok(())
        })
    }
}

impl State {
    pub(super) fn attach(&mut self, attachment: Attachment) -> Result<Vec<IpAddr>, Error> {
        if let Some(attached) = self.attachments.get(&attachment.sandbox) {
            return Ok(attached.addresses.clone());
        }
        let host_ports = attachment.host_ports;
        let taken = host_ports.iter().find_map(|it| Some((it, self.holder_of(it)?)));
        if let Some((wanted, holder)) = taken {
            let protocol = name_of(wanted.protocol);
            return Err(Error::HostPortTaken { port: wanted.host_port, protocol, holder });
        }
        let used: BTreeSet<&IpAddr> =
            self.attachments.values().flat_map(|it| &it.addresses).collect();
        // .1 is the bridge's.
        let mut range = (2..255).map(|it| IpAddr::V4(Ipv4Addr::new(10, 244, 0, it)));
        let free = range.find(|it| !used.contains(it));
        let address = free.ok_or_else(|| Error::AddressesExhausted { range: RANGE.to_owned() })?;
        let addresses = vec![address];
        let attached = Attached { pod: attachment.pod, addresses: addresses.clone(), host_ports };
        self.attachments.insert(attachment.sandbox, attached);
        Ok(addresses)
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
