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
//! Where rules of ClusterNetworkPolicies hold for the pod, those of the tier Admin come first, and
//! those of Baseline stand where no NetworkPolicy isolates it. They are written into the chains of
//! the group, since whom they pass traffic on to is of the group:
//!
//! ```text
//! egress-group-N:       destination in @pods-5: drop / accept / goto egress-group-N-rest
//!                       goto egress-group-N-rest
//! egress-group-N-rest:  jump egress-policy-7, drop         or rules of Baseline, accept
//! ```
//!
//! After Services (priority filter): what is asked at an address without endpoints is refused by
//! them, and addresses are translated by then.

use std::collections::BTreeMap;

use linux::netlink::nftables::draft::types;
use linux::netlink::nftables::expression::{Base, Comparison, ct_state};
use linux::netlink::nftables::{
    Chain, ChainKind, Draft, Expression, Field, Hook, HookPoint, Register, Rule, Set, Value,
    Verdict, priority,
};
use stdx::Family;

use super::model::{Action, Direction, Protocol};
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
        Expression::Verdict(Verdict::Drop),
    ]);
    rule
}

/// Of a rule of a policy: the sets of its peers and ports, any of each; `None`: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) peers: Option<Vec<&'static str>>,
    pub(super) ports: Option<Vec<(&'static str, bool)>>,
}

/// The chain of a policy.
pub(super) fn of_policy(
    family: Family,
    direction: Direction,
    (slot, label): (u32, &str),
    rules: &[Asked],
) -> Vec<(String, Chain)> {
    let name = policy(direction, slot);
    let mut own = Vec::new();
    let mut chains = Vec::new();
    for (index, asked) in rules.iter().enumerate() {
        let label = format!("{label} {}[{index}]", direction.name());
        let inner = format!("{name}-{index}");
        let matching = Matching { family, direction, label: &label, inner: &inner };
        own.extend(matching.rules(asked, &Verdict::Accept, &mut chains));
    }
    chains.push((name, Chain::of(own)));
    chains
}

/// What is to match, in which direction.
struct Matching<'a> {
    family: Family,
    direction: Direction,
    label: &'a str,
    /// The name of a chain, if one is needed.
    inner: &'a str,
}

impl Matching<'_> {
    /// One chain more where there are several peers and several ports: there both together would be
    /// as many as their product.
    fn rules(
        &self,
        asked: &Asked,
        verdict: &Verdict,
        chains: &mut Vec<(String, Chain)>,
    ) -> Vec<Rule> {
        let draft = || Rule::draft(self.family, self.label);
        let end = |draft: Draft| decided(draft, verdict);
        match (&asked.peers, &asked.ports) {
            (None, None) => vec![end(draft())],
            (Some(peers), None) => peers.iter().map(|it| end(self.has_peer(draft(), it))).collect(),
            (None, Some(ports)) => ports.iter().map(|it| end(has_port(draft(), it))).collect(),
            (Some(peers), Some(ports)) if peers.len().min(ports.len()) <= 1 => {
                let of_peer = |peer: &&'static str| {
                    let both = |port| end(has_port(self.has_peer(draft(), peer), port));
                    ports.iter().map(both).collect::<Vec<_>>()
                };
                peers.iter().flat_map(of_peer).collect()
            }
            (Some(peers), Some(ports)) => {
                let rules = peers.iter().map(|it| end(self.has_peer(draft(), it)));
                chains.push((self.inner.to_owned(), Chain::of(rules.collect())));
                ports.iter().map(|it| has_port(draft(), it).jump(self.inner)).collect()
            }
        }
    }

    fn has_peer(&self, draft: Draft, set: &'static str) -> Draft {
        let field = match self.direction {
            Direction::Ingress => Field::Source,
            Direction::Egress => Field::Destination,
        };
        draft.is_in(set, &[field])
    }
}

fn has_port(draft: Draft, (set, is_named): &(&'static str, bool)) -> Draft {
    draft.is_in(set, if *is_named { SERVER } else { PORT })
}

fn decided(draft: Draft, verdict: &Verdict) -> Rule {
    match verdict {
        Verdict::Drop => draft.drop(),
        Verdict::Goto(chain) => draft.goto(chain.as_str()),
        Verdict::Jump(chain) => draft.jump(chain.as_str()),
        Verdict::Accept | Verdict::Return => draft.accept(),
    }
}

/// A rule of a ClusterNetworkPolicy that holds for a group.
pub(super) struct Tiered {
    pub(super) label: String,
    pub(super) action: Action,
    pub(super) asked: Asked,
}

/// All that holds for the pods of a group, in the order in which it is asked.
#[derive(Default)]
pub(super) struct GroupRules {
    pub(super) admin: Vec<Tiered>,
    /// The slots and names of NetworkPolicies.
    pub(super) policies: Vec<(u32, String)>,
    /// Where there are no NetworkPolicies.
    pub(super) baseline: Vec<Tiered>,
}

/// The chain of a group comes last, after those that it needs.
pub(super) fn of_group(
    family: Family,
    direction: Direction,
    slot: u32,
    rules: &GroupRules,
) -> Vec<(String, Chain)> {
    let name = group(direction, slot);
    let tier = |all: &[Tiered], prefix: &str, pass: &Verdict, chains: &mut Vec<(String, Chain)>| {
        let mut own = Vec::new();
        for (index, it) in all.iter().enumerate() {
            let verdict = match it.action {
                Action::Accept => &Verdict::Accept,
                Action::Deny => &Verdict::Drop,
                Action::Pass => pass,
            };
            let inner = format!("{prefix}-{index}");
            let matching = Matching { family, direction, label: &it.label, inner: &inner };
            own.extend(matching.rules(&it.asked, verdict, chains));
        }
        own
    };
    let rest = match rules.admin.is_empty() {
        true => name.clone(),
        false => format!("{name}-rest"),
    };
    let mut chains = Vec::new();
    let last = if rules.policies.is_empty() {
        let prefix = format!("{name}-baseline");
        let mut own = tier(&rules.baseline, &prefix, &Verdict::Accept, &mut chains);
        own.push(Rule::draft(family, "nothing forbids it").accept());
        own
    } else {
        let jump = |(slot, label): &(u32, String)| {
            Rule::draft(family, label.as_str()).jump(policy(direction, *slot))
        };
        let mut own: Vec<Rule> = rules.policies.iter().map(jump).collect();
        // What none of the policies allows is dropped.
        own.push(Rule::draft(family, "none of its policies allows it").drop());
        own
    };
    chains.push((rest.clone(), Chain::of(last)));
    if !rules.admin.is_empty() {
        let prefix = format!("{name}-admin");
        let pass = Verdict::Goto(rest.clone());
        let mut own = tier(&rules.admin, &prefix, &pass, &mut chains);
        own.push(Rule::draft(family, "it is not the administrator's to say").goto(rest));
        chains.push((name, Chain::of(own)));
    }
    chains
}
