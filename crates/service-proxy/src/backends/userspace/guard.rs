//! Nobody reaches a portal but by its Service: whoever connects to the local port himself would pass
//! by source ranges and policies. A table of its own, beside that of the Services.

use std::collections::BTreeSet;

use linux::netlink;
use linux::netlink::nftables::draft::{table_family, types};
use linux::netlink::nftables::expression::ct_status;
use linux::netlink::nftables::{
    Chain, ChainKind, Change, Element, Field, Hook, HookPoint, Key, Nftables, Rule, Set, Table,
    TableId, Value, priority,
};
use node_api::ClusterId;
use stdx::Family;

use super::portals::Door;
use crate::backends::strangers::Strangers;

const DOORS: &str = "doors";
const FIELDS: [Field; 3] = [Field::Protocol, Field::Destination, Field::DestinationPort];
const TCP: u8 = 6;

pub(super) fn id(cluster: ClusterId, family: Family) -> TableId {
    TableId::new(table_family(family), cluster.table("doors"))
}

#[derive(Debug)]
pub(super) struct Guard {
    families: Vec<(Family, Nftables)>,
    strangers: Strangers,
}

impl Guard {
    /// In the network namespace of the calling thread.
    pub(super) fn open(cluster: ClusterId, families: &[Family]) -> Result<Self, netlink::Error> {
        let open = |family: &Family| Ok((*family, Nftables::open(id(cluster, *family))?));
        let families: Vec<_> = families.iter().map(open).collect::<Result<_, _>>()?;
        let own_ports = families.iter().map(|(_, it)| it.port()).collect();
        let name = id(cluster, Family::V4).name.into_owned();
        let strangers = Strangers::listen(vec![name], own_ports)?;
        Ok(Self { families, strangers })
    }

    /// Returns when somebody else has changed it. May be dropped and called again at any time.
    pub(super) async fn disturbed(&mut self) -> Result<(), netlink::Error> {
        self.strangers.changed().await
    }

    pub(super) fn converge(&mut self, doors: &BTreeSet<Door>) -> Result<(), netlink::Error> {
        for (family, nftables) in &mut self.families {
            nftables.converge(&table(*family, doors))?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, doors: &BTreeSet<Door>) -> Result<(), netlink::Error> {
        for (family, nftables) in &mut self.families {
            let elements: Vec<_> = keys(*family, doors).map(Element::of).collect();
            if !elements.is_empty() {
                nftables.apply(&[Change::AddElements { set: DOORS, elements }])?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, doors: &BTreeSet<Door>) -> Result<(), netlink::Error> {
        for (family, nftables) in &mut self.families {
            let keys: Vec<_> = keys(*family, doors).collect();
            if !keys.is_empty() {
                nftables.apply(&[Change::DeleteElements { set: DOORS, keys }])?;
            }
        }
        Ok(())
    }
}

fn keys(family: Family, doors: &BTreeSet<Door>) -> impl Iterator<Item = Key> {
    let of_family = doors.iter().filter(move |it| Family::of(it.address) == family);
    of_family.map(|it| {
        let key = Value::new().protocol(it.protocol.number()).address(it.address).port(it.port);
        Key::from(key)
    })
}

pub(super) fn table(family: Family, doors: &BTreeSet<Door>) -> Table {
    let rule = |comment: &str| Rule::draft(family, comment);
    let rules = vec![
        rule("sent here by a Service").conntrack_status(ct_status::DESTINATION_NAT).accept(),
        rule("not by a Service, TCP").is_in(DOORS, &FIELDS).protocol(TCP).reset(),
        rule("not by a Service").is_in(DOORS, &FIELDS).unreachable(),
    ];
    let hook = Hook::new(ChainKind::Filter, HookPoint::Input, priority::FILTER);
    Table {
        sets: [(DOORS, Set::of(types(family, &FIELDS)))].into(),
        chains: [("input".to_owned(), Chain::at(hook, rules))].into(),
        elements: [(DOORS, keys(family, doors).map(|it| (it, None)).collect())].into(),
    }
}
