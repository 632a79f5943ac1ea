//! Sets of ipset in a network namespace of our own.

use linux::netlink::ip_sets::IpSets;
use linux::netlink::{Family, Message, Socket};
use linux::network_namespace::NetworkNamespace;

/// A set of addresses, as `ipset create NAME hash:ip` makes it.
fn create(name: &str) -> Result<(), linux::netlink::Error> {
    const CREATE: u16 = 6 << 8 | 2;
    let message = Message::new("create an ipset", CREATE, 0, &[2, 0, 0, 0]).with(|it| {
        it.u8(1, 6).string(2, name).string(3, "hash:ip").u8(4, 0).u8(5, 2).nest(7, |_| {});
    });
    Socket::open(Family::Netfilter)?.request(&message)
}

#[test]
fn sets_are_listed_by_name_and_destroyed() {
    let namespace = match NetworkNamespace::create() {
        Ok(namespace) => namespace,
        Err(err) => return eprintln!("SKIPPED: {err}: {}", err.source),
    };
    let run = || {
        let mut sets = IpSets::open().unwrap();
        assert_eq!(sets.names().unwrap(), [""; 0]);
        if let Err(err) = create("KUBE-CLUSTER-IP") {
            return eprintln!("SKIPPED: {err}: {}", err.source);
        }
        create("cali40all-ipam-pools").unwrap();
        let mut names = sets.names().unwrap();
        names.sort();
        assert_eq!(names, ["KUBE-CLUSTER-IP", "cali40all-ipam-pools"]);
        for _ in 0..2 {
            sets.destroy("KUBE-CLUSTER-IP").unwrap();
        }
        assert_eq!(sets.names().unwrap(), ["cali40all-ipam-pools"]);
    };
    namespace.run(run).unwrap();
}
