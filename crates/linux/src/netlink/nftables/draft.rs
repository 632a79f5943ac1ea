//! Rules in words: what a packet must be, and what becomes of it, of either family. Pure.
//!
//! ```text
//! Rule::draft(family, "node ports")
//!     .destination_is_local()
//!     .is_in("node-ports", &[Field::Protocol, Field::DestinationPort])
//!     .goto("node-ports")
//! ```
//!
//! A packet goes through from left to right; the first test that fails ends the rule. Registers are
//! chosen here alone: each test loads what it reads. `nft` must be able to list every rule, or no
//! command of it works on the host any more: what a map gave is no key, nor part of one, nor stored,
//! but for [`Draft::find`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stdx::{Cidr, Family};

use super::expression::{
    Base, Comparison, Conntrack, Expression, FIB_LOCAL, FibAddress, Generator, Meta, Nat, Register,
    Reject, SetOperation, Target, ct_state, interface_name, nat_flags,
};
use super::set::{Type, Value, Verdict};
use super::table::{Rule, TableFamily};

/// What a key is made of: fields of the packet, and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Protocol,
    Source,
    Destination,
    /// 0.0.0.0 or ::, whatever the packet's destination. `nft` shows it as `ip daddr & 0.0.0.0`; of a
    /// mere constant in a key it would not know the type.
    Unspecified,
    /// Of TCP, UDP and SCTP alike.
    DestinationPort,
    /// `offset + x`, with x drawn anew below the modulus.
    Random {
        modulus: u32,
        offset: u32,
    },
}

/// Where packets are sent on to: what maps of [`Draft::dnat_by`] and [`Draft::find`] give.
pub const ENDPOINT: &[Field] = &[Field::Destination, Field::DestinationPort];

impl Field {
    fn kind(self, family: Family) -> Type {
        match self {
            Self::Protocol => Type::Protocol,
            Self::Source | Self::Destination | Self::Unspecified => Type::address(family),
            Self::DestinationPort => Type::Port,
            Self::Random { .. } => Type::Mark,
        }
    }

    fn registers(self, family: Family) -> u8 {
        match self {
            Self::Source | Self::Destination | Self::Unspecified => address_registers(family),
            Self::Protocol | Self::DestinationPort | Self::Random { .. } => 1,
        }
    }

    fn load(self, family: Family, first: u8, to: &mut Vec<Expression>) {
        let into = Register(first);
        match self {
            Self::Protocol => to.push(Expression::Meta { key: Meta::L4Protocol, into }),
            Self::Source => to.push(load_address(family, Side::Source, into)),
            Self::Destination => to.push(load_address(family, Side::Destination, into)),
            Self::Unspecified => {
                to.push(load_address(family, Side::Destination, into));
                let zero = || Value::new().address(unspecified(family));
                let (mask, xor) = (zero(), zero());
                to.push(Expression::Bitwise { from: into, into, mask, xor });
            }
            Self::DestinationPort => to.push(load_port(into)),
            Self::Random { modulus, offset } => {
                let generator = Generator::Random;
                to.push(Expression::Number { generator, modulus, offset, into });
            }
        }
    }
}

/// The types of the keys of a set that is asked for these fields.
pub fn types(family: Family, fields: &[Field]) -> Vec<Type> {
    fields.iter().map(|it| it.kind(family)).collect()
}

/// The table of this family's traffic alone.
pub fn table_family(family: Family) -> TableFamily {
    match family {
        Family::V4 => TableFamily::Ip,
        Family::V6 => TableFamily::Ip6,
    }
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn address_registers(family: Family) -> u8 {
    family.bits() / 32
}

fn registers(family: Family, fields: &[Field]) -> u8 {
    fields.iter().map(|it| it.registers(family)).sum()
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

fn load_address(family: Family, side: Side, into: Register) -> Expression {
    let length = u32::from(family.bits() / 8);
    let source = match family {
        Family::V4 => 12,
        Family::V6 => 8,
    };
    let offset = match side {
        Side::Source => source,
        Side::Destination => source + length,
    };
    Expression::Payload { base: Base::Network, offset, length, into }
}

fn load_port(into: Register) -> Expression {
    Expression::Payload { base: Base::Transport, offset: 2, length: 2, into }
}

/// Where tests of one value have it.
const R0: Register = Register(0);

/// A rule that is being written.
#[derive(Clone, Debug)]
#[must_use]
pub struct Draft {
    family: Family,
    comment: String,
    expressions: Vec<Expression>,
    /// From where on registers hold what [`Draft::find`] found.
    found: Option<u8>,
}

impl Rule {
    /// For the table of this family.
    pub fn draft(family: Family, comment: impl Into<String>) -> Draft {
        Draft { family, comment: comment.into(), expressions: Vec::new(), found: None }
    }
}

impl From<Draft> for Rule {
    fn from(draft: Draft) -> Self {
        Self::new(draft.comment, draft.expressions)
    }
}

/// What a packet must be.
impl Draft {
    pub fn family(&self) -> Family {
        self.family
    }

    /// Of the draft's family, in a table of both.
    pub fn is_of_family(self) -> Self {
        let number = table_family(self.family) as u8;
        self.meta(Meta::NetworkProtocol, Comparison::Equal, Value::raw(&[number]))
    }

    /// Came by an interface of this group (`route::Link::group`).
    pub fn input_group(self, group: u32) -> Self {
        self.meta(Meta::InputGroup, Comparison::Equal, Value::new().mark(group))
    }

    pub fn output_group(self, group: u32) -> Self {
        self.meta(Meta::OutputGroup, Comparison::Equal, Value::new().mark(group))
    }

    pub fn input_is(self, interface: &str) -> Self {
        self.meta(Meta::InputName, Comparison::Equal, interface_name(interface))
    }

    pub fn input_is_not(self, interface: &str) -> Self {
        self.meta(Meta::InputName, Comparison::NotEqual, interface_name(interface))
    }

    pub fn output_is(self, interface: &str) -> Self {
        self.meta(Meta::OutputName, Comparison::Equal, interface_name(interface))
    }

    pub fn output_is_not(self, interface: &str) -> Self {
        self.meta(Meta::OutputName, Comparison::NotEqual, interface_name(interface))
    }

    /// By its number in an IP header.
    pub fn protocol(self, number: u8) -> Self {
        self.meta(Meta::L4Protocol, Comparison::Equal, Value::raw(&[number]))
    }

    pub fn source_in(self, range: Cidr) -> Self {
        self.within(Side::Source, range, Comparison::Equal)
    }

    pub fn source_not_in(self, range: Cidr) -> Self {
        self.within(Side::Source, range, Comparison::NotEqual)
    }

    pub fn destination_in(self, range: Cidr) -> Self {
        self.within(Side::Destination, range, Comparison::Equal)
    }

    pub fn destination_not_in(self, range: Cidr) -> Self {
        self.within(Side::Destination, range, Comparison::NotEqual)
    }

    /// From an address of this host.
    pub fn source_is_local(self) -> Self {
        self.address_is_local(FibAddress::Source)
    }

    pub fn destination_is_local(self) -> Self {
        self.address_is_local(FibAddress::Destination)
    }

    /// Answers to its source would not leave by the interface by which it came (`rp_filter=1`).
    pub fn source_is_not_routed_back(mut self) -> Self {
        self.expressions.push(Expression::FibReturns { into: R0 });
        self.compare(Comparison::Equal, Value::new().protocol(0))
    }

    /// Any of these bits of [`super::expression::ct_state`].
    pub fn conntrack_state(self, bits: u32) -> Self {
        self.conntrack(Conntrack::State, bits, Comparison::NotEqual)
    }

    /// None of them.
    pub fn conntrack_state_not(self, bits: u32) -> Self {
        self.conntrack(Conntrack::State, bits, Comparison::Equal)
    }

    pub fn is_new(self) -> Self {
        self.conntrack_state(ct_state::NEW)
    }

    /// Any of these bits of [`super::expression::ct_status`].
    pub fn conntrack_status(self, bits: u32) -> Self {
        self.conntrack(Conntrack::Status, bits, Comparison::NotEqual)
    }

    /// Any of these bits of its mark.
    pub fn is_marked(mut self, bits: u32) -> Self {
        self.expressions.push(Expression::Meta { key: Meta::Mark, into: R0 });
        self.and_xor(bits, 0).compare(Comparison::NotEqual, Value::new().mark(0))
    }

    /// Its fields are a key of the set.
    pub fn is_in(self, set: &'static str, fields: &[Field]) -> Self {
        self.look_up(set, fields, Target::Member)
    }

    pub fn is_not_in(self, set: &'static str, fields: &[Field]) -> Self {
        self.look_up(set, fields, Target::NotMember)
    }

    fn meta(mut self, key: Meta, comparison: Comparison, value: Value) -> Self {
        self.expressions.push(Expression::Meta { key, into: R0 });
        self.compare(comparison, value)
    }

    fn compare(mut self, comparison: Comparison, value: Value) -> Self {
        self.expressions.push(Expression::Compare { from: R0, comparison, value });
        self
    }

    fn and_xor(mut self, mask: u32, xor: u32) -> Self {
        let (mask, xor) = (Value::new().mark(mask), Value::new().mark(xor));
        self.expressions.push(Expression::Bitwise { from: R0, into: R0, mask, xor });
        self
    }

    /// A range of the other family has none of our packets.
    fn within(mut self, side: Side, range: Cidr, comparison: Comparison) -> Self {
        debug_assert_eq!(range.family(), self.family, "{range} in {:?}", self.comment);
        self.expressions.push(load_address(self.family, side, R0));
        let mask = Value::new().address(mask(range));
        let xor = Value::new().address(unspecified(range.family()));
        self.expressions.push(Expression::Bitwise { from: R0, into: R0, mask, xor });
        self.compare(comparison, Value::new().address(range.network()))
    }

    fn address_is_local(mut self, address: FibAddress) -> Self {
        self.expressions.push(Expression::FibType { address, into: R0 });
        self.compare(Comparison::Equal, Value::new().mark(FIB_LOCAL))
    }

    fn conntrack(mut self, key: Conntrack, bits: u32, comparison: Comparison) -> Self {
        self.expressions.push(Expression::Conntrack { key, direction: None, into: R0 });
        self.and_xor(bits, 0).compare(comparison, Value::new().mark(0))
    }

    fn load(mut self, fields: &[Field]) -> Self {
        let mut first = 0;
        for field in fields {
            field.load(self.family, first, &mut self.expressions);
            first += field.registers(self.family);
        }
        self
    }

    fn look_up(self, set: &'static str, fields: &[Field], target: Target) -> Self {
        let mut draft = self.load(fields);
        draft.expressions.push(Expression::Lookup { set, key: R0, target });
        draft
    }
}

/// The address whose bits are ones where they tell the range.
fn mask(range: Cidr) -> IpAddr {
    let ones = match range.family() {
        Family::V4 => IpAddr::V4(Ipv4Addr::BROADCAST),
        Family::V6 => IpAddr::V6(u128::MAX.into()),
    };
    Cidr::containing(ones, range.prefix_length()).map_or(ones, Cidr::network)
}

/// What becomes of it.
impl Draft {
    pub fn set_mark(self, bits: u32) -> Self {
        self.change_mark(!bits, bits)
    }

    pub fn clear_mark(self, bits: u32) -> Self {
        self.change_mark(!bits, 0)
    }

    fn change_mark(mut self, mask: u32, xor: u32) -> Self {
        self.expressions.push(Expression::Meta { key: Meta::Mark, into: R0 });
        let mut draft = self.and_xor(mask, xor);
        draft.expressions.push(Expression::SetMeta { key: Meta::Mark, from: R0 });
        draft
    }

    /// What the map has for these fields; goes on to the next rule if it has nothing.
    pub fn verdict_of(self, map: &'static str, fields: &[Field]) -> Rule {
        self.look_up(map, fields, Target::Verdict).into()
    }

    /// To the [`ENDPOINT`] that the map has for these fields.
    pub fn dnat_by(self, map: &'static str, fields: &[Field]) -> Rule {
        let first = registers(self.family, fields);
        let draft = self.look_up(map, fields, Target::Register(Register(first)));
        draft.dnat_from(first)
    }

    pub fn snat_to(mut self, address: IpAddr) -> Rule {
        let value = Value::new().address(address);
        self.expressions.push(Expression::Immediate { into: R0, value });
        self.expressions.push(Expression::Nat {
            kind: Nat::Source,
            address: R0,
            port: None,
            flags: 0,
        });
        self.into()
    }

    /// Its source becomes an address of the interface by which it leaves, with any port.
    pub fn masquerade(mut self) -> Rule {
        self.expressions.push(Expression::Masquerade { flags: nat_flags::FULLY_RANDOM });
        self.into()
    }

    /// Refuses TCP by a reset.
    pub fn reset(mut self) -> Rule {
        self.expressions.push(Expression::Reject(Reject::TcpReset));
        self.into()
    }

    /// Refuses by ICMP, of which the kernel gives each host a few per second only.
    pub fn unreachable(mut self) -> Rule {
        self.expressions.push(Expression::Reject(Reject::PortUnreachable));
        self.into()
    }

    pub fn accept(self) -> Rule {
        self.verdict(Verdict::Accept)
    }

    pub fn drop(self) -> Rule {
        self.verdict(Verdict::Drop)
    }

    pub fn jump(self, chain: impl Into<String>) -> Rule {
        self.verdict(Verdict::Jump(chain.into()))
    }

    pub fn goto(self, chain: impl Into<String>) -> Rule {
        self.verdict(Verdict::Goto(chain.into()))
    }

    fn verdict(mut self, verdict: Verdict) -> Rule {
        self.expressions.push(Expression::Verdict(verdict));
        self.into()
    }

    fn dnat_from(mut self, first: u8) -> Rule {
        let (address, port) = (Register(first), Register(first + address_registers(self.family)));
        let kind = Nat::Destination;
        self.expressions.push(Expression::Nat { kind, address, port: Some(port), flags: 0 });
        self.into()
    }
}

/// The kernel's bound on the value of one bitwise operation, in registers.
const BITWISE_REGISTERS: u8 = 4;

/// Endpoints that are remembered: found in one map and asked for or stored in another.
impl Draft {
    /// Finds the [`ENDPOINT`] that the map has for a key, and puts it behind these fields; ends the
    /// rule if there is none. The last of the fields is the destination port.
    ///
    /// `nft` takes what a map gave for nothing at all, and dies when that is part of a key or
    /// stored. But of a value over several registers it follows only the first: so the endpoint is
    /// copied together with the register before it, and `nft` still sees what was there before, the
    /// packet's destination and port. What a copy starts at must be known to `nft`, too: a port.
    ///
    /// ```text
    /// IPv4, behind four registers:     0 port   1 endpoint (2)   ->   3 port   4 endpoint
    /// IPv6, behind ten:                0 port   1 endpoint (5)   ->   9 port  10 endpoint
    /// ```
    pub fn find(mut self, map: &'static str, key: &[Field], fields: &[Field]) -> Self {
        debug_assert_eq!(fields.last(), Some(&Field::DestinationPort));
        let n_copied = 1 + registers(self.family, ENDPOINT);
        let chunks = || (0..n_copied).step_by(BITWISE_REGISTERS.into());
        self.expressions.extend(chunks().skip(1).map(|it| load_port(Register(it))));
        let mut draft = self.look_up(map, key, Target::Register(Register(1)));
        let found = registers(draft.family, fields);
        let mut placeholder = Vec::new();
        Field::Destination.load(draft.family, found, &mut placeholder);
        placeholder.push(load_port(Register(found + address_registers(draft.family))));
        draft.expressions.extend(placeholder);
        draft.expressions.push(load_port(R0));
        draft.expressions.extend(chunks().map(|it| {
            let n_registers = (n_copied - it).min(BITWISE_REGISTERS);
            copy(it, found - 1 + it, n_registers)
        }));
        Self { found: Some(found), ..draft.load(fields) }
    }

    /// The fields from this register on, with what was found, are a key of the set. `skipped`: the
    /// fields of [`Draft::find`] that are no part of the key, from the left.
    pub fn found_is_in(mut self, set: &'static str, skipped: &[Field]) -> Self {
        let key = Register(registers(self.family, skipped));
        self.expressions.push(Expression::Lookup { set, key, target: Target::Member });
        self
    }

    /// Stores what was found under the fields, for so long; ends the rule if the map is full. What
    /// is there stays.
    pub fn store_found(self, map: &'static str, timeout: Duration) -> Self {
        let found = self.found_at();
        self.change(map, SetOperation::Add, found, Some(timeout))
    }

    /// As [`Draft::store_found`]; what is there lives for so long from now on.
    pub fn renew_found(self, map: &'static str, timeout: Duration) -> Self {
        let found = self.found_at();
        self.change(map, SetOperation::Update, found, Some(timeout))
    }

    pub fn dnat_to_found(self) -> Rule {
        let found = self.found_at();
        self.dnat_from(found)
    }

    /// Removes what the map of endpoints has for the fields.
    pub fn forget(self, map: &'static str, fields: &[Field]) -> Rule {
        // The kernel wants data with every change of a map, and looks at none when it deletes.
        let data = registers(self.family, fields);
        let mut draft = self.load(&[fields, ENDPOINT].concat());
        draft = draft.change(map, SetOperation::Delete, data, None);
        draft.into()
    }

    fn found_at(&self) -> u8 {
        debug_assert!(self.found.is_some(), "{:?} finds nothing", self.comment);
        self.found.unwrap_or_default()
    }

    fn change(
        mut self,
        set: &'static str,
        operation: SetOperation,
        value: u8,
        timeout: Option<Duration>,
    ) -> Self {
        let value = Some(Register(value));
        self.expressions.push(Expression::Dynamic { set, operation, key: R0, value, timeout });
        self
    }
}

fn copy(from: u8, into: u8, n_registers: u8) -> Expression {
    let all = |bits: u32| (0..n_registers).fold(Value::new(), |value, _| value.mark(bits));
    let (from, into) = (Register(from), Register(into));
    Expression::Bitwise { from, into, mask: all(u32::MAX), xor: all(0) }
}
