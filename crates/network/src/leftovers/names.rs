//! By which names what others left is known. Pure.

/// Tables of iptables: chains of others than Kubernetes are there, too.
const TABLES: [&str; 5] = ["filter", "nat", "mangle", "raw", "security"];
/// How the names of chains begin that mode iptables of our own service proxy has, too.
const OF_PROXY: &str = "KUBE-";
/// How the chain begins by which one of our clusters says that they are its own.
const OURS: &str = "XEBEC-";

pub(super) fn is_table_of_iptables(name: &str) -> bool {
    TABLES.contains(&name)
}

/// A whole table.
pub(super) fn is_table(name: &str) -> bool {
    matches!(name, "kube-proxy" | "flannel-ipv4" | "flannel-ipv6")
}

pub(super) fn is_chain(name: &str) -> bool {
    [OF_PROXY, "CNI-", "FLANNEL-", "cali-"].iter().any(|it| name.starts_with(it))
}

/// Of these chains of one family those that are left: a cluster of ours may have some of the same
/// names.
pub(super) fn left<'a>(chains: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
    let is_ours = chains.clone().any(|it| it.starts_with(OURS));
    chains.filter(|it| is_chain(it) && !(is_ours && it.starts_with(OF_PROXY))).collect()
}

pub(super) fn is_link(name: &str) -> bool {
    let is_numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit());
    let is_hex = |rest: &str| {
        rest.len() == 11 && rest.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_flannels = |rest: &str| {
        let rest = rest.strip_prefix("-v6").unwrap_or(rest);
        rest.strip_prefix('.').is_some_and(|it| it == "ipip" || is_numbered(it))
            || rest.starts_with("-wg")
    };
    matches!(name, "cni0" | "kube-ipvs0" | "kube-bridge" | "vxlan.calico" | "vxlan-v6.calico")
        || is_of_kernel(name)
        || name.strip_prefix("cali").is_some_and(is_hex)
        || name.strip_prefix("flannel").is_some_and(is_flannels)
}

/// It cannot be removed, and is there wherever the kernel's module is.
pub(super) fn is_of_kernel(name: &str) -> bool {
    name == "tunl0"
}

pub(super) fn is_set(name: &str) -> bool {
    [OF_PROXY, "cali4", "cali6"].iter().any(|it| name.starts_with(it))
}

/// A file of `/etc/cni/net.d`. Others than clusters have some there, such as Podman.
pub(super) fn is_configuration(name: &str) -> bool {
    const OF: [&str; 8] =
        ["flannel", "calico", "canal", "cilium", "weave", "kube-router", "kindnet", "antrea"];
    OF.iter().any(|it| name.contains(it))
}

/// Networks as those files name them: pods' addresses are kept by it.
pub(super) fn is_network(name: &str) -> bool {
    matches!(name, "cbr0" | "cni0" | "k8s-pod-network" | "kindnet" | "weave")
}

/// What is kept of one sandbox in such a network.
pub(super) fn is_result(name: &str) -> bool {
    let networks = ["cbr0", "cni0", "k8s-pod-network", "kindnet", "weave"];
    let mut starts = networks.iter().filter_map(|it| name.strip_prefix(it));
    starts.any(|it| it.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_name() {
        let check = |names: &[&str], expected: bool| {
            for name in names {
                assert_eq!(is_link(name), expected, "{name}");
            }
        };
        check(&["cni0", "flannel.1", "flannel.4096", "flannel-v6.1", "flannel.ipip"], true);
        check(&["flannel-wg", "flannel-wg-v6", "kube-ipvs0", "kube-bridge", "tunl0"], true);
        check(&["vxlan.calico", "calic440f455693"], true);
        check(&["eth0", "cni", "cni1", "flannel", "flannelette", "california", "cali"], false);
        check(&["calico0", "calic440f45569z", "docker0", "veth12345678", "xebec0"], false);
    }

    #[test]
    fn chains_of_our_own_proxy_are_no_leftovers() {
        let check = |chains: &[&str], expected: &[&str]| {
            assert_eq!(left(chains.iter().copied()), expected);
        };
        let all = ["INPUT", "KUBE-SERVICES", "KUBE-PROXY-CANARY", "CNI-abc", "FLANNEL-FWD"];
        check(&all, &all[1..]);
        check(&["DOCKER", "DOCKER-USER", "ufw-before-forward", "KUBE"], &[]);
        check(&["KUBE-SERVICES", "cali-INPUT", "XEBEC-00c0ffee"], &["cali-INPUT"]);
    }

    #[test]
    fn of_files_those_of_podman_stay() {
        assert!(is_configuration("10-flannel.conflist") && is_configuration("calico-kubeconfig"));
        assert!(!is_configuration("87-podman-bridge.conflist"));
        assert!(is_network("cbr0") && !is_network("podman"));
        assert!(is_result("cbr0-0123-eth0") && !is_result("podman-0123-eth0"));
        assert!(is_set("KUBE-CLUSTER-IP") && is_set("cali40all-ipam-pools") && !is_set("calm"));
        assert!(is_table("kube-proxy") && !is_table("xebec-00c0ffee-network"));
    }
}
