//! A node on a machine that has control groups of version 2 alone: a guest with Debian's kernel,
//! our binary and nothing else. The machines that tests run on often have version 1 beside it, and
//! then the kernel lends us nothing of version 2.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod archive;
mod machine;
mod modules;

use machine::Machine;

/// 250m of a CPU are 256 shares; see `linux::cgroups::weight`.
const WEIGHT_OF_250M: &str = "35";
const MEMORY: &str = "67108864";

#[test]
fn limits_hold_with_cgroups_of_version_2_alone() {
    let Some(machine) = Machine::find() else { return };
    let seen = machine.run();
    let check = |name: &str, expected: &str| {
        assert_eq!(seen.value(name), expected, "{name}\n{}", seen.console);
    };
    check("end", "done");
    check("cgroup_mounts", "cgroup2");

    // Limits are where the kernel looks for them, and they hold.
    let busy = seen.value("busy.cgroup");
    assert!(busy.starts_with("/kubepods/pod"), "guaranteed: {busy}");
    check("busy.cpu.max", "10000 100000");
    check("busy.memory.max", MEMORY);
    check("busy.memory.swap.max", "0");
    check("busy.memory.oom.group", "1");
    check("busy.pod.cpu.max", "10000 100000");
    check("busy.pod.memory.max", MEMORY);
    let throttled: u64 = seen.value("busy.nr_throttled").parse().unwrap();
    assert!(throttled > 3, "throttled {throttled} times");

    let web = seen.value("web.cgroup");
    assert!(web.starts_with("/kubepods/burstable/pod"), "burstable: {web}");
    check("burstable.cpu.weight", WEIGHT_OF_250M);
    check("besteffort.cpu.weight", "1");
    check("web.answer", "web-guest");
    // Version 2 filters devices by a program, not by files.
    check("web.devices", "null");
    check("host.devices", "kmsg null");

    check("pause.cgroup", "init");
    check("pause.root", "0");
    check("pause.rights", "0000000000000000");
    check("pause.devices", "");

    let exit: serde_json::Value = serde_json::from_str(seen.value("hungry.exit")).unwrap();
    assert_eq!(exit["oom_killed"], true, "{exit}");
    assert_eq!(exit["signal"], 9, "{exit}");
    if machine.has_kubectl() {
        check("hungry.status", "Failed OOMKilled");
        check("family.exec", "");
        check("web.exec", &format!("0::/ {WEIGHT_OF_250M}"));
    }

    // After a crash of the server: everything goes on, and can be ended.
    check("busy.survived", "yes");
    check("web.after", "web-guest");
    check("purge", "0");
    check("left", "");
}
