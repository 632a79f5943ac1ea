//! Rules of each version on a tree of plain files, and life and death on the machine's own
//! hierarchies.

use std::process::{Command, Stdio};

use super::*;

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpuacct,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,xattr,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,release_agent=/x,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:32 / /elsewhere rw,relatime - cgroup cgroup rw,memory
";

#[test]
fn hierarchies_are_found_in_mountinfo() {
    let hierarchies = Hierarchies::parse(HYBRID, Path::new("/nowhere"));
    let shown: Vec<String> = hierarchies
        .iter()
        .map(|it| format!("{:?} {} {:?}", it.version, it.mount.display(), it.controllers))
        .collect();
    assert_eq!(
        shown,
        [
            r#"V1 /nowhere/sys/fs/cgroup/cpu,cpuacct ["cpu", "cpuacct"]"#,
            r#"V1 /nowhere/sys/fs/cgroup/memory ["memory"]"#,
            r#"V1 /nowhere/sys/fs/cgroup/systemd ["name=systemd"]"#,
            r#"V2 /nowhere/sys/fs/cgroup/unified []"#,
        ]
    );
    assert!(!hierarchies.is_unified());
}

#[test]
fn shares_become_weights() {
    for (shares, expected) in [(0, 1), (2, 1), (1024, 100), (262_144, 10_000), (512, 59)] {
        assert_eq!(weight(shares), expected, "{shares}");
    }
    assert!((2..262_144).step_by(97).all(|it| weight(it) <= weight(it + 97)));
}

/// A machine with version 2 made of plain files.
fn unified() -> (tempfile::TempDir, Arc<Hierarchies>) {
    let root = tempfile::tempdir().unwrap();
    let mount = root.path().join("sys/fs/cgroup");
    std::fs::create_dir_all(&mount).unwrap();
    std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
    let mountinfo = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    std::fs::write(root.path().join("proc/self/mountinfo"), mountinfo).unwrap();
    for directory in ["", "kubepods", "kubepods/pod1"] {
        let directory = mount.join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(
            directory.join("cgroup.controllers"),
            "cpu cpuset memory pids hugetlb misc\n",
        )
        .unwrap();
        for file in [
            "cgroup.subtree_control",
            "cpu.weight",
            "cpu.max",
            "cpuset.cpus",
            "cpuset.mems",
            "hugetlb.2MB.max",
            "memory.max",
            "memory.high",
            "pids.max",
        ] {
            std::fs::write(directory.join(file), "").unwrap();
        }
        std::fs::write(directory.join("memory.swap.current"), "7\n").unwrap();
        std::fs::write(directory.join("memory.oom.group"), "0\n").unwrap();
        std::fs::write(directory.join("memory.swap.max"), "max\n").unwrap();
        std::fs::write(directory.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
        std::fs::write(directory.join("memory.current"), "1000\n").unwrap();
        std::fs::write(directory.join("memory.stat"), "anon 1\ninactive_file 400\n").unwrap();
        std::fs::write(directory.join("cpu.stat"), "usage_usec 1500\nnr_throttled 7\n").unwrap();
    }
    let hierarchies = Hierarchies::detect_below(root.path()).unwrap();
    (root, hierarchies)
}

#[test]
fn version_2_is_spoken() {
    let (root, hierarchies) = unified();
    let cgroup = hierarchies.cgroup("/kubepods/pod1").unwrap();
    cgroup.create().unwrap();
    cgroup
        .set_limits(&Limits {
            cpu_shares: Some(1024),
            cpu_quota: Some(CpuQuota {
                quota: Duration::from_millis(50),
                period: Duration::from_millis(100),
            }),
            memory: Some(1 << 20),
            memory_and_swap: Some(3 << 20),
            cpuset_cpus: Some("0-1".to_owned()),
            hugepages: [("2MB".to_owned(), 1 << 21)].into(),
            unified: [("memory.high".to_owned(), "1000000".to_owned())].into(),
            oom_kill: OomKill::All,
            ..Limits::default()
        })
        .unwrap();
    let mount = root.path().join("sys/fs/cgroup");
    let check = |file: &str, expected: &str| {
        assert_eq!(
            std::fs::read_to_string(mount.join(file)).unwrap().trim_end(),
            expected,
            "{file}"
        );
    };
    check("kubepods/cgroup.subtree_control", "+hugetlb");
    check("kubepods/pod1/cgroup.subtree_control", "");
    check("kubepods/pod1/cpu.weight", "100");
    check("kubepods/pod1/cpu.max", "50000 100000");
    check("kubepods/pod1/memory.max", "1048576");
    check("kubepods/pod1/memory.swap.max", "2097152");
    check("kubepods/pod1/cpuset.cpus", "0-1");
    check("kubepods/pod1/hugetlb.2MB.max", "2097152");
    check("kubepods/pod1/memory.high", "1000000");
    check("kubepods/pod1/memory.oom.group", "1");
    check("kubepods/pod1/pids.max", "max");
    assert_eq!(cgroup.oom_kills().unwrap(), 2);
    let usage = Usage {
        cpu: Duration::from_micros(1500),
        memory_working_set: 600,
        memory: 1000,
        memory_rss: 1,
        swap: Some(7),
        page_faults: 0,
        major_page_faults: 0,
    };
    assert_eq!(cgroup.usage().unwrap(), usage);
    assert_eq!(hierarchies.cgroup("kubepods").unwrap().children().unwrap(), ["pod1"]);
}

/// What the kernel says in place of what it was told.
fn check_read_back(told: &Limits, files: &[(&str, &str)], expected: &Limits) {
    let (root, hierarchies) = unified();
    let cgroup = hierarchies.cgroup("/kubepods/pod1").unwrap();
    cgroup.create().unwrap();
    cgroup.set_limits(told).unwrap();
    for (file, text) in files {
        let path = root.path().join("sys/fs/cgroup/kubepods/pod1").join(file);
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
    assert_eq!(cgroup.limits(told).unwrap(), *expected, "{files:?}");
}

#[test]
fn limits_in_force_are_read_back() {
    let quota = |millis| {
        Some(CpuQuota { quota: Duration::from_millis(millis), period: Duration::from_millis(100) })
    };
    let told = Limits {
        cpu_shares: Some(102),
        cpu_quota: quota(50),
        memory: Some(100_000_000),
        ..Limits::default()
    };
    check_read_back(&told, &[], &told);
    check_read_back(&Limits::default(), &[], &Limits::default());
    // Rounded to a page, and so as it was told.
    check_read_back(&told, &[("memory.max", "99999744")], &told);
    let other = Limits {
        cpu_shares: Some(1024),
        cpu_quota: None,
        memory: Some(50_000_000),
        ..told.clone()
    };
    let files = [("cpu.weight", "100"), ("cpu.max", "max 100000"), ("memory.max", "50000000")];
    let shares = limits::fewest_shares(100);
    check_read_back(&told, &files, &Limits { cpu_shares: Some(shares), ..other });
    assert_eq!(weight(shares), 100);
    check_read_back(&told, &[("memory.max", "max")], &Limits { memory: None, ..told.clone() });
}

#[test]
fn settings_that_are_no_limits_are_refused() {
    let (_root, hierarchies) = unified();
    let cgroup = hierarchies.cgroup("/kubepods/pod1").unwrap();
    for file in ["cgroup.procs", "../memory.max", "a/b.c", "plain"] {
        let unified = [(file.to_owned(), "1".to_owned())].into();
        let refused = cgroup.set_limits(&Limits { unified, ..Limits::default() });
        assert!(matches!(refused, Err(Error::Name(_))), "{file}: {refused:?}");
    }
}

#[test]
fn names_are_plain_paths() {
    let (_root, hierarchies) = unified();
    for name in ["", "/", "../x", "a//b", "a/../b", "a/."] {
        assert!(matches!(hierarchies.cgroup(name), Err(Error::Name(_))), "{name}");
    }
}

/// The machine's own, if we may.
fn own(name: &str) -> Option<Cgroup> {
    let cgroup = Hierarchies::detect()
        .and_then(|it| it.cgroup(&format!("xebec-test-{name}-{}", std::process::id())));
    match cgroup.and_then(|it| it.create().map(|()| it)) {
        Ok(cgroup) => Some(cgroup),
        Err(err) => {
            println!("SKIPPED: no cgroups of our own here: {err}");
            None
        }
    }
}

fn sleeper(cgroup: &Cgroup) -> std::process::Child {
    let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    for hierarchy in cgroup.hierarchies.iter() {
        write(&cgroup.directory(hierarchy).join("cgroup.procs"), &child.id().to_string()).unwrap();
    }
    child
}

#[test]
fn everything_in_a_real_cgroup_is_killed_and_removed() {
    let Some(cgroup) = own("end") else { return };
    let below = cgroup.hierarchies.cgroup(&format!("{}/below", cgroup.name())).unwrap();
    below.create().unwrap();
    let mut children = [sleeper(&below), sleeper(&below)];
    assert_eq!(cgroup.processes().unwrap().len(), 2);
    assert_eq!(cgroup.children().unwrap(), ["below"]);
    cgroup.remove().unwrap();
    assert!(!cgroup.exists());
    cgroup.remove().unwrap();
    for child in &mut children {
        assert!(!child.wait().unwrap().success());
    }
}

#[test]
fn without_version_2_processes_are_killed_one_by_one() {
    let Some(cgroup) = own("one-by-one") else { return };
    let mut child = sleeper(&cgroup);
    let pids = cgroup.processes().unwrap();
    // Reaped meanwhile, because a zombie is still seen in version 1.
    let waiter = std::thread::spawn(move || child.wait().unwrap());
    end::kill_one_by_one(&cgroup, &pids).unwrap();
    assert!(!waiter.join().unwrap().success());
    cgroup.remove().unwrap();
}

#[test]
fn limits_go_up_and_down_on_the_real_kernel() {
    let Some(cgroup) = own("limits") else { return };
    for memory in [Some(64 << 20), Some(32 << 20), Some(128 << 20), None, Some(16 << 20)] {
        let quota = memory.map(|_| CpuQuota {
            quota: Duration::from_millis(20),
            period: Duration::from_millis(100),
        });
        let limits = Limits {
            cpu_shares: Some(512),
            cpu_quota: quota,
            memory,
            pids: memory.map(|_| 10),
            cpuset_cpus: memory.map(|_| "0".to_owned()),
            oom_kill: OomKill::All,
            ..Limits::default()
        };
        cgroup.set_limits(&limits).unwrap();
    }
    let rule = |allow, kind, major, access| DeviceRule { allow, kind, major, minor: None, access };
    cgroup
        .set_devices(&[
            rule(false, DeviceKind::Any, None, Access::ALL),
            rule(true, DeviceKind::Character, None, Access::MAKE),
            rule(true, DeviceKind::Character, Some(1), Access::ALL),
        ])
        .unwrap();
    assert_eq!(cgroup.oom_kills().unwrap(), 0);
    cgroup.usage().unwrap();
    cgroup.remove().unwrap();
}

/// The kernel checks the program, and then the device cannot be opened.
#[test]
fn the_program_of_version_2_filters_devices() {
    let Some(cgroup) = own("devices") else { return };
    let Some(unified) = cgroup.hierarchies.unified() else {
        println!("SKIPPED: no cgroup2 here");
        return;
    };
    let directory = cgroup.directory(unified);
    let character = |minor, access| DeviceRule {
        allow: true,
        kind: DeviceKind::Character,
        major: Some(1),
        minor: Some(minor),
        access,
    };
    let nothing = DeviceRule {
        allow: false,
        kind: DeviceKind::Any,
        major: None,
        minor: None,
        access: Access::ALL,
    };
    let null = character(3, Access::parse("rw"));
    let zero = character(5, Access::parse("w"));
    devices::apply_v2(&directory, &[nothing, null, zero]).unwrap();
    let script = format!(
        "echo 0 > {}/cgroup.procs && : < /dev/null && : > /dev/zero && ! : < /dev/zero && ! : < /dev/full",
        directory.display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    cgroup.remove().unwrap();
}
