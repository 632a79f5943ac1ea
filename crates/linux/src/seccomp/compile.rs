//! From a profile to a BPF program.
//!
//! ```text
//! load architecture        x86_64? -> first section; i386, if listed? -> second section; else kill
//! section: load number     x32's bit? -> ENOSYS; above every call that the profile names? -> ENOSYS; else
//!                          a tree:  >= 60 ?  >= 200 ? ...  each leaf returns, or looks at arguments and returns
//! ```

use std::collections::BTreeMap;

use super::{
    Action, Architecture, Condition, Error, Instruction, Profile, Program, Rule, Test, syscalls,
};

// Operations of linux/bpf_common.h.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_GREATER: u16 = 0x25;
pub(super) const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;

/// x32's calls are those of x86_64 with this bit.
const X32_BIT: u32 = 0x4000_0000;

/// What a call is answered with: rules with conditions, then an action.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    checks: Vec<(Vec<Condition>, Action)>,
    otherwise: Action,
}

pub fn compile(profile: &Profile) -> Result<Program, Error> {
    for condition in profile.rules.iter().flat_map(|it| &it.conditions) {
        if condition.argument > 5 {
            return Err(Error::NoSuchArgument(condition.argument));
        }
    }
    let mut program = vec![load(ARCHITECTURE)];
    for architecture in sections(profile) {
        let section = compile_section(profile, architecture);
        // Not this one: over the section.
        program.push(jump(JUMP_EQUAL, audit_number(architecture), 1, 0));
        program.push(jump_over(&section));
        program.extend(section);
    }
    program.push(answer(Action::KillProcess));
    if program.len() > Program::LENGTH_MAX {
        return Err(Error::TooLong(program.len()));
    }
    Ok(Program(program))
}

/// Architectures that are filtered, the native one first, since it is what nearly all calls are of.
fn sections(profile: &Profile) -> Vec<Architecture> {
    let mut sections = vec![Architecture::NATIVE];
    let has_x86 = profile.architectures.contains(&Architecture::X86);
    if Architecture::NATIVE == Architecture::X86_64 && has_x86 {
        sections.push(Architecture::X86);
    }
    sections
}

/// AUDIT_ARCH_* of linux/audit.h.
pub(super) fn audit_number(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86 => 0x4000_0003,
        Architecture::X86_64 | Architecture::X32 => 0xc000_003e,
        Architecture::Arm => 0x4000_0028,
        Architecture::Aarch64 => 0xc000_00b7,
    }
}

fn compile_section(profile: &Profile, architecture: Architecture) -> Vec<Instruction> {
    let mut code = vec![load(NUMBER)];
    if architecture == Architecture::X86_64 {
        code.push(jump(JUMP_GREATER_OR_EQUAL, X32_BIT, 0, 1));
        code.push(answer(Action::Errno(ENOSYS)));
    }
    let answers = answers(profile, architecture);
    // Calls that were invented after the profile was written: programs fall back on ENOSYS, but not
    // on EPERM. As runc.
    if let (
        Action::Errno(_) | Action::KillProcess | Action::KillThread | Action::Trap,
        Some(last),
    ) = (profile.default, answers.keys().next_back())
    {
        code.push(jump(JUMP_GREATER, *last, 0, 1));
        code.push(answer(Action::Errno(ENOSYS)));
    }
    code.extend(tree(&runs(&answers, profile.default)));
    code
}

pub(super) const ENOSYS: u16 = libc::ENOSYS as u16;

/// By number, for calls that some rule names.
fn answers(profile: &Profile, architecture: Architecture) -> BTreeMap<u32, Answer> {
    let mut rules: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    for rule in &profile.rules {
        for name in &rule.syscalls {
            rules.entry(name).or_default().push(rule);
        }
    }
    syscalls::on(architecture)
        .filter_map(|(name, number)| {
            let rules = rules.get(name)?;
            let (with, without): (Vec<&Rule>, Vec<&Rule>) =
                rules.iter().partition(|it| !it.conditions.is_empty());
            let otherwise = without.first().map_or(profile.default, |it| it.action);
            let checks: Vec<_> = with.iter().map(|it| (it.conditions.clone(), it.action)).collect();
            // Conditions that change nothing need no code.
            let is_plain = checks.iter().all(|(_, action)| *action == otherwise);
            let checks = if is_plain { Vec::new() } else { checks };
            Some((number, Answer { checks, otherwise }))
        })
        .collect()
}

/// Neighboring calls with the same answer, each run by its first number. Covers every number.
fn runs(answers: &BTreeMap<u32, Answer>, default: Action) -> Vec<(u32, Answer)> {
    let unnamed = Answer { checks: Vec::new(), otherwise: default };
    let mut runs = vec![(0, unnamed.clone())];
    let mut add = |start: u32, answer: &Answer| match runs.last_mut() {
        Some((_, last)) if last == answer => {}
        Some((at, last)) if *at == start => *last = answer.clone(),
        _ => runs.push((start, answer.clone())),
    };
    let mut next = 0;
    for (number, answer) in answers {
        if *number > next {
            add(next, &unnamed);
        }
        add(*number, answer);
        next = number + 1;
    }
    add(next, &unnamed);
    runs
}

fn tree(runs: &[(u32, Answer)]) -> Vec<Instruction> {
    if let [(_, answer)] = runs {
        return leaf(answer);
    }
    let (left, right) = runs.split_at(runs.len() / 2);
    let pivot = right.first().map_or(0, |(start, _)| *start);
    let (left, right) = (tree(left), tree(right));
    let mut code = Vec::with_capacity(left.len() + right.len() + 2);
    match u8::try_from(left.len()) {
        Ok(length) => code.push(jump(JUMP_GREATER_OR_EQUAL, pivot, length, 0)),
        // Conditional jumps reach 255 instructions, others any distance.
        Err(_) => {
            code.extend([jump(JUMP_GREATER_OR_EQUAL, pivot, 0, 1), jump_over(&left)]);
        }
    }
    code.extend(left);
    code.extend(right);
    code
}

fn leaf(it: &Answer) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (conditions, action) in &it.checks {
        code.extend(validate(conditions, *action));
    }
    code.push(answer(it.otherwise));
    code
}

/// Returns `action` if all conditions hold, else falls out at the end.
fn validate(conditions: &[Condition], action: Action) -> Vec<Instruction> {
    let mut code = vec![answer(action)];
    // From the last to the first, so that the distance to the end is known.
    for condition in conditions.iter().rev() {
        let distance =
            u8::try_from(code.len()).expect("6 arguments of 6 instructions, a few times over");
        let mut test = test(*condition, distance);
        test.append(&mut code);
        code = test;
    }
    code
}

/// Goes on with the next instruction if the condition holds, else jumps over `fail` instructions
/// more. Arguments have 64 bits and the machine 32, so both halves are looked at.
fn test(condition: Condition, fail: u8) -> Vec<Instruction> {
    let lower = ARGUMENTS + 8 * u32::from(condition.argument);
    let upper = lower + 4;
    let halves = |value: u64| ((value >> 32) as u32, (value & 0xffff_ffff) as u32);
    match condition.test {
        Test::Equal(value) => {
            let (high, low) = halves(value);
            vec![
                load(upper),
                jump(JUMP_EQUAL, high, 0, fail + 2),
                load(lower),
                jump(JUMP_EQUAL, low, 0, fail),
            ]
        }
        Test::NotEqual(value) => {
            let (high, low) = halves(value);
            vec![
                load(upper),
                jump(JUMP_EQUAL, high, 0, 2),
                load(lower),
                jump(JUMP_EQUAL, low, fail, 0),
            ]
        }
        Test::MaskedEqual { mask, value } => {
            let (mask_high, mask_low) = halves(mask);
            let (high, low) = halves(value & mask);
            vec![
                load(upper),
                Instruction { code: AND, jump_true: 0, jump_false: 0, operand: mask_high },
                jump(JUMP_EQUAL, high, 0, fail + 3),
                load(lower),
                Instruction { code: AND, jump_true: 0, jump_false: 0, operand: mask_low },
                jump(JUMP_EQUAL, low, 0, fail),
            ]
        }
        Test::Greater(value) => above(upper, lower, halves(value), (JUMP_GREATER, fail)),
        Test::GreaterOrEqual(value) => {
            above(upper, lower, halves(value), (JUMP_GREATER_OR_EQUAL, fail))
        }
        Test::Less(value) => below(upper, lower, halves(value), (JUMP_GREATER_OR_EQUAL, fail)),
        Test::LessOrEqual(value) => below(upper, lower, halves(value), (JUMP_GREATER, fail)),
    }
}

fn above(upper: u32, lower: u32, value: (u32, u32), (last, fail): (u16, u8)) -> Vec<Instruction> {
    vec![
        load(upper),
        jump(JUMP_GREATER, value.0, 3, 0),
        jump(JUMP_EQUAL, value.0, 0, fail + 2),
        load(lower),
        jump(last, value.1, 0, fail),
    ]
}

fn below(upper: u32, lower: u32, value: (u32, u32), (last, fail): (u16, u8)) -> Vec<Instruction> {
    vec![
        load(upper),
        jump(JUMP_GREATER, value.0, fail + 3, 0),
        jump(JUMP_EQUAL, value.0, 0, 2),
        load(lower),
        jump(last, value.1, fail, 0),
    ]
}

fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, jump_true: 0, jump_false: 0, operand: offset }
}

fn jump(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

fn jump_over(code: &[Instruction]) -> Instruction {
    let distance = u32::try_from(code.len()).unwrap_or(u32::MAX);
    Instruction { code: JUMP, jump_true: 0, jump_false: 0, operand: distance }
}

/// SECCOMP_RET_* of linux/seccomp.h.
pub(super) fn answer(action: Action) -> Instruction {
    let value = match action {
        Action::KillProcess => 0x8000_0000,
        Action::KillThread => 0,
        Action::Trap => 0x0003_0000,
        Action::Errno(number) => 0x0005_0000 | u32::from(number),
        Action::Trace(number) => 0x7ff0_0000 | u32::from(number),
        Action::Log => 0x7ffc_0000,
        Action::Allow => 0x7fff_0000,
    };
    Instruction { code: RETURN, jump_true: 0, jump_false: 0, operand: value }
}
