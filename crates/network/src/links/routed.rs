//! A link as Calico makes it: named after the pod, every one with the same hardware address, and a
//! gateway that is nobody. Whoever asks for it is answered by the link, which answers for everybody
//! (proxy ARP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest;
use linux::netlink::route::HardwareAddress;
use node_api::PodRef;
use stdx::Family;

/// Of the host's end of every link.
pub(super) const HOST_HARDWARE: HardwareAddress = HardwareAddress([0xee; 6]);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The link-local address that follows from the hardware address (RFC 4291 appendix A).
const GATEWAY_IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xecee, 0xeeff, 0xfeee, 0xeeee);

const PREFIX: &str = "cali";
const DIGITS: usize = 11;

/// `cali` and the first digits of the SHA-1 of the pod's name. A pod has one such link, whichever of
/// its sandboxes is joined by it.
pub(super) fn name(pod: &PodRef) -> String {
    let text = format!("{}.{}", pod.namespace, pod.name);
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let digits: String = digest.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("{PREFIX}{}", &digits[..DIGITS])
}

pub(super) fn gateway(family: Family) -> IpAddr {
    match family {
        Family::V4 => GATEWAY.into(),
        Family::V6 => GATEWAY_IPV6.into(),
    }
}

/// Whether the link with this hardware address answers for everybody.
pub(crate) fn answers(hardware: Option<HardwareAddress>) -> bool {
    hardware == Some(HOST_HARDWARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_api::PodUid;

    /// As `printf NAMESPACE.POD | sha1sum` has it.
    #[test]
    fn a_link_is_named_after_its_pod() {
        let check = |namespace: &str, pod: &str, expected: &str| {
            let uid = PodUid::new("u");
            let pod = PodRef { namespace: namespace.into(), name: pod.into(), uid };
            assert_eq!(name(&pod), expected);
        };
        check("default", "nginx", "calic440f455693");
        check("kube-system", "coredns-5d78c9869d-abcde", "cali4d5f75c480c");
    }
}
