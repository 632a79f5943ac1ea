//! Docker's form of a profile, which `Localhost` profiles may have: OCI's with conditions on whole
//! entries. An OCI profile is one without such conditions.

use serde::Deserialize;

use super::{Error, Seccomp, SeccompSyscall};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    arch_map: Vec<ArchitectureMap>,
    #[serde(default)]
    syscalls: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchitectureMap {
    architecture: String,
    #[serde(default)]
    sub_architectures: Vec<String>,
}

#[derive(Deserialize)]
struct Entry {
    /// The old form of `names`.
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    syscall: SeccompSyscall,
    #[serde(default)]
    includes: Filter,
    #[serde(default)]
    excludes: Filter,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Filter {
    caps: Vec<String>,
    arches: Vec<String>,
    min_kernel: String,
}

/// Where a profile is used.
#[derive(Clone, Copy)]
pub(in crate::spec) struct Place<'a> {
    /// Of the container; with the prefix `CAP_`.
    pub(in crate::spec) capabilities: &'a [String],
    /// Major and minor version.
    pub(in crate::spec) kernel: (u32, u32),
}

/// As docker names it.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
const ARCHITECTURE_OCI: &str =
    if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };

pub(in crate::spec) fn parse(text: &str, place: Place<'_>) -> Result<Seccomp, Error> {
    let profile: Profile = serde_json::from_str(text).map_err(Error::Parse)?;
    let mut architectures = profile.architectures;
    for map in profile.arch_map.into_iter().filter(|it| it.architecture == ARCHITECTURE_OCI) {
        architectures.push(map.architecture);
        architectures.extend(map.sub_architectures);
    }
    let mut syscalls = Vec::new();
    for mut entry in profile.syscalls {
        if !is_meant(&entry, place)? {
            continue;
        }
        if !entry.name.is_empty() {
            entry.syscall.names.push(entry.name);
        }
        syscalls.push(entry.syscall);
    }
    Ok(Seccomp {
        default_action: profile.default_action,
        default_errno_ret: profile.default_errno_ret,
        architectures,
        syscalls,
    })
}

/// All capabilities that `includes` names must be there, and none of `excludes`; one of the
/// architectures, and none.
fn is_meant(entry: &Entry, place: Place<'_>) -> Result<bool, Error> {
    let has = |it: &String| place.capabilities.contains(it);
    let (includes, excludes) = (&entry.includes, &entry.excludes);
    let is_here = |it: &String| it == ARCHITECTURE;
    if !includes.min_kernel.is_empty() && place.kernel < parse_kernel(&includes.min_kernel)? {
        return Ok(false);
    }
    if !excludes.min_kernel.is_empty() && place.kernel >= parse_kernel(&excludes.min_kernel)? {
        return Ok(false);
    }
    Ok(includes.caps.iter().all(has)
        && !excludes.caps.iter().any(has)
        && (includes.arches.is_empty() || includes.arches.iter().any(is_here))
        && !excludes.arches.iter().any(is_here))
}

pub(in crate::spec) fn parse_kernel(text: &str) -> Result<(u32, u32), Error> {
    let mut numbers = text.split(|it: char| !it.is_ascii_digit());
    let mut next = || numbers.next().and_then(|it| it.parse().ok());
    match (next(), next()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(Error::Kernel(text.to_owned())),
    }
}
