//! What the whole machine uses. The root of a hierarchy says less than `/proc` does, and in a
//! container it is not the machine's.

use std::path::Path;
use std::time::Duration;

use super::{Error, Usage, read};

/// Ticks of `/proc/stat` in a second: the same on every machine (proc_stat(5), USER_HZ).
const TICKS: u64 = 100;
/// Fields of the line `cpu` that are work: user, nice, system, irq, softirq, steal. What guests
/// use is in `user`, too.
const WORK: [usize; 6] = [0, 1, 2, 5, 6, 7];

pub fn machine_usage() -> Result<Usage, Error> {
    let stat = read(Path::new("/proc/stat"))?;
    let memory = read(Path::new("/proc/meminfo"))?;
    // Without counters of faults the rest is still right.
    let faults = read(Path::new("/proc/vmstat")).unwrap_or_default();
    Ok(parse(&stat, &memory, &faults))
}

fn parse(stat: &str, memory: &str, faults: &str) -> Usage {
    let line = stat.lines().find_map(|it| it.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_ascii_whitespace().map(|it| it.parse().unwrap_or(0)).collect();
    let ticks: u64 = WORK.iter().filter_map(|it| ticks.get(*it)).sum();
    let bytes = |name: &str| {
        let found = memory.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = found.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kibibytes.map(|it| it.saturating_mul(1024))
    };
    let of = |name: &str| bytes(name).unwrap_or(0);
    let used = of("MemTotal").saturating_sub(of("MemFree"));
    Usage {
        cpu: Duration::from_millis(ticks.saturating_mul(1000 / TICKS)),
        memory_working_set: used.saturating_sub(of("Inactive(file)")),
        memory: used,
        memory_rss: of("AnonPages"),
        swap: bytes("SwapTotal").map(|it| it.saturating_sub(of("SwapFree"))),
        page_faults: super::field(faults, "pgfault").unwrap_or(0),
        major_page_faults: super::field(faults, "pgmajfault").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn work_and_what_cannot_be_reclaimed_count() {
        let stat = "cpu  100 20 30 9999 8888 4 5 6 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let memory = "MemTotal:  1000 kB\nMemFree:  200 kB\nInactive:  300 kB\n\
                      Inactive(file):  100 kB\nAnonPages:  50 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
        let usage = parse(stat, memory, "pgfault 7\npgmajfault 2\n");
        assert_eq!(usage.cpu, Duration::from_millis(1650));
        assert_eq!((usage.memory, usage.memory_working_set), (800 << 10, 700 << 10));
        assert_eq!((usage.memory_rss, usage.swap), (50 << 10, Some(6 << 10)));
        assert_eq!((usage.page_faults, usage.major_page_faults), (7, 2));
        assert_eq!(parse("", "", ""), super::Usage::default());
    }

    #[test]
    fn a_machine_uses_something() {
        let usage = super::machine_usage().unwrap();
        assert!(usage.memory > 0 && !usage.cpu.is_zero(), "{usage:?}");
    }
}
