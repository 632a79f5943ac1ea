//! Numbers of system calls. The table is made from the kernel's own headers (`asm/unistd_64.h`,
//! `asm/unistd_32.h`, `asm-generic/unistd.h`); since Linux 5.1 all architectures give new calls the
//! same number.

use super::Architecture;

const TABLE: &str = include_str!("syscalls.txt");

/// Names and numbers on this architecture. Empty for those we have no table for.
pub(super) fn on(architecture: Architecture) -> impl Iterator<Item = (&'static str, u32)> {
    let column = match architecture {
        Architecture::X86_64 => Some(0),
        Architecture::X86 => Some(1),
        Architecture::Aarch64 => Some(2),
        Architecture::X32 | Architecture::Arm => None,
    };
    TABLE.lines().filter(|it| !it.starts_with('#')).filter_map(move |line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        Some((name, words.nth(column?)?.parse().ok()?))
    })
}
