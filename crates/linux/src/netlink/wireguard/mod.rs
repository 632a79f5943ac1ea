//! WireGuard: a link's key and port, and who is behind it.

mod key;
mod peer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use super::attributes::Reader;
use super::generic::{FIXED, GenericSocket};
use super::{Attribute, Error, Reply};

pub use key::{Key, PrivateKey};
pub use peer::Peer;

const NAME: &str = "wireguard";
const VERSION: u8 = 1;
const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;

const DEVICE_IFNAME: u16 = 2;
const DEVICE_PRIVATE_KEY: u16 = 3;
const DEVICE_LISTEN_PORT: u16 = 6;
const DEVICE_PEERS: u16 = 8;

/// Of one message: attributes are 64 KiB at the most, and a peer with its ranges is some 150 bytes.
const PEERS_PER_MESSAGE: usize = 200;

/// A link's whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// `None`: it has none, and is deaf.
    pub private_key: Option<PrivateKey>,
    pub listen_port: u16,
    pub peers: BTreeMap<Key, Peer>,
}

/// Speaks of the WireGuard links of one network namespace.
#[derive(Debug)]
pub struct Wireguard {
    socket: GenericSocket,
}

impl Wireguard {
    /// `None`: this kernel has no WireGuard.
    pub fn open_in(namespace: &Path) -> Result<Option<Self>, Error> {
        let socket = GenericSocket::open_in(namespace, NAME, VERSION)?;
        Ok(socket.map(|socket| Self { socket }))
    }

    pub fn observe(&mut self, link: &str) -> Result<Device, Error> {
        let doing = format!("read the configuration of WireGuard link {link}");
        let message = self.socket.message(doing, GET_DEVICE).with(|it| {
            it.string(DEVICE_IFNAME, link);
        });
        let mut device = Device::default();
        for reply in self.socket.dump(&message)? {
            read(&reply, &mut device);
        }
        Ok(device)
    }

    /// Makes the link as it should be. Sessions with peers that stay as they are go on.
    pub fn converge(&mut self, link: &str, desired: &Device) -> Result<(), Error> {
        let actual = self.observe(link)?;
        let doing = || format!("configure WireGuard link {link}");
        let private_key = desired.private_key.as_ref();
        let has_other_key = private_key != actual.private_key.as_ref();
        if has_other_key || desired.listen_port != actual.listen_port {
            let message = self.socket.message(doing(), SET_DEVICE).with(|it| {
                it.string(DEVICE_IFNAME, link);
                if let Some(key) = private_key.filter(|_| has_other_key) {
                    it.bytes(DEVICE_PRIVATE_KEY, key.as_bytes());
                }
                it.u16(DEVICE_LISTEN_PORT, desired.listen_port);
            });
            self.socket.request(&message)?;
        }
        let changes = peer::changes(&actual.peers, &desired.peers);
        for some in changes.chunks(PEERS_PER_MESSAGE) {
            let message = self.socket.message(doing(), SET_DEVICE).with(|it| {
                it.string(DEVICE_IFNAME, link).nest(DEVICE_PEERS, |it| {
                    some.iter().for_each(|change| change.write(it));
                });
            });
            self.socket.request(&message)?;
        }
        Ok(())
    }
}

/// One of the messages that tell of a link: peers come in as many as it takes, and ranges of one
/// peer may, too.
fn read(reply: &Reply, device: &mut Device) {
    let attributes: Reader<'_> = reply.attributes(FIXED);
    if let Some(key) = attributes.find_kind(DEVICE_PRIVATE_KEY).and_then(PrivateKey::read) {
        device.private_key = Some(key);
    }
    if let Some(port) = attributes.find_kind(DEVICE_LISTEN_PORT).and_then(Attribute::u16) {
        device.listen_port = port;
    }
    let peers = attributes.find_kind(DEVICE_PEERS).into_iter().flat_map(Attribute::nested);
    for (key, peer) in peers.filter_map(peer::read) {
        let known = device.peers.entry(key).or_default();
        known.endpoint = peer.endpoint.or(known.endpoint);
        known.allowed.extend(peer.allowed);
    }
}

pub(super) fn read_any(reply: &Reply) {
    read(reply, &mut Device::default());
}
