//! Seccomp profiles in OCI's JSON, and how the kernel's filter is made from them.

pub(super) mod docker;
pub(super) mod runtime_default;

use linux::seccomp::{Action, Architecture, Condition, Profile, Rule, Test};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seccomp {
    pub default_action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    #[serde(default)]
    pub syscalls: Vec<SeccompSyscall>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompSyscall {
    #[serde(default)]
    pub names: Vec<String>,
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u16>,
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<SeccompArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompArgument {
    pub index: u8,
    pub value: u64,
    #[serde(default)]
    pub value_two: u64,
    pub op: String,
}

/// Go writes a list that it never made as `null`.
fn null_is_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SeccompArgument>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("seccomp action {0:?} is not known")]
    Action(String),
    #[error("seccomp operator {0:?} is not known")]
    Operator(String),
    #[error("seccomp profile cannot be parsed")]
    Parse(#[source] serde_json::Error),
    #[error("seccomp minKernel {0:?} is not a kernel version")]
    Kernel(String),
    #[error(transparent)]
    Compile(#[from] linux::seccomp::Error),
}

const EPERM: u16 = 1;

impl Seccomp {
    pub fn compile(&self) -> Result<linux::seccomp::Program, Error> {
        Ok(linux::seccomp::compile(&self.profile()?)?)
    }

    fn profile(&self) -> Result<Profile, Error> {
        let mut rules = Vec::new();
        for syscall in &self.syscalls {
            let action = action(&syscall.action, syscall.errno_ret)?;
            let conditions: Vec<Condition> =
                syscall.args.iter().map(condition).collect::<Result<_, _>>()?;
            let rule = |conditions| Rule { syscalls: syscall.names.clone(), action, conditions };
            // Several conditions on one argument mean any of them, as runc reads it.
            let mut arguments: Vec<u8> = conditions.iter().map(|it| it.argument).collect();
            arguments.sort_unstable();
            if arguments.windows(2).any(|it| it[0] == it[1]) {
                rules.extend(conditions.into_iter().map(|it| rule(vec![it])));
            } else {
                rules.push(rule(conditions));
            }
        }
        Ok(Profile {
            default: action(&self.default_action, self.default_errno_ret)?,
            architectures: self.architectures.iter().filter_map(|it| architecture(it)).collect(),
            rules,
        })
    }
}

fn action(name: &str, errno: Option<u16>) -> Result<Action, Error> {
    Ok(match name {
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_ERRNO" => Action::Errno(errno.unwrap_or(EPERM)),
        "SCMP_ACT_TRACE" => Action::Trace(errno.unwrap_or(EPERM)),
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_ALLOW" => Action::Allow,
        other => return Err(Error::Action(other.to_owned())),
    })
}

fn condition(argument: &SeccompArgument) -> Result<Condition, Error> {
    let value = argument.value;
    let test = match argument.op.as_str() {
        "SCMP_CMP_NE" => Test::NotEqual(value),
        "SCMP_CMP_LT" => Test::Less(value),
        "SCMP_CMP_LE" => Test::LessOrEqual(value),
        "SCMP_CMP_EQ" => Test::Equal(value),
        "SCMP_CMP_GE" => Test::GreaterOrEqual(value),
        "SCMP_CMP_GT" => Test::Greater(value),
        "SCMP_CMP_MASKED_EQ" => Test::MaskedEqual { mask: value, value: argument.value_two },
        other => return Err(Error::Operator(other.to_owned())),
    };
    Ok(Condition { argument: argument.index, test })
}

/// Those that we have no filter for are passed over: their calls are killed, as those that are not
/// listed.
fn architecture(name: &str) -> Option<Architecture> {
    Some(match name {
        "SCMP_ARCH_X86" => Architecture::X86,
        "SCMP_ARCH_X86_64" => Architecture::X86_64,
        "SCMP_ARCH_X32" => Architecture::X32,
        "SCMP_ARCH_ARM" => Architecture::Arm,
        "SCMP_ARCH_AARCH64" => Architecture::Aarch64,
        _ => return None,
    })
}
