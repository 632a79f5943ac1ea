//! The compiled program against what the profile says, by a small BPF machine; and one filter on
//! the real kernel.

use super::compile::*;
use super::*;

/// A call as the kernel shows it to a filter.
#[derive(Clone, Copy, Debug)]
struct Call {
    architecture: Architecture,
    number: u32,
    arguments: [u64; 6],
}

/// Runs a program; returns the answer and how many instructions it took.
fn interpret(program: &Program, call: Call) -> (u32, usize) {
    let mut bytes = Vec::new();
    bytes.extend(call.number.to_ne_bytes());
    bytes.extend(audit_number(call.architecture).to_ne_bytes());
    bytes.extend(0u64.to_ne_bytes());
    bytes.extend(call.arguments.iter().flat_map(|it| it.to_ne_bytes()));
    let (mut accumulator, mut at, mut steps) = (0u32, 0usize, 0);
    loop {
        let it = program.0[at];
        at += 1;
        steps += 1;
        let mut branch = |holds: bool| {
            at += usize::from(if holds { it.jump_true } else { it.jump_false });
        };
        match it.code {
            LOAD => {
                let start = it.operand as usize;
                accumulator = u32::from_ne_bytes(bytes[start..start + 4].try_into().unwrap());
            }
            AND => accumulator &= it.operand,
            JUMP => at += it.operand as usize,
            JUMP_EQUAL => branch(accumulator == it.operand),
            JUMP_GREATER => branch(accumulator > it.operand),
            JUMP_GREATER_OR_EQUAL => branch(accumulator >= it.operand),
            RETURN => return (it.operand, steps),
            other => panic!("instruction {other}"),
        }
    }
}

/// The plain meaning of a profile.
fn evaluate(profile: &Profile, call: Call) -> Action {
    if call.architecture == Architecture::X86_64 && call.number >= 0x4000_0000 {
        return Action::Errno(ENOSYS);
    }
    let named = |name: &str| profile.rules.iter().any(|it| it.syscalls.iter().any(|it| it == name));
    let last = syscalls::on(call.architecture).filter(|(name, _)| named(name)).map(|it| it.1).max();
    if matches!(profile.default, Action::Errno(_)) && last.is_some_and(|it| call.number > it) {
        return Action::Errno(ENOSYS);
    }
    let Some((name, _)) = syscalls::on(call.architecture).find(|it| it.1 == call.number) else {
        return profile.default;
    };
    let rules = || profile.rules.iter().filter(|it| it.syscalls.iter().any(|it| it == name));
    rules()
        .filter(|it| !it.conditions.is_empty())
        .find(|it| it.conditions.iter().all(|it| holds(*it, call)))
        .or_else(|| rules().find(|it| it.conditions.is_empty()))
        .map_or(profile.default, |it| it.action)
}

fn holds(condition: Condition, call: Call) -> bool {
    let argument = call.arguments[usize::from(condition.argument)];
    match condition.test {
        Test::NotEqual(value) => argument != value,
        Test::Less(value) => argument < value,
        Test::LessOrEqual(value) => argument <= value,
        Test::Equal(value) => argument == value,
        Test::GreaterOrEqual(value) => argument >= value,
        Test::Greater(value) => argument > value,
        Test::MaskedEqual { mask, value } => argument & mask == value & mask,
    }
}

/// xorshift64*: repeatable, and enough to choose cases.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }

    /// Mostly small, sometimes at the border between the halves, so that comparisons meet.
    fn value(&mut self) -> u64 {
        let low = self.below(4);
        match self.below(4) {
            0 => low,
            1 => (1 << 32) + low,
            2 => (1 << 33) - low,
            _ => u64::MAX - low,
        }
    }

    fn test(&mut self) -> Test {
        let value = self.value();
        match self.below(7) {
            0 => Test::NotEqual(value),
            1 => Test::Less(value),
            2 => Test::LessOrEqual(value),
            3 => Test::Equal(value),
            4 => Test::GreaterOrEqual(value),
            5 => Test::Greater(value),
            _ => Test::MaskedEqual { mask: self.value(), value },
        }
    }

    fn action(&mut self) -> Action {
        match self.below(4) {
            0 => Action::Allow,
            1 => Action::Log,
            2 => Action::Errno(1),
            _ => Action::KillProcess,
        }
    }

    fn profile(&mut self, names: &[&str]) -> Profile {
        let rules = (0..self.below(30))
            .map(|_| Rule {
                syscalls: (0..=self.below(6))
                    .map(|_| names[usize::try_from(self.below(names.len() as u64)).unwrap()].into())
                    .collect(),
                action: self.action(),
                conditions: (0..self.below(4))
                    .map(|_| Condition {
                        argument: u8::try_from(self.below(3)).unwrap(),
                        test: self.test(),
                    })
                    .collect(),
            })
            .collect();
        let default =
            if self.below(2) == 0 { Action::Errno(libc::EPERM as u16) } else { Action::Allow };
        let architectures = vec![Architecture::X86_64, Architecture::X86];
        Profile { default, architectures, rules }
    }
}

#[test]
fn programs_answer_as_their_profiles_say() {
    let native: Vec<&str> = syscalls::on(Architecture::NATIVE).map(|it| it.0).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..60 {
        let profile = random.profile(&native);
        let program = compile(&profile).unwrap();
        for _ in 0..50 {
            let call = Call {
                architecture: match random.below(4) {
                    0 if Architecture::NATIVE == Architecture::X86_64 => Architecture::X86,
                    _ => Architecture::NATIVE,
                },
                number: u32::try_from(random.below(480)).unwrap()
                    | if random.below(20) == 0 { 0x4000_0000 } else { 0 },
                arguments: std::array::from_fn(|_| random.value()),
            };
            let expected = answer(evaluate(&profile, call)).operand;
            assert_eq!(interpret(&program, call).0, expected, "{call:?} of {profile:?}");
        }
    }
}

#[test]
fn other_architectures_are_killed() {
    let profile = Profile { default: Action::Allow, architectures: Vec::new(), rules: Vec::new() };
    let program = compile(&profile).unwrap();
    for architecture in [Architecture::X86, Architecture::Arm] {
        let call = Call { architecture, number: 1, arguments: [0; 6] };
        assert_eq!(interpret(&program, call).0, answer(Action::KillProcess).operand);
    }
}

#[test]
fn a_long_list_is_searched_in_few_steps() {
    let names: Vec<String> =
        syscalls::on(Architecture::NATIVE).step_by(2).map(|it| it.0.to_owned()).collect();
    let rule = Rule { syscalls: names, action: Action::Allow, conditions: Vec::new() };
    let default = Action::Errno(libc::EPERM as u16);
    let profile = Profile { default, architectures: vec![Architecture::X86], rules: vec![rule] };
    let program = compile(&profile).unwrap();
    let steps = (0..500)
        .map(|number| {
            let call = Call { architecture: Architecture::NATIVE, number, arguments: [0; 6] };
            interpret(&program, call).1
        })
        .max()
        .unwrap();
    println!("{} instructions, at most {steps} for one call", program.len());
    assert!(steps <= 24, "{steps}");
}

#[test]
fn an_argument_that_no_call_has_is_an_error() {
    let condition = Condition { argument: 6, test: Test::Equal(0) };
    let rule =
        Rule { syscalls: vec!["read".into()], action: Action::Allow, conditions: vec![condition] };
    let profile = Profile { default: Action::Allow, architectures: Vec::new(), rules: vec![rule] };
    assert!(matches!(compile(&profile), Err(Error::NoSuchArgument(6))));
}

/// A filter is for one thread, so a thread of the test can be filtered and thrown away.
#[test]
fn the_kernel_takes_the_program_and_obeys() {
    let rule = |syscall: &str, action, conditions| Rule {
        syscalls: vec![syscall.to_owned()],
        action,
        conditions,
    };
    let dup_of_high = Condition { argument: 0, test: Test::Greater(1 << 20) };
    let profile = Profile {
        default: Action::Allow,
        architectures: Vec::new(),
        rules: vec![
            rule("getppid", Action::Errno(libc::EXDEV as u16), Vec::new()),
            rule("dup", Action::Errno(libc::ENOTEMPTY as u16), vec![dup_of_high]),
        ],
    };
    let program = compile(&profile).unwrap();
    std::thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        program.install().unwrap();
        // SAFETY: neither call touches memory.
        let call = |number, argument: i32| unsafe { libc::syscall(number, argument) };
        let errno = || io::Error::last_os_error().raw_os_error();
        assert_eq!((call(libc::SYS_getppid, 0), errno()), (-1, Some(libc::EXDEV)));
        assert_eq!((call(libc::SYS_dup, 1 << 21), errno()), (-1, Some(libc::ENOTEMPTY)));
        assert_eq!((call(libc::SYS_dup, 9999), errno()), (-1, Some(libc::EBADF)));
    })
    .join()
    .unwrap();
}
