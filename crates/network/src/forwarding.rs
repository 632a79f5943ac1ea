//! Rules of others that forbid what pods need. An accepting rule of ours cannot undo a drop in
//! another table, so all we can do is say so.

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
const IPV6: u8 = 10;

/// The chains, as `nft` names them, that drop forwarded packets unless one of their rules accepts
/// them (`ip filter FORWARD` where Docker runs). Those of the old iptables (`iptables-legacy`) are
/// not seen.
pub(crate) fn dropping_chains() -> Result<Vec<String>, Error> {
    let mut socket = Socket::open(Family::Netfilter)?;
    let ask = Message::new("list chains", NFT_MSG_GETCHAIN, 0, &[0; FIXED]);
    Ok(socket.dump(&ask)?.iter().filter_map(dropping_chain).collect())
}

fn dropping_chain(reply: &Reply) -> Option<String> {
    let family = match *reply.payload.first()? {
        INET => "inet",
        IPV4 => "ip",
        IPV6 => "ip6",
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

#[cfg(test)]
mod tests {
    use super::*;
    use linux::netlink::nftables::{
        Chain, ChainKind, Hook, HookPoint, Nftables, Policy, Table, TableFamily, TableId, priority,
    };
    use linux::network_namespace::NetworkNamespace;

    fn check(family: TableFamily, point: HookPoint, policy: Policy, expected: &[&str]) {
        let namespace = match NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(err) => return println!("SKIPPED: {err}: {}", err.source),
        };
        let hook = Hook { policy, ..Hook::new(ChainKind::Filter, point, priority::FILTER) };
        let chains = [("FORWARD".to_owned(), Chain::at(hook, Vec::new()))].into();
        let table = Table { chains, ..Table::default() };
        let id = TableId::new(family, "filter");
        let found = namespace.run(|| {
            Nftables::open(id).unwrap().converge(&table).unwrap();
            dropping_chains().unwrap()
        });
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_chain_of_others_that_drops_what_is_forwarded_is_found() {
        use TableFamily::{Ip, Ip6};
        check(Ip, HookPoint::Forward, Policy::Drop, &["ip filter FORWARD"]);
        check(Ip6, HookPoint::Forward, Policy::Drop, &["ip6 filter FORWARD"]);
        check(Ip, HookPoint::Forward, Policy::Accept, &[]);
        check(Ip, HookPoint::Input, Policy::Drop, &[]);
    }
}
