//! A link of one sandbox, whose gateway is the node's first address in its range: that of the
//! bridge.

use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use node_api::SandboxId;

use crate::hardware;
use crate::node::digest;

/// `veth` and eleven hexadecimal digits.
pub(crate) fn name(sandbox: &SandboxId) -> String {
    format!("veth{:011x}", digest(sandbox.as_str().as_bytes()) >> 20)
}

pub(super) fn host_hardware(pod: IpAddr) -> HardwareAddress {
    hardware::of_host(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_are_told_apart_by_names_that_the_kernel_takes() {
        let (one, other) = (name(&SandboxId::new("one")), name(&SandboxId::new("other")));
        assert_ne!(one, other);
        assert_eq!((one.len(), other.len()), (15, 15));
    }
}
