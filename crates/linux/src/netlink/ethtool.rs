//! What a link leaves to its hardware, or to those who come after it: checksums of what it sends.

use std::path::Path;

use super::generic::{FIXED, GenericSocket};
use super::{Attribute, Error, Reply};

const NAME: &str = "ethtool";
const VERSION: u8 = 1;
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;

const HEADER: u16 = 1;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const DEVICE_NAME: u16 = 2;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// The only one that links made of software have.
const CHECKSUMS: &str = "tx-checksum-ip-generic";

/// Speaks of the links of one network namespace.
#[derive(Debug)]
pub struct Ethtool {
    socket: GenericSocket,
}

impl Ethtool {
    /// `None`: this kernel has no such thing.
    pub fn open_in(namespace: &Path) -> Result<Option<Self>, Error> {
        let socket = GenericSocket::open_in(namespace, NAME, VERSION)?;
        Ok(socket.map(|socket| Self { socket }))
    }

    /// Whether packets leave the link without the checksums of TCP and UDP, for others to fill in.
    pub fn leaves_checksums(&mut self, link: &str) -> Result<bool, Error> {
        let doing = format!("read the features of link {link}");
        let message = self.socket.message(doing, FEATURES_GET).with(|it| {
            it.nest(HEADER, |it| {
                it.string(DEVICE_NAME, link);
            });
        });
        Ok(self.socket.ask(&message)?.is_some_and(|it| is_active(&it)))
    }

    pub fn leave_checksums(&mut self, link: &str, leaves: bool) -> Result<(), Error> {
        let verb = if leaves { "on" } else { "off" };
        let doing = format!("switch {CHECKSUMS} of link {link} {verb}");
        let message = self.socket.message(doing, FEATURES_SET).with(|it| {
            it.nest(HEADER, |it| {
                it.string(DEVICE_NAME, link);
            });
            it.nest(WANTED, |it| {
                it.nest(BITS, |it| {
                    it.nest(BIT, |it| {
                        it.string(BIT_NAME, CHECKSUMS);
                        if leaves {
                            it.flag(BIT_VALUE);
                        }
                    });
                });
            });
        });
        self.socket.request(&message)
    }
}

/// Those that are active are listed, without a value of their own.
fn is_active(reply: &Reply) -> bool {
    let active = reply.attributes(FIXED).find_kind(ACTIVE);
    let bits = active.and_then(|it| it.nested().find_kind(BITS));
    let mut bits = bits.into_iter().flat_map(Attribute::nested).filter(|it| it.kind == BIT);
    bits.any(|it| it.nested().find_kind(BIT_NAME).and_then(Attribute::string) == Some(CHECKSUMS))
}

pub(super) fn read_any(reply: &Reply) {
    is_active(reply);
}
