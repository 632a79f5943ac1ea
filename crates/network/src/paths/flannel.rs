//! What nodes say of themselves to each other, in annotations of their Nodes: names and forms are
//! flannel's, so that its nodes and ours make one network. Pure.
//!
//! Whatever a peer says is read with suspicion, and bounded.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linux::netlink::route::HardwareAddress;
use linux::netlink::wireguard::Key;
use serde::{Deserialize, Serialize};
use stdx::Family;

use crate::node::{Peer, ThisNode};

const PREFIX: &str = "flannel.alpha.coreos.com/";
const BACKEND_TYPE: &str = "backend-type";
const KUBE_SUBNET_MANAGER: &str = "kube-subnet-manager";
/// What a back end has nothing to say with.
const NOTHING: &str = "null";

/// A back end needs a tenth of it.
const VALUE_MAX: usize = 1024;

/// All that this program ever says: what of it is not said any more is to be taken back.
pub const ANNOTATIONS: [&str; 7] = [
    "flannel.alpha.coreos.com/backend-data",
    "flannel.alpha.coreos.com/backend-type",
    "flannel.alpha.coreos.com/backend-v6-data",
    "flannel.alpha.coreos.com/kube-subnet-manager",
    "flannel.alpha.coreos.com/public-ip",
    "flannel.alpha.coreos.com/public-ipv6",
    PROBES,
];

/// The first addresses of a node's ranges answer: flannel's own nodes have none without pods.
const PROBES: &str = "network.xebec.local/probes";
/// How they answer.
const ECHO: &str = "echo";

/// Whether an annotation of a Node is about ways to it.
pub fn concerns(annotation: &str) -> bool {
    annotation.starts_with(PREFIX) || annotation == PROBES
}

/// Whether the way to the peer can be tried.
pub(crate) fn answers(peer: &Peer) -> bool {
    peer.annotations.get(PROBES).is_some_and(|it| it == ECHO)
}

fn of_data(family: Family) -> &'static str {
    match family {
        Family::V4 => "backend-data",
        Family::V6 => "backend-v6-data",
    }
}

fn of_public(family: Family) -> &'static str {
    match family {
        Family::V4 => "public-ip",
        Family::V6 => "public-ipv6",
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VxlanData {
    #[serde(rename = "VNI")]
    vni: u32,
    #[serde(rename = "VtepMAC")]
    mac: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WireguardData {
    #[serde(rename = "PublicKey")]
    public_key: String,
    #[serde(rename = "Port", default = "wireguard_port")]
    port: u16,
}

fn wireguard_port() -> u16 {
    super::wireguard::PORT
}

/// `data`: what the back end has to say of each family.
pub(super) fn annotations(
    node: &ThisNode,
    backend_type: &str,
    data: impl Fn(Family) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut said =
        vec![(BACKEND_TYPE, backend_type.to_owned()), (KUBE_SUBNET_MANAGER, "true".to_owned())];
    for family in node.ranges.iter().map(|it| it.node.family()) {
        let Some(address) = node.public(family) else { continue };
        said.push((of_public(family), address.to_string()));
        said.push((of_data(family), data(family).unwrap_or_else(|| NOTHING.to_owned())));
    }
    if said.iter().all(|(name, _)| *name != of_data(Family::V4)) {
        said.push((of_data(Family::V4), NOTHING.to_owned()));
    }
    let said = said.into_iter().map(|(name, value)| (format!("{PREFIX}{name}"), value));
    said.chain([(PROBES.to_owned(), ECHO.to_owned())]).collect()
}

pub(super) fn vxlan_data(vni: u32, mac: HardwareAddress) -> Option<String> {
    serde_json::to_string(&VxlanData { vni, mac: mac.to_string() }).ok()
}

pub(super) fn wireguard_data(key: Key, port: u16) -> Option<String> {
    let public_key = STANDARD.encode(key.0);
    serde_json::to_string(&WireguardData { public_key, port }).ok()
}

/// What an administrator wants said in place of this node's own address.
pub(crate) fn public_wanted(peer: &Peer, family: Family) -> Option<IpAddr> {
    wanted(peer, family, ["public-ip-overwrite", "public-ipv6-overwrite"])
}

/// Which of this node's own addresses an administrator wants others to find it by.
pub(crate) fn node_public(peer: &Peer, family: Family) -> Option<IpAddr> {
    wanted(peer, family, ["node-public-ip", "node-public-ipv6"])
}

fn wanted(peer: &Peer, family: Family, [v4, v6]: [&str; 2]) -> Option<IpAddr> {
    let name = match family {
        Family::V4 => v4,
        Family::V6 => v6,
    };
    let wanted = said(peer, name).ok()??.parse().ok()?;
    (Family::of(wanted) == family).then_some(wanted)
}

/// Where the peer is: as it says, or else as its Node does.
pub(super) fn public(peer: &Peer, family: Family) -> Result<IpAddr, String> {
    let name = of_public(family);
    let address: IpAddr = match said(peer, name)? {
        Some(text) => text.parse().map_err(|_| format!("its {name} {text:?} is no address"))?,
        None => {
            return peer.address(family).ok_or_else(|| format!("it has no {family} address"));
        }
    };
    match Family::of(address) == family {
        true => Ok(address),
        false => Err(format!("its {name} {address} is no {family} address")),
    }
}

/// One that says nothing is taken for one of ours, that will say so in a moment.
pub(super) fn speaks(peer: &Peer, backend_type: &str) -> Result<(), String> {
    match said(peer, BACKEND_TYPE)? {
        Some(other) if other != backend_type => {
            Err(format!("its pod network is {other:?} and this node's {backend_type:?}"))
        }
        _ => Ok(()),
    }
}

/// `None`: it has not said anything yet.
pub(super) fn vtep(peer: &Peer, family: Family) -> Result<Option<(u32, HardwareAddress)>, String> {
    let Some(data): Option<VxlanData> = data(peer, family)? else { return Ok(None) };
    if !(1..1 << 24).contains(&data.vni) {
        return Err(format!("VNI {} is not between 1 and 16777215", data.vni));
    }
    let shown = || format!("VtepMAC {:?} is no hardware address of a machine", data.mac);
    let mac = hardware_address(&data.mac).ok_or_else(shown)?;
    Ok(Some((data.vni, mac)))
}

/// `None`: it has not said anything yet.
pub(super) fn wireguard(peer: &Peer, family: Family) -> Result<Option<(Key, u16)>, String> {
    let Some(data): Option<WireguardData> = data(peer, family)? else { return Ok(None) };
    let bytes = STANDARD.decode(&data.public_key).ok();
    let key: Option<[u8; 32]> = bytes.and_then(|it| it.try_into().ok());
    let Some(key) = key.filter(|it| *it != [0; 32]) else {
        return Err(format!("PublicKey {:?} is no key", data.public_key));
    };
    if data.port == 0 {
        return Err("Port 0 is none".to_owned());
    }
    Ok(Some((Key(key), data.port)))
}

/// Where WireGuard finds it.
pub(super) fn endpoint(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn data<'a, T: Deserialize<'a>>(peer: &'a Peer, family: Family) -> Result<Option<T>, String> {
    let name = of_data(family);
    match said(peer, name)? {
        None | Some(NOTHING | "") => Ok(None),
        Some(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|err| format!("its {name} is not what it should be: {err}")),
    }
}

fn said<'a>(peer: &'a Peer, name: &str) -> Result<Option<&'a str>, String> {
    match peer.annotations.get(&format!("{PREFIX}{name}")) {
        Some(text) if text.len() > VALUE_MAX => {
            Err(format!("its {name} is longer than {VALUE_MAX} bytes"))
        }
        text => Ok(text.map(String::as_str)),
    }
}

/// Six bytes in hexadecimal digits; not of a group, and not none.
fn hardware_address(text: &str) -> Option<HardwareAddress> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|it| it.len() == 2)?;
        let is_plain = part.bytes().all(|it| it.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_plain)?;
    }
    let is_whole = parts.next().is_none();
    let is_one = bytes[0] & 1 == 0 && bytes != [0; 6];
    (is_whole && is_one).then_some(HardwareAddress(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::peer;

    #[test]
    fn only_the_address_of_one_machine_is_one() {
        let check = |text: &str, is_one: bool| {
            assert_eq!(hardware_address(text).is_some(), is_one, "{text:?}");
        };
        check("0e:58:0a:f4:01:02", true);
        check("ff:ff:ff:ff:ff:ff", false);
        check("01:00:5e:00:00:01", false);
        check("00:00:00:00:00:00", false);
        for nonsense in ["", "0e", "0e:58:0a:f4:01", "0e:58:0a:f4:01:02:03", "+e:58:0a:f4:01:02"] {
            check(nonsense, false);
        }
    }

    #[test]
    fn what_a_peer_says_is_read_with_suspicion() {
        let check = |text: &str, expected: Result<Option<&str>, &str>| {
            let mut peer = peer("b", &[], &[]);
            peer.annotations.insert(format!("{PREFIX}backend-data"), text.into());
            let found =
                vtep(&peer, Family::V4).map(|it| it.map(|(vni, mac)| format!("{vni} {mac}")));
            match expected {
                Ok(expected) => assert_eq!(found.unwrap().as_deref(), expected),
                Err(words) => {
                    assert!(found.as_ref().is_err_and(|it| it.contains(words)), "{found:?}")
                }
            }
        };
        check(r#"{"VNI":1,"VtepMAC":"0e:58:0a:f4:01:02"}"#, Ok(Some("1 0e:58:0a:f4:01:02")));
        check("null", Ok(None));
        check("", Ok(None));
        check("nonsense", Err("its backend-data is not what it should be"));
        check(r#"{"VNI":1}"#, Err("missing field `VtepMAC`"));
        check(r#"{"VNI":16777216,"VtepMAC":"0e:58:0a:f4:01:02"}"#, Err("VNI 16777216 is not"));
        check(r#"{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}"#, Err("is no hardware address"));
        check(&"x".repeat(2000), Err("its backend-data is longer than 1024 bytes"));
    }
}
