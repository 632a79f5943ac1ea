//! What a rule is made of: loads into registers, tests of registers, and what to do.
//!
//! Each rule loads all registers that it reads: the kernel refuses a rule that reads what it did
//! not write.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::encode;
use super::numbers::{data, expression};
use super::set::{Value, Verdict};
use super::table::TableFamily;
use crate::netlink::Attributes;

/// One of sixteen registers of four bytes; longer values take several from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub u8);

impl Register {
    /// `NFT_REG32_00` is eight.
    fn number(self) -> u32 {
        8 + u32::from(self.0)
    }
}

const VERDICT_REGISTER: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Network = 1,
    Transport = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    Mark = 3,
    /// Sixteen bytes, filled up with zeros: see [`interface_name`].
    InputName = 6,
    OutputName = 7,
    /// One byte: the family of the packet (`NFPROTO_*`).
    NetworkProtocol = 15,
    L4Protocol = 16,
    /// The group of the interface: see `route::Link::group`.
    InputGroup = 21,
    OutputGroup = 22,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conntrack {
    /// See [`ct_state`].
    State = 0,
    /// See [`ct_status`].
    Status = 2,
    Mark = 3,
    /// The destination port, of one direction.
    DestinationPort = 12,
    /// The destination address, of one direction.
    DestinationAddress = 20,
}

/// Bits of [`Conntrack::State`].
pub mod ct_state {
    pub const INVALID: u32 = 1;
    pub const ESTABLISHED: u32 = 2;
    pub const RELATED: u32 = 4;
    pub const NEW: u32 = 8;
}

/// Bits of [`Conntrack::Status`].
pub mod ct_status {
    pub const SOURCE_NAT: u32 = 0x10;
    pub const DESTINATION_NAT: u32 = 0x20;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Original = 0,
    Reply = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal = 0,
    NotEqual = 1,
    Less = 2,
    LessOrEqual = 3,
    Greater = 4,
    GreaterOrEqual = 5,
}

/// Where the data of a map goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: the rule goes on if the key is in the set.
    Member,
    /// As `Member`, if the key is not in the set.
    NotMember,
    Register(Register),
    /// The data is what to do.
    Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    Source = 0,
    Destination = 1,
}

/// Bits of `flags` of [`Expression::Nat`] and [`Expression::Masquerade`] (`NF_NAT_RANGE_*`).
pub mod nat_flags {
    pub const RANDOM: u32 = 1 << 2;
    pub const PERSISTENT: u32 = 1 << 3;
    pub const FULLY_RANDOM: u32 = 1 << 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// ICMP: port unreachable. The kernel limits how many of these a host gets per second.
    PortUnreachable,
    TcpReset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    Incremental = 0,
    Random = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibAddress {
    Source = 1,
    Destination = 2,
}

/// The type of an address of this host, as [`Expression::FibType`] gives it (`RTN_LOCAL`).
pub const FIB_LOCAL: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    Add = 0,
    /// Adds, or lets the element that is there live on. Its data stays.
    Update = 1,
    Delete = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    Payload {
        base: Base,
        offset: u32,
        length: u32,
        into: Register,
    },
    Meta {
        key: Meta,
        into: Register,
    },
    SetMeta {
        key: Meta,
        from: Register,
    },
    Conntrack {
        key: Conntrack,
        direction: Option<Direction>,
        into: Register,
    },
    SetConntrack {
        key: Conntrack,
        from: Register,
    },
    /// What kind of address it is (`FIB_LOCAL`).
    FibType {
        address: FibAddress,
        into: Register,
    },
    /// One byte: 1 if the source is routed back over the interface by which the packet came, as
    /// `rp_filter=1` wants it.
    FibReturns {
        into: Register,
    },
    Immediate {
        into: Register,
        value: Value,
    },
    Compare {
        from: Register,
        comparison: Comparison,
        value: Value,
    },
    /// `into = from & mask ^ xor`.
    Bitwise {
        from: Register,
        into: Register,
        mask: Value,
        xor: Value,
    },
    /// The keys of a set are as long as its type says, from this register on.
    Lookup {
        set: &'static str,
        key: Register,
        target: Target,
    },
    /// `offset + x`, with x below the modulus.
    Number {
        generator: Generator,
        modulus: u32,
        offset: u32,
        into: Register,
    },
    Hash {
        from: Register,
        length: u32,
        modulus: u32,
        seed: u32,
        offset: u32,
        into: Register,
    },
    Counter,
    Nat {
        kind: Nat,
        address: Register,
        port: Option<Register>,
        flags: u32,
    },
    Masquerade {
        flags: u32,
    },
    Redirect {
        port: Option<Register>,
    },
    Reject(Reject),
    /// Changes a dynamic set. If the set is full, the rule ends.
    Dynamic {
        set: &'static str,
        operation: SetOperation,
        key: Register,
        value: Option<Register>,
        timeout: Option<Duration>,
    },
    Verdict(Verdict),
}

/// The value that [`Meta::InputName`] and [`Meta::OutputName`] have for an interface.
pub fn interface_name(name: &str) -> Value {
    let mut bytes = name.as_bytes().to_vec();
    bytes.truncate(15);
    bytes.resize(16, 0);
    Value::raw(&bytes)
}

/// The network mask of so many bits, for [`Expression::Bitwise`].
pub fn network_mask(prefix_length: u8) -> Ipv4Addr {
    let bits = u32::from(prefix_length.min(32));
    Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0))
}

/// A table of both families translates IPv4 alone.
const fn nat_family(family: TableFamily) -> u32 {
    match family {
        TableFamily::Ip | TableFamily::Inet => TableFamily::Ip as u32,
        TableFamily::Ip6 => TableFamily::Ip6 as u32,
    }
}

/// The kind of reject and the code of ICMP, ICMPv6, or what stands for both.
const fn port_unreachable(family: TableFamily) -> (u32, u8) {
    match family {
        TableFamily::Ip => (0, 3),
        TableFamily::Ip6 => (0, 4),
        TableFamily::Inet => (2, 1),
    }
}

impl Expression {
    fn name(&self) -> &'static str {
        match self {
            Self::Payload { .. } => "payload",
            Self::Meta { .. } | Self::SetMeta { .. } => "meta",
            Self::Conntrack { .. } | Self::SetConntrack { .. } => "ct",
            Self::FibType { .. } | Self::FibReturns { .. } => "fib",
            Self::Immediate { .. } | Self::Verdict(_) => "immediate",
            Self::Compare { .. } => "cmp",
            Self::Bitwise { .. } => "bitwise",
            Self::Lookup { .. } => "lookup",
            Self::Number { .. } => "numgen",
            Self::Hash { .. } => "hash",
            Self::Counter => "counter",
            Self::Nat { .. } => "nat",
            Self::Masquerade { .. } => "masq",
            Self::Redirect { .. } => "redir",
            Self::Reject(_) => "reject",
            Self::Dynamic { .. } => "dynset",
        }
    }

    /// NAT and rejects are of the table's family.
    pub(super) fn encode(&self, family: TableFamily, attributes: &mut Attributes) {
        attributes.string(expression::NAME, self.name()).nest(expression::DATA, |it| {
            match self {
                Self::Payload { .. }
                | Self::Meta { .. }
                | Self::SetMeta { .. }
                | Self::Conntrack { .. }
                | Self::SetConntrack { .. }
                | Self::FibType { .. }
                | Self::FibReturns { .. }
                | Self::Number { .. }
                | Self::Hash { .. }
                | Self::Immediate { .. } => self.encode_load(it),
                Self::Compare { .. } | Self::Bitwise { .. } | Self::Lookup { .. } => {
                    self.encode_test(it);
                }
                Self::Counter
                | Self::Nat { .. }
                | Self::Masquerade { .. }
                | Self::Redirect { .. }
                | Self::Reject(_)
                | Self::Dynamic { .. }
                | Self::Verdict(_) => self.encode_action(family, it),
            };
        });
    }

    /// What puts something into a register, or a register into the packet's or the connection's
    /// state.
    fn encode_load(&self, to: &mut Attributes) {
        match self {
            Self::Payload { base, offset, length, into } => {
                to.u32_be(1, into.number()).u32_be(2, *base as u32);
                to.u32_be(3, *offset).u32_be(4, *length);
            }
            Self::Meta { key, into } => {
                to.u32_be(1, into.number()).u32_be(2, *key as u32);
            }
            Self::SetMeta { key, from } => {
                to.u32_be(2, *key as u32).u32_be(3, from.number());
            }
            Self::Conntrack { key, direction, into } => {
                to.u32_be(1, into.number()).u32_be(2, *key as u32);
                if let Some(direction) = direction {
                    to.u8(3, *direction as u8);
                }
            }
            Self::SetConntrack { key, from } => {
                to.u32_be(2, *key as u32).u32_be(4, from.number());
            }
            Self::FibType { address, into } => {
                const ADDRESS_TYPE: u32 = 3;
                to.u32_be(1, into.number()).u32_be(2, ADDRESS_TYPE).u32_be(3, *address as u32);
            }
            Self::FibReturns { into } => {
                const OUTPUT_INTERFACE: u32 = 1;
                const SOURCE: u32 = 1;
                const INPUT_INTERFACE: u32 = 1 << 3;
                const IS_PRESENT: u32 = 1 << 5;
                let flags = SOURCE | INPUT_INTERFACE | IS_PRESENT;
                to.u32_be(1, into.number()).u32_be(2, OUTPUT_INTERFACE).u32_be(3, flags);
            }
            Self::Number { generator, modulus, offset, into } => {
                to.u32_be(1, into.number()).u32_be(2, *modulus);
                to.u32_be(3, *generator as u32).u32_be(4, *offset);
            }
            Self::Hash { from, length, modulus, seed, offset, into } => {
                to.u32_be(1, from.number()).u32_be(2, into.number()).u32_be(3, *length);
                to.u32_be(4, *modulus).u32_be(5, *seed).u32_be(6, *offset);
            }
            Self::Immediate { into, value } => {
                to.u32_be(1, into.number()).nest(2, |it| {
                    it.bytes(data::VALUE, value.as_bytes());
                });
            }
            _ => {}
        }
    }

    fn encode_test(&self, to: &mut Attributes) {
        match self {
            Self::Compare { from, comparison, value } => {
                to.u32_be(1, from.number()).u32_be(2, *comparison as u32).nest(3, |it| {
                    it.bytes(data::VALUE, value.as_bytes());
                });
            }
            Self::Bitwise { from, into, mask, xor } => {
                let length = u32::try_from(mask.as_bytes().len()).unwrap_or(u32::MAX);
                to.u32_be(1, from.number()).u32_be(2, into.number()).u32_be(3, length);
                for (kind, value) in [(4, mask), (5, xor)] {
                    to.nest(kind, |it| {
                        it.bytes(data::VALUE, value.as_bytes());
                    });
                }
            }
            Self::Lookup { set, key, target } => {
                const INVERTED: u32 = 1;
                to.string(1, set).u32_be(2, key.number());
                match target {
                    Target::Member => {}
                    Target::NotMember => {
                        to.u32_be(5, INVERTED);
                    }
                    Target::Register(into) => {
                        to.u32_be(3, into.number());
                    }
                    Target::Verdict => {
                        to.u32_be(3, VERDICT_REGISTER);
                    }
                }
            }
            _ => {}
        }
    }

    fn encode_action(&self, family: TableFamily, to: &mut Attributes) {
        match self {
            Self::Nat { kind, address, port, flags } => {
                to.u32_be(1, *kind as u32).u32_be(2, nat_family(family));
                to.u32_be(3, address.number());
                if let Some(port) = port {
                    to.u32_be(5, port.number());
                }
                if *flags != 0 {
                    to.u32_be(7, *flags);
                }
            }
            Self::Masquerade { flags } if *flags != 0 => {
                to.u32_be(1, *flags);
            }
            Self::Redirect { port: Some(port) } => {
                to.u32_be(1, port.number());
            }
            Self::Reject(reject) => {
                match reject {
                    Reject::PortUnreachable => {
                        let (kind, code) = port_unreachable(family);
                        to.u32_be(1, kind).u8(2, code)
                    }
                    Reject::TcpReset => to.u32_be(1, 1),
                };
            }
            Self::Dynamic { set, operation, key, value, timeout } => {
                to.string(1, set).u32_be(3, *operation as u32).u32_be(4, key.number());
                if let Some(value) = value {
                    to.u32_be(5, value.number());
                }
                if let Some(timeout) = timeout {
                    to.u64_be(6, encode::milliseconds(*timeout));
                }
            }
            Self::Verdict(verdict) => {
                to.u32_be(1, VERDICT_REGISTER).nest(2, |it| encode::verdict(verdict, it));
            }
            _ => {}
        }
    }
}
