//! Whether the API server gets through to the kubelet that is to be on this machine: asked before
//! anything is made, while the port is held open here.

use std::net::{IpAddr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result};
use client::Client;
use serde::Deserialize;

use super::{Place, Refusal};

/// What the server says of the way to where the question came from.
#[derive(Deserialize)]
struct Reach {
    address: IpAddr,
    outcome: Outcome,
    #[serde(default)]
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Connected,
    Refused,
    Silent,
    Unreachable,
}

/// As the node. `addresses` are those that the server will know it by, the first of which is listened
/// on. A server that does not know the question, such as upstream's, is not asked again.
pub(crate) async fn check_reach(
    client: &Client,
    place: &Place,
    (addresses, port): (&[IpAddr], u16),
) -> Result<()> {
    let Some(first) = addresses.first() else { return Ok(()) };
    let listen = SocketAddr::new(*first, port);
    // Nobody has to answer: the kernel takes the connection.
    let _listening = TcpListener::bind(listen)
        .with_context(|| format!("the kubelet cannot listen on {listen}: see --kubelet-port"))?;
    let answer = match client.get_path(&format!("/xebec/reach?port={port}")).await {
        Err(err) if err.is_not_found() || err.code() == 403 => return Ok(()),
        answer => answer.context("asking the API server whether it reaches this machine")?,
    };
    let reach: Reach = serde_json::from_slice(&answer)
        .context("reading whether the API server reaches this machine")?;
    Ok(judge(place, (addresses, port), reach)?)
}

/// Where it sees this machine at another address than it will call, nothing is known.
fn judge(place: &Place, (addresses, port): (&[IpAddr], u16), reach: Reach) -> Result<(), Refusal> {
    if reach.outcome == Outcome::Connected || !addresses.contains(&reach.address) {
        return Ok(());
    }
    let why = match reach.outcome {
        Outcome::Connected => return Ok(()),
        Outcome::Silent => "nothing comes back".to_owned(),
        Outcome::Refused | Outcome::Unreachable => reach.detail,
    };
    let (place, address) = (place.clone(), reach.address);
    Err(Refusal::KubeletBlocked { place, address, port, why })
}

#[cfg(test)]
mod tests {
    use super::{Place, judge};

    #[test]
    fn a_way_that_is_blocked_is_named_with_its_direction() {
        let place = Place::parse("192.0.2.1").unwrap();
        let addresses = ["192.0.2.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let check = |answer: &str, expected: &[&str]| {
            let reach = serde_json::from_str(answer).unwrap();
            let said = judge(&place, (&addresses, 10250), reach);
            let said = said.map_or_else(|err| err.to_string(), |()| String::new());
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
            expected.iter().for_each(|it| assert!(said.contains(it), "{said}"));
        };
        check(r#"{"address": "192.0.2.2", "outcome": "connected"}"#, &[]);
        check(r#"{"address": "198.51.100.9", "outcome": "silent"}"#, &[]);
        let silent = ["API server at 192.0.2.1:6443", "192.0.2.2 TCP port 10250", "inbound here"];
        check(r#"{"address": "192.0.2.2", "outcome": "silent"}"#, &silent);
        let refused =
            r#"{"address": "fd00::2", "outcome": "refused", "detail": "Connection refused"}"#;
        check(refused, &["fd00::2 TCP port 10250", "Connection refused"]);
    }
}
