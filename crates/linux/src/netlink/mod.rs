//! Links, addresses, routes, nftables and conntrack over netlink sockets.

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    pub doing: String,
    #[source]
    pub source: std::io::Error,
}
