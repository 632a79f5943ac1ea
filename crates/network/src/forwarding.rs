//! Rules of others that forbid what pods need. An accepting rule of ours cannot undo a drop in another table, so all we can do is
//! say so.

use linux::netlink::{Attribute, Error, Family, Message, Reply, Socket};

const NFT_MSG_GETCHAIN: u16 = (10 << 8) | 4;
/// Length of `struct nfgenmsg`.
const FIXED: usize = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;

const FORWARD: u32 = 2;
const DROP: u32 = 0;
const INET: u8 = 1;
const IPV4: u8 = 2;

/// The chains, as `nft` names them, that drop forwarded packets unless one of their rules accepts them (`ip filter FORWARD` where
/// Docker runs). Those of the old iptables (`iptables-legacy`) are not seen.
pub(crate) fn dropping_chains() -> Result<Vec<String>, Error> {
    let mut socket = Socket::open(Family::Netfilter)?;
    let ask = Message::new("list chains", NFT_MSG_GETCHAIN, 0, &[0; FIXED]);
    Ok(socket.dump(&ask)?.iter().filter_map(dropping_chain).collect())
}

fn dropping_chain(reply: &Reply) -> Option<String> {
    let family = match *reply.payload.first()? {
        INET => "inet",
        IPV4 => "ip",
        _ => return None,
    };
    let attributes = reply.attributes(FIXED);
    let hook = attributes.find_kind(NFTA_CHAIN_HOOK)?.nested().find_kind(NFTA_HOOK_HOOKNUM)?;
    let policy = attributes.find_kind(NFTA_CHAIN_POLICY)?;
    if hook.u32_be() != Some(FORWARD) || policy.u32_be() != Some(DROP) {
        return None;
    }
    let text = |kind| attributes.find_kind(kind).and_then(Attribute::string);
    Some(format!("{family} {} {}", text(NFTA_CHAIN_TABLE)?, text(NFTA_CHAIN_NAME)?))
}
