//! Promises of [`PodNetwork`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use stdx::Family;

use crate::network::{Attachment, HostPort, Namespace, PodNetwork, Protocol};
use crate::{Error, PodRef, PodUid, SandboxId};

/// Namespaces to attach.
pub trait Namespaces: Sync {
    /// A new network namespace, which lives until the test ends.
    fn make(&self, name: &str) -> Arc<dyn Namespace>;
}

/// `port` is a port of the host that nobody uses, `families` those of which pods have addresses, in
/// their order.
pub async fn all(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    families: &[Family],
    port: u16,
) {
    a_pod_has_an_address_of_each_family(network, namespaces, families).await;
    host_ports_on_addresses_are_apart(network, namespaces, families, port).await;
    an_address_of_a_family_without_pods_is_refused(network, namespaces, families, port).await;
    attaching_again_changes_nothing(network, namespaces).await;
    addresses_are_apart(network, namespaces).await;
    a_taken_host_port_is_named(network, namespaces, port).await;
    only_what_is_kept_stays(network, namespaces).await;
    a_network_that_nobody_broke_is_ready(network, namespaces).await;
    what_is_gone_can_be_detached(network).await;
}

fn attachment(namespaces: &dyn Namespaces, name: &str, host_ports: Vec<HostPort>) -> Attachment {
    let pod =
        PodRef { namespace: "contract".to_owned(), name: name.to_owned(), uid: PodUid::new(name) };
    // Names of devices may come from the front of it.
    let sandbox: String = name.bytes().cycle().take(32).map(|it| format!("{it:02x}")).collect();
    Attachment {
        pod,
        sandbox: SandboxId::new(sandbox),
        namespace: namespaces.make(name),
        host_ports,
    }
}

async fn attach(network: &dyn PodNetwork, attachment: &Attachment) -> Vec<IpAddr> {
    let addresses = network.attach(attachment.clone()).await.expect("attach");
    assert!(!addresses.is_empty(), "a pod has an address");
    addresses
}

async fn detach(network: &dyn PodNetwork, attachment: &Attachment) {
    network.detach(&attachment.sandbox).await.expect("detach");
}

pub async fn attaching_again_changes_nothing(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
) {
    let pod = attachment(namespaces, "again", Vec::new());
    let addresses = attach(network, &pod).await;
    assert_eq!(attach(network, &pod).await, addresses);
    detach(network, &pod).await;
    detach(network, &pod).await;
}

pub async fn addresses_are_apart(network: &dyn PodNetwork, namespaces: &dyn Namespaces) {
    let one = attachment(namespaces, "one", Vec::new());
    let other = attachment(namespaces, "two", Vec::new());
    let (first, second) = (attach(network, &one).await, attach(network, &other).await);
    assert!(first.iter().all(|it| !second.contains(it)), "{first:?} {second:?}");
    detach(network, &one).await;
    detach(network, &other).await;
}

pub async fn a_pod_has_an_address_of_each_family(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    families: &[Family],
) {
    let pod = attachment(namespaces, "families", Vec::new());
    let addresses = attach(network, &pod).await;
    let found: Vec<_> = addresses.iter().map(|it| Family::of(*it)).collect();
    assert_eq!(found, families, "{addresses:?}");
    detach(network, &pod).await;
}

/// Of documentation, and so of no machine.
fn host_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([192, 0, 2, 1]),
        Family::V6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
    }
}

fn host_port(address: Option<IpAddr>, port: u16) -> HostPort {
    let protocol = Protocol::Tcp;
    HostPort { protocol, host_address: address, host_port: port, container_port: 80 }
}

/// One port, on an address of each family, is as many ports; all addresses meet each.
pub async fn host_ports_on_addresses_are_apart(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    families: &[Family],
    port: u16,
) {
    let mut holders = Vec::new();
    for family in families {
        let name = format!("on-{family}");
        let port = host_port(Some(host_address(*family)), port);
        let holder = attachment(namespaces, &name, vec![port]);
        attach(network, &holder).await;
        holders.push(holder);
    }
    let all = attachment(namespaces, "on-all", vec![host_port(None, port)]);
    let refused = network.attach(all.clone()).await;
    assert!(matches!(refused, Err(Error::HostPortTaken { .. })), "{refused:?}");
    for holder in &holders {
        detach(network, holder).await;
    }
    attach(network, &all).await;
    detach(network, &all).await;
}

pub async fn an_address_of_a_family_without_pods_is_refused(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    families: &[Family],
    port: u16,
) {
    for family in [Family::V4, Family::V6].into_iter().filter(|it| !families.contains(it)) {
        let port = host_port(Some(host_address(family)), port);
        let pod = attachment(namespaces, "other-family", vec![port]);
        let refused = network.attach(pod).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}

pub async fn a_taken_host_port_is_named(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    port: u16,
) {
    let of =
        |protocol| HostPort { protocol, host_address: None, host_port: port, container_port: 80 };
    let holder = attachment(namespaces, "holder", vec![of(Protocol::Tcp)]);
    let same = attachment(namespaces, "same", vec![of(Protocol::Tcp)]);
    let other = attachment(namespaces, "other", vec![of(Protocol::Udp)]);
    attach(network, &holder).await;
    match network.attach(same.clone()).await {
        Err(Error::HostPortTaken { port: taken, holder, .. }) => {
            assert_eq!(taken, port);
            assert!(holder.contains("holder"), "{holder}");
        }
        other => panic!("the port is taken, but {other:?}"),
    }
    attach(network, &other).await;
    detach(network, &holder).await;
    attach(network, &same).await;
    detach(network, &same).await;
    detach(network, &other).await;
}

pub async fn only_what_is_kept_stays(network: &dyn PodNetwork, namespaces: &dyn Namespaces) {
    let kept = attachment(namespaces, "kept", Vec::new());
    let lost = attachment(namespaces, "lost", Vec::new());
    let address = attach(network, &kept).await;
    attach(network, &lost).await;
    let living = BTreeMap::from([(kept.sandbox.clone(), kept.namespace.clone())]);
    network.keep_only(living).await.expect("keep_only");
    assert_eq!(attach(network, &kept).await, address);
    network.keep_only(BTreeMap::new()).await.expect("keep_only");
    detach(network, &kept).await;
    detach(network, &lost).await;
}

pub async fn a_network_that_nobody_broke_is_ready(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
) {
    let pod = attachment(namespaces, "whole", Vec::new());
    attach(network, &pod).await;
    check_ready(network);
    detach(network, &pod).await;
    check_ready(network);
}

fn check_ready(network: &dyn PodNetwork) {
    let status = network.status();
    let status = status.borrow();
    assert_eq!((status.not_ready(), status.losses.len()), (None, 0), "{status:?}");
}

/// For implementations whose tests can take a sandbox's network away: a loss is counted, told of
/// until it is mended, and forgotten with the sandbox. `lose` returns when the loss can have been
/// noticed, `mend` when it can have been mended.
pub async fn a_loss_is_told_until_it_is_mended(
    network: &dyn PodNetwork,
    namespaces: &dyn Namespaces,
    lose: impl Fn(&SandboxId),
    mend: impl Fn(&SandboxId),
) {
    let pod = attachment(namespaces, "loser", Vec::new());
    let addresses = attach(network, &pod).await;
    let mut status = network.status();
    let mut wait_for = async |times: u32, is_mended: bool| {
        let is_it = |it: &crate::network::Status| {
            let loss = it.losses.get(&pod.sandbox);
            loss.is_some_and(|it| it.times == times && it.is_mended == is_mended)
        };
        status.wait_for(is_it).await.expect("the network is there").clone()
    };
    for times in 1..=2 {
        lose(&pod.sandbox);
        let told = wait_for(times, false).await;
        assert_eq!(told.losses[&pod.sandbox].pod, pod.pod);
        assert!(told.not_ready().is_some_and(|it| it.contains("loser")), "{told:?}");
        mend(&pod.sandbox);
        assert_eq!(wait_for(times, true).await.not_ready(), None);
    }
    assert_eq!(attach(network, &pod).await, addresses);
    detach(network, &pod).await;
    check_ready(network);
}

pub async fn what_is_gone_can_be_detached(network: &dyn PodNetwork) {
    let gone = SandboxId::new("0".repeat(64));
    network.detach(&gone).await.expect("detaching what is gone succeeds");
}
