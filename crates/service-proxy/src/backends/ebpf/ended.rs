//! Connected UDP sockets whose endpoint is gone. The kernel asks no program again where they send
//! to, so they are ended: who waits there hears of it (`ECONNABORTED`), and so does who sends
//! (`EDESTADDRREQ`); they connect anew.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use linux::cgroups::Hierarchies;
use linux::netlink;
use linux::netlink::socket_diagnosis::SocketDiagnosis;
use rustix::io::Errno;
use stdx::{Family, error_chain};

use super::SocketError;
use super::layout::{Table, read_flow, read_frontend};
use super::maps::KernelMaps;
use super::ruleset::Contents;
use crate::backends::flows::{Flows, of, suspects};
use crate::service_port::frontend::{Frontend, unspecified};
use crate::service_port::{Endpoint, Protocol, ServicePort};

/// Frontends whose sockets may be connected to endpoints that are gone, until those are ended.
#[derive(Debug)]
pub(super) struct EndedSockets {
    /// The pods' cgroup.
    pods: String,
    /// Of the node itself.
    diagnosis: SocketDiagnosis,
    suspects: Flows,
    is_told_of_failure: bool,
}

impl EndedSockets {
    /// In the network namespace of the calling thread.
    pub(super) fn open(pods: String) -> Result<Self, SocketError> {
        let diagnosis =
            SocketDiagnosis::open().map_err(|source| SocketError::EndSockets { source })?;
        Ok(Self { pods, diagnosis, suspects: Flows::new(), is_told_of_failure: false })
    }

    pub(super) fn set_pods(&mut self, name: &str) {
        name.clone_into(&mut self.pods);
    }

    /// A Service's ports change.
    pub(super) fn suspect(&mut self, before: &[ServicePort], after: &[ServicePort]) {
        self.suspects.extend(suspects(&of(before), &of(after)));
    }

    /// Whatever was there before, these are the ports.
    pub(super) fn suspect_all<'a>(&mut self, ports: impl Iterator<Item = &'a [ServicePort]>) {
        self.suspects.extend(ports.flat_map(of));
    }

    /// After the maps changed, so that what connects anew connects right. A kernel that cannot end
    /// sockets is told of once: they then wait for answers until they give up.
    pub(super) fn end(&mut self, maps: &KernelMaps) -> Result<(), SocketError> {
        if self.suspects.is_empty() {
            return Ok(());
        }
        let stale = stale(&maps.read(Table::Flows)?, &self.suspects);
        self.suspects.clear();
        if stale.is_empty() {
            return Ok(());
        }
        match self.end_all(&stale) {
            Err(err) if is_unsupported(&err) => {
                if !self.is_told_of_failure {
                    let error = error_chain(&err);
                    tracing::warn!(
                        %error,
                        "this kernel cannot end UDP sockets (CONFIG_INET_UDP_DIAG, CONFIG_INET_DIAG_DESTROY): \
                         those that are connected to an endpoint that is gone stay so"
                    );
                    self.is_told_of_failure = true;
                }
            }
            ended => ended.map_err(|source| SocketError::EndSockets { source })?,
        }
        let keys: Vec<_> = stale.into_values().collect();
        maps.forget(Table::Flows, &keys)
    }

    fn end_all(&mut self, stale: &Stale) -> Result<(), netlink::Error> {
        end_in(&mut self.diagnosis, stale)?;
        for namespace in pod_namespaces(&self.pods) {
            // Its last process may have just ended.
            match SocketDiagnosis::open_in(&namespace) {
                Ok(mut diagnosis) => end_in(&mut diagnosis, stale)?,
                Err(err) => tracing::debug!(error = %error_chain(&err), "a pod is gone"),
            }
        }
        Ok(())
    }
}

/// Flows to endpoints that their frontends have no more, by socket and endpoint, with their keys.
type Stale = BTreeMap<(u64, Endpoint), Vec<u8>>;

fn stale(flows: &Contents, suspects: &Flows) -> Stale {
    let found = flows.iter().filter_map(|(key, asked)| {
        let ((socket, endpoint), asked) = (read_flow(key)?, read_frontend(asked)?);
        let address = unspecified(Family::of(asked.address));
        let by_port = Frontend { address, ..asked };
        let endpoints = suspects.get(&asked).or_else(|| suspects.get(&by_port))?;
        let is_stale = asked.protocol == Protocol::Udp && !endpoints.contains(&endpoint);
        is_stale.then(|| ((socket, endpoint), key.clone()))
    });
    found.collect()
}

fn end_in(diagnosis: &mut SocketDiagnosis, stale: &Stale) -> Result<(), netlink::Error> {
    for socket in diagnosis.connected_udp()? {
        let endpoint = Endpoint { address: socket.peer.ip(), port: socket.peer.port() };
        if stale.contains_key(&(socket.cookie, endpoint)) {
            diagnosis.destroy(&socket)?;
        }
    }
    Ok(())
}

/// Each once.
fn pod_namespaces(cgroup: &str) -> Vec<PathBuf> {
    let hierarchies = Hierarchies::detect();
    let processes = hierarchies.and_then(|it| it.cgroup(cgroup)?.processes()).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let namespaces = processes.into_iter().map(|it| PathBuf::from(format!("/proc/{it}/ns/net")));
    namespaces
        .filter(|it| std::fs::metadata(it).is_ok_and(|found| seen.insert(found.ino())))
        .collect()
}

fn is_unsupported(err: &netlink::Error) -> bool {
    err.is(Errno::OPNOTSUPP) || err.is(Errno::NOENT) || err.is(Errno::PROTONOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::ebpf::layout::{endpoint_bytes, frontend_bytes};

    fn endpoint(text: &str) -> Endpoint {
        let (address, port) = text.rsplit_once(':').unwrap();
        let address = address.trim_matches(['[', ']']).parse().unwrap();
        Endpoint { address, port: port.parse().unwrap() }
    }

    fn frontend(text: &str, protocol: Protocol) -> Frontend {
        let Endpoint { address, port } = endpoint(text);
        Frontend { protocol, address, port }
    }

    fn check(asked: (&str, Protocol), to: &str, expected: bool) {
        let suspects = Flows::from([
            (frontend("10.96.0.1:53", Protocol::Udp), [endpoint("10.0.0.1:53")].into()),
            (frontend("0.0.0.0:30053", Protocol::Udp), [endpoint("10.0.0.1:53")].into()),
            (frontend("[fd00::1]:53", Protocol::Udp), BTreeSet::new()),
        ]);
        let key = [&7u64.to_ne_bytes()[..], &endpoint_bytes(&endpoint(to)), &[0; 4]].concat();
        let value = frontend_bytes(&frontend(asked.0, asked.1)).to_vec();
        let found = stale(&[(key.clone(), value)].into(), &suspects);
        let stale = Stale::from([((7, endpoint(to)), key)]);
        assert_eq!(found, if expected { stale } else { Stale::new() }, "{asked:?} {to}");
    }

    #[test]
    fn a_udp_socket_is_stale_if_its_frontend_has_another_endpoint() {
        let (udp, tcp) = (Protocol::Udp, Protocol::Tcp);
        check(("10.96.0.1:53", udp), "10.0.0.2:53", true);
        check(("10.96.0.1:53", udp), "10.0.0.1:53", false);
        check(("10.96.0.1:53", tcp), "10.0.0.2:53", false);
        check(("10.96.0.9:53", udp), "10.0.0.2:53", false);
        check(("192.0.2.1:30053", udp), "10.0.0.2:53", true);
        check(("192.0.2.1:30053", udp), "10.0.0.1:53", false);
        check(("[fd00::1]:53", udp), "[fd01::1]:53", true);
    }
}
