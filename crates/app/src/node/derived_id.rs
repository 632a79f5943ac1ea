//! Whose things in the kernel are whose, for components that run alone: the same id for the same
//! node of the same cluster, in every process.

use std::num::NonZeroU32;

use node_api::ClusterId;

/// FNV-1a, which is the same in every version of this program.
const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// `authority` is what the cluster is known by: the certificate in the kubeconfig.
pub(crate) fn derive(authority: &[u8], node_name: &str) -> ClusterId {
    let bytes = authority.iter().chain(b"\0").chain(node_name.as_bytes());
    let digest = bytes.fold(OFFSET, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(PRIME));
    ClusterId::new(NonZeroU32::new(digest).unwrap_or(NonZeroU32::MIN))
}

#[cfg(test)]
mod tests {
    use super::derive;

    #[test]
    fn an_id_is_the_same_for_ever_and_another_for_another_node_or_cluster() {
        assert_eq!(derive(b"", "").to_string(), "050c5d1f");
        assert_eq!(derive(b"ca", "node-a"), derive(b"ca", "node-a"));
        assert_ne!(derive(b"ca", "node-a"), derive(b"ca", "node-b"));
        assert_ne!(derive(b"ca", "node-a"), derive(b"other", "node-a"));
    }
}
