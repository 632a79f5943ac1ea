//! What containers may and may not do.

use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Duration;

use linux::process::{self, Fork, Status};
use node_api::containers::{ContainerConfig, CpuQuota, Mount, Propagation, Seccomp};
use node_api::sandboxes::SandboxConfig;

use crate::machine::{Machine, Outcome, eventually};

type Case = (&'static str, fn(&Machine));

pub(crate) const ALL: &[Case] = &[
    ("a_container_has_its_own_root_and_processes", own_root),
    ("standard_mounts_and_devices_are_there", standard_mounts),
    ("a_program_that_is_not_there_is_named", missing_programs),
    ("users_come_from_the_image", users),
    ("capabilities_are_those_asked_for", capabilities),
    ("a_read_only_root_cannot_be_written", read_only_root),
    ("proc_and_sys_are_masked", masked),
    ("no_new_privileges_hold", no_new_privileges),
    ("the_default_profile_forbids_what_containers_do_not_need", seccomp),
    ("volumes_are_bound", volumes),
    ("links_in_the_image_do_not_lead_out", link_escapes),
    ("proc_must_be_an_ordinary_directory", fake_proc),
    ("races_in_a_volume_do_not_lead_out", racing_links),
    ("masks_are_the_kernels_own", fake_null),
    ("nothing_of_the_host_is_open", no_leaks),
    ("too_much_memory_is_killed", memory_limit),
    ("cpu_is_throttled", cpu_limit),
    ("block_devices_cannot_be_opened", block_devices),
    ("commands_join_a_container", exec),
    ("commands_get_a_terminal", exec_terminal),
    ("commands_need_a_profile_that_lets_them_fork", exec_without_fork),
    ("containers_get_a_terminal", terminal),
    ("containers_of_a_pod_share_processes", shared_processes),
    ("a_proc_of_other_processes_is_refused", other_processes),
    ("sysctls_of_the_pod_are_set", sysctls),
    ("privileged_containers_see_the_machine", privileged),
    ("mounts_propagate_as_asked", propagation),
];

fn as_is(_: &mut ContainerConfig, _: &mut SandboxConfig) {}

#[track_caller]
fn check(outcome: &Outcome, expected: &str) {
    assert_eq!(outcome.refused, None);
    assert_eq!((outcome.output.as_str(), outcome.status), (expected, Status::Exited(0)));
}

#[track_caller]
fn check_refused(outcome: &Outcome, expected: &str) {
    assert_eq!(outcome.refused.as_deref(), Some(expected));
    assert_eq!(outcome.status, Status::Exited(128));
}

fn own_root(machine: &Machine) {
    check(
        &machine.run("echo $$; cat /etc/which; echo; pwd; echo $HOME $PATH", as_is),
        "\
1\ntop\n/\n/root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    check(
        &machine
            .run("pwd; umask", |container, _| container.working_dir = Some("/new/place".into())),
        "/new/place\n0022",
    );
    let outcome = machine.run("exit 7", as_is);
    assert_eq!(outcome.status, Status::Exited(7));
    // Only the container's processes (the shell alone, which expands the pattern itself), and only
    // its mounts.
    check(&machine.run("echo /proc/[0-9]*", as_is), "/proc/1");
    let outcome = machine.run("cat /proc/self/mountinfo", as_is);
    let host = machine.path("").display().to_string();
    assert!(!outcome.output.contains(&host), "host paths are seen: {}", outcome.output);
}

fn standard_mounts(machine: &Machine) {
    let script = "stat -c '%n %F %a' /dev/null /dev/tty /dev/pts /dev/shm; \
        echo x > /dev/null; head -c 3 /dev/zero | wc -c; echo hi > /dev/stdout; \
        grep -c ' /dev/mqueue ' /proc/mounts; cat /proc/self/cgroup | grep -vc ':/$'; ls /sys/fs/cgroup | wc -l";
    let outcome = machine.run(script, as_is);
    let lines: Vec<&str> = outcome.output.lines().collect();
    assert_eq!(
        lines[..7],
        [
            "/dev/null character special file 666",
            "/dev/tty character special file 666",
            "/dev/pts directory 755",
            "/dev/shm directory 1777",
            "3",
            "hi",
            "1",
        ],
        "{outcome:?}"
    );
    assert_eq!(lines[7], "0", "every cgroup is the root of its namespace: {outcome:?}");
    assert_ne!(lines[8], "0");
    let script = "touch /sys/fs/cgroup/x /sys/x 2>&1 | grep -c 'Read-only'";
    check(&machine.run(script, as_is), "2");
}

fn missing_programs(machine: &Machine) {
    let run = |command: &str| {
        machine.run_spec(machine.spec(|it, _| it.command = vec![command.to_owned()]), &[])
    };
    check_refused(&run("nothing"), r#"exec: "nothing": executable file not found in $PATH"#);
    check_refused(
        &run("/bin/nothing"),
        r#"exec: "/bin/nothing": stat /bin/nothing: no such file or directory"#,
    );
    check_refused(&run("/etc/noexec"), r#"exec: "/etc/noexec": permission denied"#);
    check_refused(&run("/etc"), r#"exec: "/etc": is a directory"#);
    // Through a descriptor of the host's, if one were open (CVE-2024-21626).
    for number in 3..12 {
        let outcome = run(&format!("/proc/self/fd/{number}/../../../../usr/bin/busybox"));
        assert!(outcome.refused.is_some());
        let spec = machine.spec(|it, _| {
            it.command = vec!["/bin/pwd".to_owned()];
            it.working_dir = Some(format!("/proc/self/fd/{number}"));
        });
        assert!(machine.run_spec(spec, &[]).refused.is_some());
    }
}

fn users(machine: &Machine) {
    check(&machine.run("id -u; id -g; id -G", as_is), "0\n0\n0");
    let outcome = machine.run("id -u; id -g; id -G; echo $HOME; echo hi > /dev/stderr", |it, _| {
        it.security.run_as_user = Some(1000);
        it.security.supplemental_groups = vec![7];
    });
    check(&outcome, "1000\n1000\n1000 7 44\n/home/app\nhi");
    let outcome = machine.run("id -u; id -g", |it, _| {
        it.security.run_as_user = Some(4711);
        it.security.run_as_group = Some(4712);
    });
    check(&outcome, "4711\n4712");
    let mut spec = machine.spec(|it, _| it.command = vec!["/bin/id".to_owned()]);
    spec.process.user.username = "nobody".to_owned();
    let expected = "unable to find user nobody: no matching entries in passwd file";
    check_refused(&machine.run_spec(spec, &[]), expected);
}

const CAPABILITIES: &str = "grep ^Cap /proc/self/status";

fn capabilities(machine: &Machine) {
    check(
        &machine.run(CAPABILITIES, as_is),
        "\
CapInh:\t0000000000000000\nCapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\nCapAmb:\t0000000000000000",
    );
    let outcome = machine.run(CAPABILITIES, |it, _| {
        it.security.capabilities_drop = vec!["ALL".to_owned()];
        it.security.capabilities_add = vec!["NET_BIND_SERVICE".to_owned()];
    });
    assert!(outcome.output.contains("CapBnd:\t0000000000000400"), "{outcome:?}");
    // Another user than root has none to start with.
    let outcome = machine.run(CAPABILITIES, |it, _| it.security.run_as_user = Some(1000));
    assert!(outcome.output.contains("CapEff:\t0000000000000000"), "{outcome:?}");
    let outcome = machine.run("chroot / /bin/id -u", |it, _| {
        it.security.capabilities_drop = vec!["SYS_CHROOT".to_owned()];
    });
    assert_eq!(
        outcome.output,
        "chroot: can't change root directory to '/': Operation not permitted"
    );
}

fn read_only_root(machine: &Machine) {
    let script = "touch /x 2>&1; touch /dev/shm/y && echo shm";
    let outcome = machine.run(script, |it, _| it.security.read_only_root = true);
    check(&outcome, "touch: /x: Read-only file system\nshm");
    check(&machine.run("touch /x && echo fine", as_is), "fine");
}

fn masked(machine: &Machine) {
    let script = "cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c; ls /sys/firmware | wc -l; \
        echo 1 2>/dev/null > /proc/sys/kernel/domainname || echo read-only; \
        echo b 2>/dev/null > /proc/sysrq-trigger || echo read-only";
    check(&machine.run(script, as_is), "0\n0\nread-only\nread-only");
    // Nor can they be uncovered.
    let outcome = machine.run("busybox umount /proc/kcore", as_is);
    assert_ne!(outcome.status, Status::Exited(0));
}

fn no_new_privileges(machine: &Machine) {
    let script = "grep NoNewPrivs /proc/self/status";
    check(&machine.run(script, as_is), "NoNewPrivs:\t0");
    let outcome = machine.run(script, |it, _| it.security.no_new_privileges = true);
    check(&outcome, "NoNewPrivs:\t1");
    // A program that is root's by its mode is not root's then.
    let layer = machine.layer("setuid");
    std::fs::create_dir_all(layer.join("bin")).unwrap();
    std::fs::copy("/usr/bin/busybox", layer.join("bin/busybox-suid")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(layer.join("bin/busybox-suid"), mode).unwrap();
    let script = |no_new_privileges: bool| {
        let spec = machine.spec(|it, _| {
            let script = "/bin/busybox-suid cat /proc/self/status | grep ^Uid";
            it.command = ["/bin/sh", "-c", script].map(str::to_owned).into();
            it.security.run_as_user = Some(1000);
            it.security.no_new_privileges = no_new_privileges;
        });
        machine.run_spec(spec, std::slice::from_ref(&layer)).output
    };
    assert_eq!(script(true), "Uid:\t1000\t1000\t1000\t1000");
}

fn seccomp(machine: &Machine) {
    let confined = |it: &mut ContainerConfig, _: &mut SandboxConfig| {
        it.security.seccomp = Seccomp::RuntimeDefault;
    };
    check(
        &machine.run("grep ^Seccomp: /proc/self/status; echo $$; id -u", confined),
        "Seccomp:\t2\n1\n0",
    );
    let outcome = machine.run("unshare -U /bin/id; mount -t tmpfs x /tmp", confined);
    assert!(outcome.output.contains("Operation not permitted"), "{outcome:?}");
    assert_ne!(outcome.status, Status::Exited(0));
    // A user namespace could be made without the profile.
    assert_eq!(machine.run("unshare -U /bin/id -u", as_is).status, Status::Exited(0));
    // The same with "no new privileges" and another user, where the filter is installed at the very
    // end.
    let outcome =
        machine.run("grep ^Seccomp: /proc/self/status; unshare -U /bin/id", |it, sandbox| {
            confined(it, sandbox);
            it.security.no_new_privileges = true;
            it.security.run_as_user = Some(1000);
        });
    assert!(outcome.output.contains("Seccomp:\t2"), "{outcome:?}");
    assert!(outcome.output.contains("Operation not permitted"), "{outcome:?}");
}

fn mount(machine: &Machine, source: &str, target: &str, read_only: bool) -> Mount {
    Mount {
        host_path: machine.path(source),
        container_path: target.to_owned(),
        read_only,
        ..Mount::default()
    }
}

fn volumes(machine: &Machine) {
    std::fs::create_dir_all(machine.path("volume/sub")).unwrap();
    std::fs::write(machine.path("volume/file"), "content").unwrap();
    let script = "cat /data/file; echo; cat /etc/one; echo; touch /data/new; touch /ro/no 2>&1; cat /data/sub/x";
    let outcome = machine.run(script, |it, _| {
        it.mounts = vec![
            // Children before parents: they are sorted.
            mount(machine, "volume/file", "/data/sub/x", true),
            mount(machine, "volume", "/data", false),
            mount(machine, "volume/file", "/etc/one", false),
            mount(machine, "volume", "/ro", true),
        ];
    });
    check(&outcome, "content\ncontent\ntouch: /ro/no: Read-only file system\ncontent");
    assert!(machine.path("volume/new").exists());
    let outcome = machine.run("true", |it, _| {
        it.mounts = vec![mount(machine, "nowhere", "/data", false)];
    });
    let source = machine.path("nowhere").display().to_string();
    check_refused(
        &outcome,
        &format!(r#"error mounting "{source}" to rootfs at "/data": no such file or directory"#),
    );
    for target in ["/proc/tty", "/proc"] {
        let outcome = machine.run("true", |it, _| {
            it.mounts = vec![mount(machine, "volume", target, false)];
        });
        let expected = format!("{target:?} cannot be mounted because it is inside /proc");
        check_refused(&outcome, &expected);
    }
}

fn link_escapes(machine: &Machine) {
    let outside = machine.layer("outside");
    std::fs::create_dir_all(machine.path("volume2")).unwrap();
    let layer = machine.layer("links");
    let up = format!("../../../../../../../../../..{}", outside.display());
    symlink(&outside, layer.join("absolute")).unwrap();
    symlink(&up, layer.join("relative")).unwrap();
    symlink("/proc/self/root", layer.join("magic")).unwrap();
    symlink("/proc/1/cwd", layer.join("cwd")).unwrap();
    std::fs::create_dir_all(layer.join("dev")).unwrap();
    for target in ["/absolute/made", "/relative/made", "/relative", "/absolute"] {
        let spec = machine.spec(|it, _| {
            it.command = ["/bin/sh", "-c", "echo ran"].map(str::to_owned).into();
            it.mounts = vec![mount(machine, "volume2", target, false)];
            it.working_dir = Some(format!("{target}/work"));
        });
        check(&machine.run_spec(spec, std::slice::from_ref(&layer)), "ran");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "nothing was made outside");
    for target in ["/magic/made", "/cwd/made"] {
        let spec = machine.spec(|it, _| {
            it.command = ["/bin/sh", "-c", "echo ran"].map(str::to_owned).into();
            it.mounts = vec![mount(machine, "volume2", target, false)];
        });
        let outcome = machine.run_spec(spec, std::slice::from_ref(&layer));
        println!("  through {target}: {:?} {:?}", outcome.refused, outcome.output);
        assert!(!std::path::Path::new("/made").exists());
    }
}

fn fake_proc(machine: &Machine) {
    let layer = machine.layer("fake-proc");
    std::fs::create_dir_all(layer.join("elsewhere")).unwrap();
    symlink("elsewhere", layer.join("proc")).unwrap();
    let spec = machine.spec(|it, _| it.command = vec!["/bin/id".to_owned()]);
    let outcome = machine.run_spec(spec, &[layer]);
    let refused = outcome.refused.unwrap_or_default();
    let expected = r#"filesystem "proc" must be mounted on ordinary directory /proc"#;
    assert!(refused.starts_with(expected), "{refused}");
}

/// Somebody in a container that shares the volume exchanges a directory for a link while another
/// container is set up (CVE-2021-30465).
fn racing_links(machine: &Machine) {
    let volume = machine.layer("raced");
    let outside = machine.layer("raced-outside");
    std::fs::create_dir_all(volume.join("directory")).unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    let racer = match process::fork(process::CloneFlags::default()).unwrap() {
        Fork::Parent { pidfd, .. } => pidfd,
        Fork::Child => loop {
            let (one, other) = (volume.join("directory"), volume.join("link"));
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let _ =
                rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &other, exchange);
        },
    };
    for round in 0..60 {
        let spec = machine.spec(|it, _| {
            it.command = ["/bin/sh", "-c", "true"].map(str::to_owned).into();
            it.working_dir = Some("/data/directory/work".to_owned());
            it.mounts = vec![
                mount(machine, "raced", "/data", false),
                mount(machine, "raced", "/data/directory/made", false),
                mount(machine, "raced", &format!("/data/directory/{round}"), true),
            ];
        });
        // It may be refused, or work: both are fine.
        machine.run_spec(spec, &[]);
    }
    process::kill(racer.as_fd(), process::Signal::KILL).unwrap();
    process::wait(racer.as_fd()).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "nothing was made outside");
}

/// What hides a path, and what is bound over the console, is not what a volume puts in its place
/// (CVE-2025-31133, 52565).
fn fake_null(machine: &Machine) {
    let volume = machine.layer("fake-dev");
    for name in ["null", "console", "ptmx"] {
        symlink("/proc/sys/kernel/core_pattern", volume.join(name)).unwrap();
    }
    for tty in [false, true] {
        let script = "stat -c %t:%T /proc/timer_list; grep -c core_pattern /proc/self/mountinfo; \
            (echo x > /proc/sys/kernel/core_pattern) 2>&1 | grep -c Read-only";
        let outcome = machine.run(script, |it, _| {
            it.tty = tty;
            it.mounts = vec![mount(machine, "fake-dev", "/dev", false)];
        });
        check(&outcome, "1:3\n0\n1");
    }
}

fn no_leaks(machine: &Machine) {
    let running = sleeper(machine, |_| {});
    check(&machine.exec(&running, &["/bin/ls", "/proc/1/fd"], false), "0\n1\n2");
    machine.kill(running);
    let inode = std::fs::metadata("/").unwrap().ino();
    let outcome = machine.run("stat -c %i /.. /proc/1/root/", as_is);
    assert!(!outcome.output.lines().all(|it| it == inode.to_string()));
    let spec = machine.spec(|it, _| {
        it.command =
            ["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"].map(str::to_owned).into();
    });
    let expected = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000";
    check(&machine.run_spec(spec, &[]), expected);
}

fn memory_limit(machine: &Machine) {
    let spec = machine.spec(|it, _| {
        it.command = ["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]
            .map(str::to_owned)
            .into();
        it.resources.memory_limit = Some(32 << 20);
    });
    let running = machine.start(spec, &[]);
    assert_eq!(running.refused, None);
    let name = running.spec.linux.cgroups_path.rsplit('/').next().unwrap().to_owned();
    running.wait_until_ended();
    assert!(machine.tree.oom_kills(&name).unwrap() >= 1);
    let outcome = machine.finish(running);
    assert_eq!((outcome.status, outcome.status.code()), (Status::Signaled(9), 137));
}

fn cpu_limit(machine: &Machine) {
    let spec = machine.spec(|it, _| {
        it.command = ["/bin/sh", "-c", "while :; do :; done"].map(str::to_owned).into();
        let (quota, period) = (Duration::from_millis(10), Duration::from_millis(100));
        it.resources.cpu_quota = Some(CpuQuota { quota, period });
    });
    let running = machine.start(spec, &[]);
    let hierarchies = linux::cgroups::Hierarchies::detect().unwrap();
    let cgroup = hierarchies.cgroup(&running.spec.linux.cgroups_path).unwrap();
    eventually("throttled", || cgroup.throttled().unwrap().0 >= 3);
    assert!(cgroup.usage().unwrap().cpu > Duration::ZERO);
    machine.kill(running);
}

fn block_devices(machine: &Machine) {
    // Making the node is allowed, using it is not. 253:0 stands for any disk.
    let script = "mknod /tmp/disk b 253 0 && echo made; cat /tmp/disk 2>&1 | head -c 100; \
        mknod /tmp/mem c 1 1; cat /tmp/mem 2>&1 | head -c 100";
    let outcome = machine.run(script, as_is);
    let expected = "made\ncat: can't open '/tmp/disk': Operation not permitted\n\
        cat: can't open '/tmp/mem': Operation not permitted";
    assert_eq!(outcome.output, expected);
}

fn sleeper(
    machine: &Machine,
    change: impl FnOnce(&mut ContainerConfig),
) -> crate::machine::Running {
    let spec = machine.spec(|it, _| {
        it.command = ["/bin/sleep", "1000"].map(str::to_owned).into();
        it.env = vec![("GREETING".to_owned(), "hello".to_owned())];
        change(it);
    });
    let running = machine.start(spec, &[]);
    assert_eq!(running.refused, None);
    running
}

fn exec(machine: &Machine) {
    let running = sleeper(machine, |it| {
        it.security.run_as_user = Some(1000);
        it.security.no_new_privileges = true;
        it.security.seccomp = Seccomp::RuntimeDefault;
        it.working_dir = Some("/tmp".to_owned());
    });
    let sh = |script: &str| machine.exec(&running, &["/bin/sh", "-c", script], false);
    check(
        &sh("cat /proc/1/comm; id -u; pwd; echo $GREETING; cat /etc/which"),
        "sleep\n1000\n/tmp\nhello\ntop",
    );
    check(
        &sh("grep -E '^(NoNewPrivs|Seccomp|CapBnd)' /proc/self/status"),
        "\
CapBnd:\t00000000a80425fb\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1",
    );
    check(&sh("cat /proc/self/cgroup | grep -vc ':/$' || true"), "0");
    check(&sh("ls /proc/self/fd | wc -l"), "4");
    assert_eq!(sh("exit 3").status, Status::Exited(3));
    let outcome = machine.exec(&running, &["nothing"], false);
    check_refused(&outcome, r#"exec: "nothing": executable file not found in $PATH"#);
    // In the same cgroup, so that it ends with the container and counts with it.
    let outcome =
        machine.exec(&running, &["/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], false);
    assert_eq!(outcome.status, Status::Exited(0));
    machine.kill(running);
}

fn exec_terminal(machine: &Machine) {
    let running = sleeper(machine, |_| {});
    let outcome =
        machine.exec(&running, &["/bin/sh", "-c", "tty; echo to-the-terminal > /dev/tty"], true);
    check(&outcome, "/dev/pts/0\nto-the-terminal");
    machine.kill(running);
}

/// What the header of the set-up says: better not to run than to run with more rights than the
/// container.
fn exec_without_fork(machine: &Machine) {
    let mut spec = machine.spec(|it, _| {
        it.command = ["/bin/sleep", "1000"].map(str::to_owned).into();
        it.security.seccomp = Seccomp::RuntimeDefault;
    });
    let profile = spec.linux.seccomp.as_mut().unwrap();
    for syscall in &mut profile.syscalls {
        syscall.names.retain(|it| !["clone", "clone3", "fork", "vfork"].contains(&it.as_str()));
    }
    let running = machine.start(spec, &[]);
    assert_eq!(running.refused, None);
    let outcome = machine.exec(&running, &["/bin/id"], false);
    check_refused(&outcome, "fork: operation not permitted");
    machine.kill(running);
    // Where no new privileges are to be had, the filter comes last and is in nobody's way.
    let mut spec = machine.spec(|it, _| {
        it.command = ["/bin/sleep", "1000"].map(str::to_owned).into();
        it.security.seccomp = Seccomp::RuntimeDefault;
        it.security.no_new_privileges = true;
    });
    let profile = spec.linux.seccomp.as_mut().unwrap();
    for syscall in &mut profile.syscalls {
        syscall.names.retain(|it| !["clone", "clone3", "fork", "vfork"].contains(&it.as_str()));
    }
    let running = machine.start(spec, &[]);
    check(&machine.exec(&running, &["/bin/cat", "/etc/which"], false), "top");
    machine.kill(running);
}

fn terminal(machine: &Machine) {
    let script =
        "tty; test -c /dev/console && echo console > /dev/console; echo $TERM; stat -c %u $(tty)";
    let outcome = machine.run(script, |it, _| {
        it.tty = true;
        it.security.run_as_user = Some(1000);
    });
    check(&outcome, "/dev/pts/0\nconsole\nxterm\n1000");
}

fn shared_processes(machine: &Machine) {
    let first = sleeper(machine, |_| {});
    let spec = machine.spec(|it, sandbox| {
        it.command = ["/bin/sh", "-c", "cat /proc/1/comm; test $$ -ne 1 && echo second"]
            .map(str::to_owned)
            .into();
        sandbox.pid = node_api::sandboxes::PidNamespace::Pod;
    });
    let second = machine.start_in(spec, &[], Some((&first, &first)));
    check(&machine.finish(second), "sleep\nsecond");
    // Whoever forked is where it was.
    check(&machine.run("echo $$", as_is), "1");
    machine.kill(first);
}

/// What a container that may mount has made of its `/proc` is not what others get to see.
fn other_processes(machine: &Machine) {
    let (first, other) = (sleeper(machine, |_| {}), sleeper(machine, |_| {}));
    let spec = machine.spec(|it, _| it.command = ["/bin/true".to_owned()].into());
    let refused = machine.start_in(spec, &[], Some((&first, &other)));
    let outcome = machine.finish(refused);
    let words = outcome.refused.as_deref().unwrap_or_default();
    assert!(words.contains("what is mounted as /proc shows other processes"), "{outcome:?}");
    machine.kill(first);
    machine.kill(other);
}

fn sysctls(machine: &Machine) {
    let outcome = machine.run("cat /proc/sys/net/ipv4/ip_unprivileged_port_start", |_, sandbox| {
        let name = "net.ipv4.ip_unprivileged_port_start".to_owned();
        sandbox.sysctls.insert(name, "77".to_owned());
    });
    check(&outcome, "77");
}

fn privileged(machine: &Machine) {
    let script = "ls /dev | wc -l; mount -t tmpfs x /tmp && echo mounted; test -w /proc/sys/kernel/domainname && echo writable";
    let normal = machine.run(script, as_is);
    let outcome = machine.run(script, |it, _| it.security.privileged = true);
    assert!(outcome.output.ends_with("mounted\nwritable"), "{outcome:?}");
    assert!(!normal.output.contains("mounted"), "{normal:?}");
    let count = |it: &Outcome| it.output.lines().next().unwrap().parse::<u32>().unwrap();
    assert!(count(&outcome) > count(&normal));
}

fn propagation(machine: &Machine) {
    // The host's side: shared mounts.
    for name in ["private", "slave", "both"] {
        std::fs::create_dir_all(machine.path(&format!("shared-{name}"))).unwrap();
    }
    for name in ["private", "slave", "both"] {
        let path = machine.path(&format!("shared-{name}"));
        linux::mounts::mount_tmpfs(&path, &[("mode", "755")], linux::mounts::Attributes::default())
            .unwrap();
        let mount = linux::mounts::open_source(&path).unwrap();
        let (propagation, depth) = (linux::mounts::Propagation::Shared, linux::mounts::Depth::One);
        linux::mounts::set_propagation(mount.as_fd(), propagation, depth).unwrap();
        for below in ["host", "container"] {
            std::fs::create_dir(path.join(below)).unwrap();
        }
    }
    let spec = machine.spec(|it, _| {
        let script = "busybox mount -t tmpfs inner /both/container; busybox mount -t tmpfs inner /slave/container; exec sleep 1000";
        it.command = ["/bin/sh", "-c", script].map(str::to_owned).into();
        it.security.privileged = true;
        let bound = |name: &str, propagation| Mount {
            propagation,
            ..mount(machine, &format!("shared-{name}"), &format!("/{name}"), false)
        };
        it.mounts = vec![
            bound("private", Propagation::Private),
            bound("slave", Propagation::HostToContainer),
            bound("both", Propagation::Bidirectional),
        ];
    });
    let running = machine.start(spec, &[]);
    assert_eq!(running.refused, None);
    let seen = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    eventually("the container's mount is seen here", || seen().contains("shared-both/container"));
    eventually("its program runs", || {
        machine.exec(&running, &["/bin/cat", "/proc/1/comm"], false).output == "sleep"
    });
    assert!(!seen().contains("shared-slave/container"));
    for name in ["private", "slave", "both"] {
        let path = machine.path(&format!("shared-{name}/host"));
        linux::mounts::mount_tmpfs(&path, &[], linux::mounts::Attributes::default()).unwrap();
    }
    let outcome = machine.exec(&running, &["/bin/grep", "-c", "/host ", "/proc/mounts"], false);
    check(&outcome, "2");
    machine.kill(running);
    for name in
        ["private/host", "slave/host", "both/host", "both/container", "private", "slave", "both"]
    {
        linux::mounts::detach(&machine.path(&format!("shared-{name}"))).unwrap();
    }
}
