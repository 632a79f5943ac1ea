//! Promises of [`PodNetwork`].

use std::net::IpAddr;

use crate::network::{Attachment, HostPort, PodNetwork, Protocol};
use crate::{Error, PodRef, PodUid, SandboxId};

/// Namespaces to attach.
pub trait Namespaces: Sync {
    /// The file that names a new network namespace, which lives until the test ends.
    fn make(&self, name: &str) -> std::path::PathBuf;
}

/// `port` is a port of the host that nobody uses.
pub async fn all(network: &dyn PodNetwork, namespaces: &dyn Namespaces, port: u16) {
    attaching_again_changes_nothing(network, namespaces).await;
    addresses_are_apart(network, namespaces).await;
    a_taken_host_port_is_named(network, namespaces, port).await;
    only_what_is_kept_stays(network, namespaces).await;
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
    network.keep_only(vec![kept.sandbox.clone()]).await.expect("keep_only");
    assert_eq!(attach(network, &kept).await, address);
    network.keep_only(Vec::new()).await.expect("keep_only");
    detach(network, &kept).await;
    detach(network, &lost).await;
}

pub async fn what_is_gone_can_be_detached(network: &dyn PodNetwork) {
    let gone = SandboxId::new("0".repeat(64));
    network.detach(&gone).await.expect("detaching what is gone succeeds");
}
