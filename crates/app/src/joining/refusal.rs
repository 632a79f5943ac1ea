//! Why a machine does not become a node: in words that say what to do about it.

use std::net::IpAddr;

use client::FetchError;

use super::Place;

/// Tokens, certificates and leases are held against clocks.
pub(crate) const CLOCK_SKEW_MAX_MINUTES: i64 = 5;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the API server at {place} cannot be reached: {}", reach(.source, .place))]
    Unreachable {
        place: Place,
        #[source]
        source: FetchError,
    },
    #[error(
        "the server at {0} takes no nodes, or is no API server of this project: it has no ConfigMap kube-public/cluster-info (HTTP {1}); \
             start it with `xebec up --bind-address IP`"
    )]
    NoClusterInfo(Place, u16),
    #[error("what the server at {0} says of its cluster cannot be read: {1}")]
    Unreadable(Place, String),
    #[error(
        "this machine's clock is {minutes} minutes {direction} the one of {place}: set it right (NTP), then join again"
    )]
    Clock { place: Place, minutes: i64, direction: &'static str },
    #[error(
        "the cluster at {place} does not know the token {id}: it has expired or was deleted, or it is another cluster's; make one there with \
             `xebec token create --print-join-command`"
    )]
    UnknownToken { place: Place, id: String },
    #[error(
        "what the server at {0} says of its cluster is not signed by whoever made the token: it is an impostor, or the token was mistyped ({1})"
    )]
    Signature(Place, authn::cluster_info::Error),
    #[error(
        "the server at {place} is of another cluster than the token: its authority has the key sha256:{found}, and the token is for \
             sha256:{expected}"
    )]
    OtherAuthority { place: Place, found: String, expected: String },
    #[error(
        "the token has no pin, so that anybody who has seen it could pose as the cluster: use the whole ID.SECRET.PIN, or give --ca-cert-hash \
             sha256:DIGITS"
    )]
    NoPin,
    #[error(
        "this is version {own} of a node, and the API server at {place} is {server}: a node may be at most three minor versions older, and \
             not newer"
    )]
    Version { place: Place, own: String, server: String },
    #[error(
        "the name {name} is that of another machine, which is a node of this cluster already ({who}): choose another with --node-name, or delete \
             that Node first (`kubectl delete node {name}`)"
    )]
    NameTaken { name: String, who: String },
    #[error(
        "the API server does not let the token {id} in any more: it has expired or was deleted; make another with `xebec token create`"
    )]
    TokenRefused { id: String },
    #[error(
        "the API server at {place} gets no connection to this machine at {address} TCP port {port} ({why}), which it needs for logs, commands and \
             usage: a firewall here (inbound here) or on the way from there blocks it; open the port, or choose another with --kubelet-port"
    )]
    KubeletBlocked { place: Place, address: IpAddr, port: u16, why: String },
    #[error(
        "the cluster at {0} does not let this node in any more: its Node was deleted, or the cluster has another authority; join again with a \
             new token, `xebec join TOKEN@{0}`"
    )]
    ShutOut(Place),
    #[error(
        "nobody has approved and signed the certificate of {what} within {seconds} s: look at `kubectl get csr {request}`"
    )]
    NotSigned { what: String, seconds: u64, request: String },
    #[error("the certificate of {what} was refused: {why}")]
    Denied { what: String, why: String },
}

/// What a person would look at next.
fn reach(err: &FetchError, place: &Place) -> String {
    match err {
        FetchError::ConnectSilence => format!(
            "nothing comes back from TCP port {}; a firewall on the way or on that machine drops it (inbound there), or the address is wrong",
            place.port
        ),
        FetchError::Connect(err) if err.kind() == std::io::ErrorKind::ConnectionRefused => format!(
            "nobody listens on TCP port {} there; does it listen on that address (`xebec up --bind-address`), and does it run?",
            place.port
        ),
        FetchError::Connect(err) => err.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use client::FetchError;

    use super::{Place, reach};

    #[test]
    fn a_blocked_port_and_one_where_nobody_listens_are_told_apart() {
        let place = Place::parse("192.0.2.1:6443").unwrap();
        let silence = reach(&FetchError::ConnectSilence, &place);
        assert!(silence.contains("firewall") && silence.contains("port 6443"), "{silence}");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let refused = reach(&FetchError::Connect(refused), &place);
        assert!(
            refused.contains("nobody listens") && refused.contains("--bind-address"),
            "{refused}"
        );
    }
}
