//! The chains of a table of policies: those that every packet takes, those of policies, and one for
//! each set of policies that holds for some pod. Pure.
//!
//! ```text
//! egress (forward)        ingress (forward)       egress-to-node (input)
//!   established  accept     established  accept     established  accept
//!   TCP amid a connection that is not known, from or to an isolated pod: drop
//!   a pod to itself accept  a pod to itself accept
//!   source in @egress-of    destination in @ingress-of     to our DNS, source in @egress-of
//!     goto egress-group-N     goto ingress-group-N            goto egress-group-N
//!
//! egress-group-N:   jump egress-policy-7, jump egress-policy-9, drop
//! egress-policy-7:  destination in @pods-3, protocol and port in @ports-4: accept
//! ```
//!
//! After Services (priority filter): what is asked at an address without endpoints is refused by
//! them, and addresses are translated by then.

use std::collections::BTreeMap;

use linux::netlink::nftables::draft::types;
use linux::netlink::nftables::expression::{Base, Comparison, ct_state};
use linux::netlink::nftables::{
    Chain, ChainKind, Draft, Expression, Field, Hook, HookPoint, Register, Rule, Set, Value,
    priority,
};
use stdx::Family;

use super::model::{Direction, Protocol};
use super::terms::Term;

/// Every isolated pod's address with itself.
pub(super) const SELVES: &str = "selves";
pub(super) const ISOLATED: &str = "isolated";
/// Where our DNS listens.
pub(super) const DNS: &str = "dns";
/// Both chains of a pod of which nothing is known yet but that policies are in its namespace.
pub(super) const CLOSED: &str = "closed";

const ENDS: &[Field] = &[Field::Source, Field::Destination];
const SERVER: &[Field] = &[Field::Destination, Field::Protocol, Field::DestinationPort];
const PORT: &[Field] = &[Field::Protocol, Field::DestinationPort];

/// From a pod's address to the chain of its policies.
pub(super) fn subjects(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress-of",
        Direction::Egress => "egress-of",
    }
}

pub(super) fn group(direction: Direction, slot: u32) -> String {
    format!("{}-group-{slot}", direction.name())
}

pub(super) fn policy(direction: Direction, slot: u32) -> String {
    format!("{}-policy-{slot}", direction.name())
}

pub(super) fn sets(family: Family) -> Vec<(&'static str, Set)> {
    let of = |fields| types(family, fields);
    vec![
        (subjects(Direction::Ingress), Set::verdict_map(of(&[Field::Destination]))),
        (subjects(Direction::Egress), Set::verdict_map(of(&[Field::Source]))),
        (SELVES, Set::of(of(ENDS))),
        (ISOLATED, Set::of(of(&[Field::Source]))),
        (DNS, Set::of(of(SERVER))),
    ]
}

pub(super) fn set_of(term: &Term, family: Family) -> Set {
    match term {
        Term::Pods(_) => Set::of(types(family, &[Field::Source])),
        Term::Ranges(_) => Set::of(types(family, &[Field::Source])).interval(),
        Term::Numbers(_) => Set::of(types(family, PORT)).interval(),
        Term::Named(..) => Set::of(types(family, SERVER)),
    }
}

pub(super) fn base(family: Family) -> BTreeMap<String, Chain> {
    let at = |point, after: i32, rules| {
        let hook = Hook::new(ChainKind::Filter, point, priority::FILTER + after);
        Chain::at(hook, rules)
    };
    let rule = |comment: &str| Rule::draft(family, comment);
    let known = || {
        let bits = ct_state::ESTABLISHED | ct_state::RELATED;
        rule("what was allowed to begin goes on").conntrack_state(bits).accept()
    };
    let itself = || rule("a pod reaches itself").is_in(SELVES, ENDS).accept();
    let subject =
        |direction, field| rule("isolated pods").verdict_of(subjects(direction), &[field]);
    let from_pods = vec![
        known(),
        amid(rule("amid a connection that was ended").is_in(ISOLATED, &[Field::Source])),
        amid(rule("amid a connection that was ended").is_in(ISOLATED, &[Field::Destination])),
        itself(),
        subject(Direction::Egress, Field::Source),
    ];
    let to_pods = vec![known(), itself(), subject(Direction::Ingress, Field::Destination)];
    let dns = rule("our DNS is a pod, the rest of the node is not")
        .is_in(DNS, SERVER)
        .verdict_of(subjects(Direction::Egress), &[Field::Source]);
    let to_node = vec![known(), dns];
    BTreeMap::from([
        ("egress".to_owned(), at(HookPoint::Forward, 10, from_pods)),
        ("ingress".to_owned(), at(HookPoint::Forward, 20, to_pods)),
        ("egress-to-node".to_owned(), at(HookPoint::Input, 10, to_node)),
        (CLOSED.to_owned(), Chain::of(vec![rule("its labels are not known yet").drop()])),
    ])
}

/// TCP that does not begin a connection: else the next packet of one that was ended would begin it
/// again, perhaps the other way round, which may be allowed.
fn amid(draft: Draft) -> Rule {
    const FLAGS: u32 = 13;
    const FIN_SYN_RST_ACK: u8 = 0x17;
    const SYN: u8 = 0x02;
    let mut rule: Rule = draft.protocol(Protocol::Tcp.number()).into();
    let (flags, mask) = (Register(0), Value::raw(&[FIN_SYN_RST_ACK]));
    rule.expressions.extend([
        Expression::Payload { base: Base::Transport, offset: FLAGS, length: 1, into: flags },
        Expression::Bitwise { from: flags, into: flags, mask, xor: Value::raw(&[0]) },
        Expression::Compare {
            from: flags,
            comparison: Comparison::NotEqual,
            value: Value::raw(&[SYN]),
        },
        Expression::Verdict(linux::netlink::nftables::Verdict::Drop),
    ]);
    rule
}

/// Of a rule of a policy: the sets of its peers and ports, any of each; `None`: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) peers: Option<Vec<&'static str>>,
    pub(super) ports: Option<Vec<(&'static str, bool)>>,
}

/// The chain of a policy, and one for each rule that has several peers and several ports: there
/// both together would be as many as their product.
pub(super) fn of_policy(
    family: Family,
    direction: Direction,
    (slot, label): (u32, &str),
    rules: &[Asked],
) -> Vec<(String, Chain)> {
    let name = policy(direction, slot);
    let peer_field = match direction {
        Direction::Ingress => Field::Source,
        Direction::Egress => Field::Destination,
    };
    let draft =
        |index: usize| Rule::draft(family, format!("{label} {}[{index}]", direction.name()));
    let has_peer = |draft: Draft, set: &&'static str| draft.is_in(set, &[peer_field]);
    let has_port = |draft: Draft, (set, is_named): &(&'static str, bool)| {
        draft.is_in(set, if *is_named { SERVER } else { PORT })
    };
    let mut own = Vec::new();
    let mut chains = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        match (&rule.peers, &rule.ports) {
            (None, None) => own.push(draft(index).accept()),
            (Some(peers), None) => {
                own.extend(peers.iter().map(|it| has_peer(draft(index), it).accept()));
            }
            (None, Some(ports)) => {
                own.extend(ports.iter().map(|it| has_port(draft(index), it).accept()));
            }
            (Some(peers), Some(ports)) if peers.len().min(ports.len()) <= 1 => {
                for peer in peers {
                    let both = |it| has_port(has_peer(draft(index), peer), it).accept();
                    own.extend(ports.iter().map(both));
                }
            }
            (Some(peers), Some(ports)) => {
                let inner = format!("{name}-{index}");
                own.extend(ports.iter().map(|it| has_port(draft(index), it).jump(&*inner)));
                let rules = peers.iter().map(|it| has_peer(draft(index), it).accept());
                chains.push((inner, Chain::of(rules.collect())));
            }
        }
    }
    chains.push((name, Chain::of(own)));
    chains
}

/// What none of the policies allows is dropped.
pub(super) fn of_group<'a>(
    family: Family,
    direction: Direction,
    policies: impl Iterator<Item = (u32, &'a str)>,
) -> Chain {
    let jump =
        |(slot, label): (u32, &str)| Rule::draft(family, label).jump(policy(direction, slot));
    let mut rules: Vec<Rule> = policies.map(jump).collect();
    rules.push(Rule::draft(family, "none of its policies allows it").drop());
    Chain::of(rules)
}
