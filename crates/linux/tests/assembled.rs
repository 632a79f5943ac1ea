//! Assembled programs on a machine that is not the kernel's: they do what they say.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use linux::bpf::{Assembler, Condition, Helper, Operation, Register, Size};
use rbpf::EbpfVmRaw;

/// What a program answers, and what it leaves of its context.
fn check(write: impl Fn(&mut Assembler), context: &[u8], expected: u64, left: &[u8]) {
    let mut assembler = Assembler::new();
    write(&mut assembler);
    let code = assembler.assemble().unwrap();
    let mut machine = EbpfVmRaw::new(Some(code.as_bytes())).unwrap();
    machine.register_helper(Helper::Random.number(), |_, _, _, _, _| 1007).unwrap();
    let mut context = context.to_vec();
    let answer = machine.execute_program(&mut context).unwrap();
    assert_eq!((answer, &*context), (expected, left));
}

#[test]
fn numbers_are_computed_on_64_bits() {
    use Operation::{Add, And, Modulo, Or, ShiftLeft, ShiftRight, Subtract};
    let with = |operation, left: u64, right: i32, expected| {
        let write = |it: &mut Assembler| {
            it.set_long(Register::R0, left).compute(operation, Register::R0, right).exit();
        };
        check(write, &[0], expected, &[0]);
    };
    with(Add, 1 << 40, -1, (1 << 40) - 1);
    with(Subtract, 3, 5, u64::MAX - 1);
    with(And, 0xff_ffff_ffff, -256, 0xff_ffff_ff00);
    with(Or, 1 << 40, 1, (1 << 40) | 1);
    with(ShiftLeft, 1, 40, 1 << 40);
    with(ShiftRight, 1 << 40, 39, 2);
    with(Modulo, 1007, 10, 7);
}

#[test]
fn what_is_loaded_is_stored_in_any_size() {
    let context: Vec<u8> = (1..=16).collect();
    for (size, length) in [(Size::Byte, 1), (Size::Half, 2), (Size::Word, 4), (Size::Double, 8)] {
        let write = |it: &mut Assembler| {
            it.load(size, Register::R2, Register::R1, 8).store(
                size,
                Register::R10,
                -16,
                Register::R2,
            );
            it.load(size, Register::R3, Register::R10, -16).store(
                size,
                Register::R1,
                0,
                Register::R3,
            );
            it.set(Register::R0, 1).exit();
        };
        let mut left = context.clone();
        left.copy_within(8..8 + length, 0);
        check(write, &context, 1, &left);
    }
}

#[test]
fn a_loop_goes_to_the_label_before_it_until_it_leaves_to_the_one_behind() {
    let write = |it: &mut Assembler| {
        let (again, out) = (it.label(), it.label());
        it.call(Helper::Random).set(Register::R1, 0).bind(again);
        it.jump_if(Condition::Equal, Register::R0, 1000, out);
        it.compute(Operation::Subtract, Register::R0, 1);
        it.compute(Operation::Add, Register::R1, 2).jump(again);
        it.bind(out).set(Register::R0, Register::R1).exit();
    };
    check(write, &[0], 14, &[0]);
}

#[test]
fn numbers_are_compared_without_sign() {
    let greater = |left: u64, right: u64, expected| {
        let write = |it: &mut Assembler| {
            let yes = it.label();
            it.set(Register::R0, 1).set_long(Register::R2, left).set_long(Register::R3, right);
            it.jump_if(Condition::Greater, Register::R2, Register::R3, yes);
            it.set(Register::R0, 0).bind(yes).exit();
        };
        check(write, &[0], expected, &[0]);
    };
    greater(2, 1, 1);
    greater(1, 1, 0);
    greater(u64::MAX, 1, 1);
    greater(1, u64::MAX, 0);
}
