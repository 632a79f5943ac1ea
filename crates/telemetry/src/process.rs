//! What the kernel knows of this process, under the names of Prometheus' own libraries. Every page
//! has it.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::description::{Description, Stability};
use crate::metric::{Gauge, Total};
use crate::registry::{Registry, Watched};

const fn describe(name: &'static str, help: &'static str) -> Description<0> {
    Description { name, stability: Stability::Unmarked, help, labels: [] }
}

const CPU: Description<0> =
    describe("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
const OPEN_FDS: Description<0> = describe("process_open_fds", "Number of open file descriptors.");
const MAX_FDS: Description<0> =
    describe("process_max_fds", "Maximum number of open file descriptors.");
const VIRTUAL: Description<0> =
    describe("process_virtual_memory_bytes", "Virtual memory size in bytes.");
const RESIDENT: Description<0> =
    describe("process_resident_memory_bytes", "Resident memory size in bytes.");
const START: Description<0> = describe(
    "process_start_time_seconds",
    "Start time of the process since unix epoch in seconds.",
);

/// Shows the process on a registry's page.
pub fn publish(registry: &Registry) {
    let process = Process {
        cpu: registry.total(&CPU),
        open_fds: registry.gauge(&OPEN_FDS),
        max_fds: registry.gauge(&MAX_FDS),
        virtual_bytes: registry.gauge(&VIRTUAL),
        resident_bytes: registry.gauge(&RESIDENT),
        start: registry.gauge(&START),
    };
    registry.on_read(move || {
        // A number that cannot be read stays as it was.
        let _ = process.read();
        Watched::Alive
    });
}

struct Process {
    cpu: Arc<Total>,
    open_fds: Arc<Gauge>,
    max_fds: Arc<Gauge>,
    virtual_bytes: Arc<Gauge>,
    resident_bytes: Arc<Gauge>,
    start: Arc<Gauge>,
}

impl Process {
    fn read(&self) -> io::Result<()> {
        // One of them is the one that reads the directory.
        self.open_fds.set(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as f64);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        self.max_fds.set(limit.map_or(f64::INFINITY, |it| it as f64));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        let Some(stat) = Stat::parse(&fs::read_to_string("/proc/self/stat")?) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.cpu.set(stat.cpu_ticks as f64 / ticks);
        self.virtual_bytes.set(stat.virtual_bytes as f64);
        self.resident_bytes.set(stat.resident_pages as f64 * page);
        if let Some(boot) = boot_time(&fs::read_to_string("/proc/stat")?) {
            self.start.set(boot as f64 + stat.start_ticks as f64 / ticks);
        }
        Ok(())
    }
}

/// Of proc_pid_stat(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name, in parentheses: it may have any character.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Field 3 is the first that is left.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|it| it.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Stat, boot_time, publish};
    use crate::Registry;

    #[test]
    fn a_program_may_have_any_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 9 0 555 4096000 1000 1";
        let expected = Stat {
            cpu_ticks: 42,
            start_ticks: 555,
            virtual_bytes: 4_096_000,
            resident_pages: 1_000,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(boot_time("cpu 1 2\nbtime 1763380000\n"), Some(1_763_380_000));
    }

    #[test]
    fn this_process_is_shown() {
        let registry = Registry::default();
        publish(&registry);
        let page = registry.render();
        let value = |name: &str| -> f64 {
            let line = page.lines().find(|it| it.starts_with(&format!("{name} "))).unwrap();
            line.rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        let now = jiff::Timestamp::now().as_second() as f64;
        // The kernel rounds when it started itself.
        let age = now - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{page}");
        assert!(value("process_resident_memory_bytes") > 1e5, "{page}");
        assert!(value("process_open_fds") >= 3.0, "{page}");
        assert!(value("process_max_fds") >= value("process_open_fds"), "{page}");
    }
}
