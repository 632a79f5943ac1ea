//! Instructions of the machine in the kernel, and what they are made of.

/// R0 is the answer of a helper and of the program, R1 to R5 are arguments and lost with a call, R6
/// to R9 stay, R10 is the end of the stack and is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Byte,
    Half,
    Word,
    Double,
}

impl Size {
    const fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Register(Register),
    /// Its sign is extended to 64 bits.
    Immediate(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Immediate(number)
    }
}

/// On 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Subtract,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Modulo,
    Move,
}

impl Operation {
    const fn bits(self) -> u8 {
        match self {
            Self::Add => 0x00,
            Self::Subtract => 0x10,
            Self::Or => 0x40,
            Self::And => 0x50,
            Self::ShiftLeft => 0x60,
            Self::ShiftRight => 0x70,
            Self::Modulo => 0x90,
            Self::Move => 0xb0,
        }
    }
}

/// On 64 bits, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Equal,
    NotEqual,
    Greater,
}

impl Condition {
    const fn bits(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::Greater => 0x20,
            Self::NotEqual => 0x50,
        }
    }
}

/// Functions of the kernel (`BPF_FUNC_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// R1 map, R2 key; the address of the value, or zero.
    MapLookup,
    /// R1 map, R2 key, R3 value, R4 flags; zero, or a negative error number.
    MapUpdate,
    /// R1 map, R2 key; zero, or a negative error number.
    MapDelete,
    /// Nanoseconds since the start of the machine.
    Time,
    /// 32 bits.
    Random,
    /// R1 context; a number that no other socket of this machine has or had.
    SocketCookie,
    /// R1 context; the same of the socket's network namespace.
    NamespaceCookie,
}

impl Helper {
    pub const fn number(self) -> u32 {
        match self {
            Self::MapLookup => 1,
            Self::MapUpdate => 2,
            Self::MapDelete => 3,
            Self::Time => 5,
            Self::Random => 7,
            Self::SocketCookie => 46,
            Self::NamespaceCookie => 122,
        }
    }
}

const LOAD_IMMEDIATE: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_IMMEDIATE: u8 = 0x62;
const STORE: u8 = 0x63;
const COMPUTE: u8 = 0x07;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The operand is a register.
const FROM_REGISTER: u8 = 0x08;
/// `BPF_PSEUDO_MAP_FD`: the immediate is a map's descriptor.
const OF_MAP: u8 = 1;

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper.
    registers: u8,
    pub(super) offset: i16,
    immediate: i32,
}

impl Instruction {
    const fn new(code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> Self {
        Self { code, registers: to as u8 | from << 4, offset, immediate }
    }

    const fn of(code: u8, to: Register, operand: Operand, offset: i16) -> Self {
        match operand {
            Operand::Register(from) => Self::new(code | FROM_REGISTER, to, from as u8, offset, 0),
            Operand::Immediate(number) => Self::new(code, to, 0, offset, number),
        }
    }

    pub(super) const fn compute(operation: Operation, to: Register, operand: Operand) -> Self {
        Self::of(COMPUTE | operation.bits(), to, operand, 0)
    }

    pub(super) const fn load(size: Size, to: Register, from: Register, offset: i16) -> Self {
        Self::new(LOAD | size.bits(), to, from as u8, offset, 0)
    }

    pub(super) const fn store(size: Size, to: Register, offset: i16, operand: Operand) -> Self {
        match operand {
            Operand::Register(from) => Self::new(STORE | size.bits(), to, from as u8, offset, 0),
            Operand::Immediate(number) => {
                Self::new(STORE_IMMEDIATE | size.bits(), to, 0, offset, number)
            }
        }
    }

    pub(super) const fn jump() -> Self {
        Self::new(JUMP, Register::R0, 0, 0, 0)
    }

    pub(super) const fn jump_if(condition: Condition, left: Register, right: Operand) -> Self {
        Self::of(JUMP | condition.bits(), left, right, 0)
    }

    pub(super) const fn call(helper: Helper) -> Self {
        Self::new(CALL, Register::R0, 0, 0, helper.number().cast_signed())
    }

    pub(super) const fn exit() -> Self {
        Self::new(EXIT, Register::R0, 0, 0, 0)
    }

    /// The only one that is two.
    pub(super) const fn load_immediate(to: Register, number: u64) -> [Self; 2] {
        let [low, high] = halves(number);
        [Self::new(LOAD_IMMEDIATE, to, 0, 0, low), Self::new(0, Register::R0, 0, 0, high)]
    }

    pub(super) const fn load_map(to: Register, descriptor: i32) -> [Self; 2] {
        [Self::new(LOAD_IMMEDIATE, to, OF_MAP, 0, descriptor), Self::new(0, Register::R0, 0, 0, 0)]
    }

    fn bytes(self) -> [u8; 8] {
        let [offset_0, offset_1] = self.offset.to_ne_bytes();
        let [a, b, c, d] = self.immediate.to_ne_bytes();
        [self.code, self.registers, offset_0, offset_1, a, b, c, d]
    }
}

const fn halves(number: u64) -> [i32; 2] {
    let high = (number >> 32) as u32;
    let low = (number & 0xffff_ffff) as u32;
    [low.cast_signed(), high.cast_signed()]
}

/// A program as the kernel takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    bytes: Vec<u8>,
}

impl Code {
    pub(super) fn of(instructions: &[Instruction]) -> Self {
        Self { bytes: instructions.iter().flat_map(|it| it.bytes()).collect() }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn n_instructions(&self) -> usize {
        self.bytes.len() / size_of::<[u8; 8]>()
    }
}
