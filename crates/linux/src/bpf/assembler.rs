//! Instructions one after the other, with jumps to labels instead of distances.

use super::Error;
use super::instruction::{
    Code, Condition, Helper, Instruction, Operand, Operation, Register, Size,
};

/// A place in one assembler's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label is, once it is anywhere.
    labels: Vec<Option<usize>>,
    /// Instructions that jump, and whereto.
    jumps: Vec<(usize, Label)>,
    bound_twice: Option<Label>,
}

impl Assembler {
    pub fn new() -> Self {
        Self::default()
    }

    /// One that is nowhere yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is before the next instruction.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        let here = self.instructions.len();
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(here),
            // Another assembler's is found when it is jumped to.
            None => {}
            Some(Some(_)) => self.bound_twice = self.bound_twice.or(Some(label)),
        }
        self
    }

    pub fn compute(
        &mut self,
        operation: Operation,
        to: Register,
        operand: impl Into<Operand>,
    ) -> &mut Self {
        self.push(Instruction::compute(operation, to, operand.into()))
    }

    pub fn set(&mut self, to: Register, operand: impl Into<Operand>) -> &mut Self {
        self.compute(Operation::Move, to, operand)
    }

    pub fn set_long(&mut self, to: Register, number: u64) -> &mut Self {
        self.instructions.extend(Instruction::load_immediate(to, number));
        self
    }

    /// A map by its descriptor, which the program holds from its loading on.
    pub fn set_map(&mut self, to: Register, descriptor: i32) -> &mut Self {
        self.instructions.extend(Instruction::load_map(to, descriptor));
        self
    }

    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(Instruction::load(size, to, from, offset))
    }

    pub fn store(
        &mut self,
        size: Size,
        to: Register,
        offset: i16,
        operand: impl Into<Operand>,
    ) -> &mut Self {
        self.push(Instruction::store(size, to, offset, operand.into()))
    }

    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(Instruction::jump())
    }

    pub fn jump_if(
        &mut self,
        condition: Condition,
        left: Register,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(Instruction::jump_if(condition, left, right.into()))
    }

    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(Instruction::call(helper))
    }

    pub fn exit(&mut self) -> &mut Self {
        self.push(Instruction::exit())
    }

    fn push(&mut self, instruction: Instruction) -> &mut Self {
        self.instructions.push(instruction);
        self
    }

    /// The program with all distances known.
    pub fn assemble(mut self) -> Result<Code, Error> {
        if let Some(label) = self.bound_twice {
            return Err(Error::BoundTwice { label });
        }
        for (from, label) in self.jumps {
            let to = self.labels.get(label.0).copied().flatten();
            let to = to.ok_or(Error::Unbound { label })?;
            // From the instruction after the jump.
            let distance = i64::try_from(to).ok().zip(i64::try_from(from + 1).ok());
            let distance = distance.and_then(|(to, next)| i16::try_from(to - next).ok());
            let jump = self.instructions.get_mut(from).zip(distance);
            let (jump, distance) = jump.ok_or(Error::TooFar { from, to, label })?;
            jump.offset = distance;
        }
        Ok(Code::of(&self.instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `bpf_insn`s in hexadecimal, one to a word.
    fn words(assembler: Assembler) -> String {
        let code = assembler.assemble().unwrap();
        let words = code.as_bytes().chunks(8).map(|it| {
            let bytes = it.iter().map(|byte| format!("{byte:02x}"));
            bytes.collect::<String>()
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn instructions_are_those_of_the_kernel() {
        use Register::{R0, R1, R2, R6, R10};
        let check = |write: fn(&mut Assembler) -> &mut Assembler, expected: &str| {
            let mut assembler = Assembler::new();
            write(&mut assembler);
            assert_eq!(words(assembler), expected);
        };
        check(|it| it.set(R6, R1), "bf16000000000000");
        check(|it| it.set(R0, 1), "b700000001000000");
        check(|it| it.set(R0, -2), "b7000000feffffff");
        check(|it| it.compute(Operation::Add, R2, -24), "07020000e8ffffff");
        check(|it| it.compute(Operation::Modulo, R0, R1), "9f10000000000000");
        check(|it| it.load(Size::Word, R1, R6, 24), "6161180000000000");
        check(|it| it.load(Size::Double, R1, R6, 0), "7961000000000000");
        check(|it| it.store(Size::Half, R10, -8, R2), "6b2af8ff00000000");
        check(|it| it.store(Size::Byte, R10, -5, 7), "720afbff07000000");
        check(|it| it.set_long(R1, 0x1_0000_0002), "1801000002000000 0000000001000000");
        check(|it| it.set_map(R1, 9), "1811000009000000 0000000000000000");
        check(|it| it.call(Helper::NamespaceCookie), "850000007a000000");
        check(Assembler::exit, "9500000000000000");
    }

    #[test]
    fn a_jump_counts_from_the_next_instruction() {
        let mut assembler = Assembler::new();
        let (start, end) = (assembler.label(), assembler.label());
        assembler.bind(start).jump_if(Condition::Equal, Register::R1, 3, end);
        assembler.set_long(Register::R0, 0).jump(start).bind(end).exit();
        assert_eq!(
            words(assembler),
            "1501030003000000 1800000000000000 0000000000000000 0500fcff00000000 9500000000000000"
        );
    }

    #[test]
    fn a_label_that_is_nowhere_twice_or_too_far_is_an_error() {
        let check = |write: fn(&mut Assembler, Label), expected: &str| {
            let mut assembler = Assembler::new();
            let label = assembler.label();
            write(&mut assembler, label);
            assert_eq!(assembler.assemble().unwrap_err().to_string(), expected);
        };
        check(
            |it, label| {
                it.jump(label).exit();
            },
            "a jump to Label(0), which is nowhere",
        );
        check(
            |it, _| {
                it.jump(Label(7)).exit();
            },
            "a jump to Label(7), which is nowhere",
        );
        check(
            |it, label| {
                it.bind(label).exit().bind(label);
            },
            "Label(0) is in two places",
        );
        check(
            |it, label| {
                it.jump(label);
                for _ in 0..=i16::MAX {
                    it.exit();
                }
                it.bind(label).exit();
            },
            "the jump at 0 to Label(0) at 32769 is too far",
        );
    }
}
