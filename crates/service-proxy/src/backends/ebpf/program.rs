//! The programs, purely: what happens when a socket connects, sends, receives, or asks for its
//! peer's name. `README.md` has them in words.

use linux::bpf::{
    Assembler, Code, Condition, Error, Helper, Hook, Label, Operation, Register, Size,
};
use stdx::Family;

use super::layout::{CHOICE, Table};
use Condition::{Equal, Greater, NotEqual};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Byte, Double, Half, Word};

/// Whose sockets a program is for: of those in its cgroup, exactly one of the two sees each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those in the node's own network namespace. At the root of all cgroups.
    Node,
    /// Those in any other. At the cgroup that all pods of the cluster are in.
    Pods,
}

/// `struct bpf_sock_addr`.
mod context {
    pub(super) const ADDRESS_4: i16 = 4;
    pub(super) const ADDRESS_6: i16 = 8;
    pub(super) const PORT: i16 = 24;
    pub(super) const PROTOCOL: i16 = 36;
    pub(super) const SOCKET: i16 = 64;
}

/// `struct bpf_sock`: what the socket is bound to.
mod socket {
    pub(super) const ADDRESS_4: i16 = 24;
    pub(super) const ADDRESS_6: i16 = 28;
}

/// Places on the stack, from its end down.
mod stack {
    /// A frontend and, behind it, a slot.
    pub(super) const FRONTEND: i16 = -24;
    pub(super) const SLOT: i16 = FRONTEND + 20;
    pub(super) const CLIENT: i16 = -56;
    pub(super) const MEMBER: i16 = -96;
    pub(super) const REMEMBERED: i16 = -128;
    pub(super) const FLOW: i16 = -160;
    pub(super) const ASKED: i16 = -184;
    pub(super) const NOW: i16 = -192;
}

const TCP: i32 = 6;
const UDP: i32 = 17;
/// Offset of the affinity in a choice.
const AFFINITY: i16 = CHOICE as i16 - 8;
/// Offset of the time in what is remembered of a client.
const LAST_USED: i16 = 24;
/// What stands before an address of IPv4, as it lies in memory.
const MAPPED: i32 = i32::from_ne_bytes([0, 0, 0xff, 0xff]);

/// The last word of ::1.
const LAST_OF_LOOPBACK: i32 = i32::from_ne_bytes([0, 0, 0, 1]);
/// Of an address of IPv4, as it lies in memory.
const FIRST_BYTE: i32 = i32::from_ne_bytes([0xff, 0, 0, 0]);
const FIRST_OF_LOOPBACK: i32 = i32::from_ne_bytes([127, 0, 0, 0]);

/// The maps' descriptors, in the order of [`Table::ALL`].
pub(super) type Descriptors = [i32; Table::ALL.len()];

/// For a hook of sockets; the node's network namespace has this number.
pub(super) fn code(
    hook: Hook,
    scope: Scope,
    node: u64,
    descriptors: Descriptors,
) -> Result<Code, Error> {
    let family = match hook {
        Hook::Connect4 | Hook::SendMessage4 | Hook::ReceiveMessage4 | Hook::PeerName4 => Family::V4,
        _ => Family::V6,
    };
    let mut code = Assembler::new();
    let out = code.label();
    let mut program = Program { code, out, family, descriptors };
    program.check_scope(scope, node);
    match hook {
        Hook::ReceiveMessage4 | Hook::ReceiveMessage6 | Hook::PeerName4 | Hook::PeerName6 => {
            program.translate_back()
        }
        _ => program.translate(),
    }
    program.code.bind(out).set(R0, 1).exit();
    program.code.assemble()
}

/// R6 is the context, R7 the choice, R8 the endpoint, R9 the network namespace.
struct Program {
    code: Assembler,
    /// Nothing (more) is to be done.
    out: Label,
    family: Family,
    descriptors: Descriptors,
}

impl Program {
    fn check_scope(&mut self, scope: Scope, node: u64) {
        let leaves = match scope {
            Scope::Node => NotEqual,
            Scope::Pods => Equal,
        };
        self.code.set(R6, R1).call(Helper::NamespaceCookie).set(R9, R0);
        self.code.set_long(R1, node).jump_if(leaves, R9, R1, self.out);
    }

    /// From what a socket asks for to one of its endpoints.
    fn translate(&mut self) {
        let (found, choose, give) = (self.code.label(), self.code.label(), self.code.label());
        self.read_frontend();
        self.find_choice(found);
        self.code.bind(found).set(R7, R0).load(Word, R1, R7, 0);
        self.code.jump_if(Equal, R1, 0, self.out);
        self.leave_loopback();
        self.code.load(Double, R1, R7, AFFINITY).jump_if(Equal, R1, 0, choose);
        self.find_remembered(choose);
        self.code.jump(give).bind(choose);
        self.choose(give);
        self.code.bind(give);
        self.note_flow();
        self.write_destination(R8);
    }

    /// Only protocols that Services are served for here.
    fn read_frontend(&mut self) {
        let known = self.code.label();
        self.code.load(Word, R1, R6, context::PROTOCOL).jump_if(Equal, R1, TCP, known);
        self.code.jump_if(NotEqual, R1, UDP, self.out).bind(known);
        self.code.store(Byte, R10, stack::FRONTEND + 18, R1);
        self.code.store(Byte, R10, stack::FRONTEND + 19, 0);
        self.read_destination(stack::FRONTEND);
    }

    /// The address and port in the context to the stack.
    fn read_destination(&mut self, at: i16) {
        match self.family {
            Family::V4 => {
                self.code.store(Double, R10, at, 0).store(Word, R10, at + 8, MAPPED);
                self.code.load(Word, R1, R6, context::ADDRESS_4).store(Word, R10, at + 12, R1);
            }
            Family::V6 => {
                for word in (0..16).step_by(4) {
                    self.code.load(Word, R1, R6, context::ADDRESS_6 + word);
                    self.code.store(Word, R10, at + word, R1);
                }
            }
        }
        self.code.load(Word, R1, R6, context::PORT).store(Half, R10, at + 16, R1);
    }

    /// Lets the socket talk to the address and port that a register points to.
    fn write_destination(&mut self, from: Register) {
        match self.family {
            Family::V4 => {
                self.code.load(Word, R1, from, 12).store(Word, R6, context::ADDRESS_4, R1);
            }
            Family::V6 => {
                for word in (0..16).step_by(4) {
                    self.code.load(Word, R1, from, word);
                    self.code.store(Word, R6, context::ADDRESS_6 + word, R1);
                }
            }
        }
        self.code.load(Half, R1, from, 16).store(Word, R6, context::PORT, R1);
    }

    fn set_map(&mut self, to: Register, table: Table) {
        self.code.set_map(to, self.descriptors[table as usize]);
    }

    fn set_place(&mut self, to: Register, place: i16) {
        self.code.set(to, R10).compute(Operation::Add, to, i32::from(place));
    }

    /// R0 is the value of the key at this place, or zero.
    fn look_up(&mut self, table: Table, key: i16) {
        self.set_map(R1, table);
        self.set_place(R2, key);
        self.code.call(Helper::MapLookup);
    }

    /// R0 is zero, or why not.
    fn update(&mut self, table: Table, key: i16, value: i16) {
        self.set_map(R1, table);
        self.set_place(R2, key);
        self.set_place(R3, value);
        self.code.set(R4, 0).call(Helper::MapUpdate);
    }

    /// So many bytes, four by four.
    fn copy(&mut self, (from, offset): (Register, i16), to: i16, length: i16) {
        for word in (0..length).step_by(4) {
            self.code.load(Word, R1, from, offset + word).store(Word, R10, to + word, R1);
        }
    }

    /// By the address, or by the port alone if the address is the node's.
    fn find_choice(&mut self, found: Label) {
        let (is_ipv6, by_port) = (self.code.label(), self.code.label());
        let at = stack::FRONTEND;
        self.look_up(Table::Frontends, at);
        self.code.jump_if(NotEqual, R0, 0, found);
        self.look_up(Table::Addresses, at);
        self.code.jump_if(Equal, R0, 0, self.out);
        // An address of IPv4 stays one: 0.0.0.0, not ::.
        self.code.load(Double, R1, R10, at).jump_if(NotEqual, R1, 0, is_ipv6);
        self.code.load(Half, R1, R10, at + 8).jump_if(NotEqual, R1, 0, is_ipv6);
        self.code.load(Half, R1, R10, at + 10).jump_if(Equal, R1, 0xffff, by_port);
        self.code.bind(is_ipv6).store(Double, R10, at, 0).store(Word, R10, at + 8, 0);
        self.code.bind(by_port).store(Word, R10, at + 12, 0);
        self.look_up(Table::Frontends, at);
        self.code.jump_if(Equal, R0, 0, self.out);
    }

    /// A socket that is bound to 127.0.0.0/8 or ::1 could not reach an endpoint from there: as packets
    /// its connection is masqueraded.
    fn leave_loopback(&mut self) {
        let (bound_elsewhere, is_ipv4) = (self.code.label(), self.code.label());
        self.code.load(Double, R2, R6, context::SOCKET).jump_if(Equal, R2, 0, bound_elsewhere);
        match self.family {
            Family::V4 => {
                self.code.load(Word, R1, R2, socket::ADDRESS_4);
            }
            Family::V6 => {
                let at = socket::ADDRESS_6;
                for word in [at, at + 4] {
                    self.code.load(Word, R1, R2, word).jump_if(NotEqual, R1, 0, bound_elsewhere);
                }
                self.code.load(Word, R1, R2, at + 12).load(Word, R3, R2, at + 8);
                self.code.jump_if(NotEqual, R3, 0, is_ipv4);
                self.code.jump_if(Equal, R1, LAST_OF_LOOPBACK, self.out).jump(bound_elsewhere);
            }
        }
        self.code.bind(is_ipv4).compute(Operation::And, R1, FIRST_BYTE);
        self.code.jump_if(Equal, R1, FIRST_OF_LOOPBACK, self.out).bind(bound_elsewhere);
    }

    fn write_client(&mut self) {
        self.copy((R10, stack::FRONTEND), stack::CLIENT, 20);
        self.code.store(Word, R10, stack::CLIENT + 20, 0);
        self.code.store(Double, R10, stack::CLIENT + 24, R9);
    }

    /// The endpoint that the client had last, if that is not too long ago and it still is one.
    fn find_remembered(&mut self, otherwise: Label) {
        self.write_client();
        self.look_up(Table::Clients, stack::CLIENT);
        self.code.jump_if(Equal, R0, 0, otherwise).set(R8, R0);
        self.code.call(Helper::Time).store(Double, R10, stack::NOW, R0);
        self.code.load(Double, R1, R8, LAST_USED).compute(Operation::Subtract, R0, R1);
        self.code.load(Double, R1, R7, AFFINITY).jump_if(Greater, R0, R1, otherwise);
        self.copy((R10, stack::FRONTEND), stack::MEMBER, 20);
        self.copy((R8, 0), stack::MEMBER + 20, 20);
        self.look_up(Table::Members, stack::MEMBER);
        self.code.jump_if(Equal, R0, 0, otherwise);
        self.code.load(Double, R1, R10, stack::NOW).store(Double, R8, LAST_USED, R1);
    }

    /// Any endpoint, which is remembered if there is affinity. A slot that has just gone leaves it to
    /// the packets' rules.
    fn choose(&mut self, give: Label) {
        self.code.call(Helper::Random).load(Word, R1, R7, 0);
        self.code.compute(Operation::Modulo, R0, R1).store(Word, R10, stack::SLOT, R0);
        self.look_up(Table::Slots, stack::FRONTEND);
        self.code.jump_if(Equal, R0, 0, self.out).set(R8, R0);
        self.code.load(Double, R1, R7, AFFINITY).jump_if(Equal, R1, 0, give);
        self.write_client();
        self.copy((R8, 0), stack::REMEMBERED, 20);
        self.code.store(Word, R10, stack::REMEMBERED + 20, 0).call(Helper::Time);
        self.code.store(Double, R10, stack::REMEMBERED + LAST_USED, R0);
        self.update(Table::Clients, stack::CLIENT, stack::REMEMBERED);
    }

    /// What the socket asked for, for the way back. Without it nothing is translated: an answer
    /// would come from a stranger.
    fn note_flow(&mut self) {
        self.write_socket();
        self.copy((R8, 0), stack::FLOW + 8, 20);
        self.code.store(Word, R10, stack::FLOW + 28, 0);
        self.read_destination(stack::ASKED);
        self.code.load(Half, R1, R10, stack::FRONTEND + 18).store(Half, R10, stack::ASKED + 18, R1);
        self.update(Table::Flows, stack::FLOW, stack::ASKED);
        self.code.jump_if(NotEqual, R0, 0, self.out);
    }

    fn write_socket(&mut self) {
        self.code.set(R1, R6).call(Helper::SocketCookie).store(Double, R10, stack::FLOW, R0);
    }

    /// From an endpoint to what the socket had asked for.
    fn translate_back(&mut self) {
        self.write_socket();
        self.read_destination(stack::FLOW + 8);
        self.code.store(Half, R10, stack::FLOW + 26, 0).store(Word, R10, stack::FLOW + 28, 0);
        self.look_up(Table::Flows, stack::FLOW);
        self.code.jump_if(Equal, R0, 0, self.out).set(R8, R0);
        self.write_destination(R8);
    }
}
