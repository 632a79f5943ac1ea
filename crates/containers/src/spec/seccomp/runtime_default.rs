//! The profile of `RuntimeDefault`: what containerd allows (contrib/seccomp/seccomp_default.go at
//! v2), as facts in a table.

use super::{Seccomp, SeccompArgument, SeccompSyscall};

/// Allowed to all.
const ALWAYS: &str = "\
    _llseek _newselect accept accept4 access adjtimex alarm bind brk cachestat capget capset \
    chdir chmod chown chown32 clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 \
    clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range \
    connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl \
    epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve \
    execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark \
    fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr \
    flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync \
    ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake \
    futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid \
    getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername \
    getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid \
    getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid \
    getuid32 getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch \
    io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit \
    ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset \
    landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount listxattr \
    listxattrat llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules \
    lsm_set_self_attr lstat lstat64 madvise map_shadow_stack membarrier memfd_create \
    memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect \
    mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend \
    mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock \
    munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 pause \
    pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll \
    ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 \
    pselect6_time64 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recv \
    recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename \
    renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask \
    rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 \
    rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity \
    sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval \
    sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam \
    sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop \
    semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list \
    set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 \
    setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid \
    setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid \
    setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd \
    signalfd4 sigprocmask sigreturn socketcall socketpair splice stat stat64 statfs statfs64 \
    statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time \
    timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime \
    timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime \
    timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat \
    uretprobe utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write \
    writev";

/// Allowed on one architecture.
const X86: &str = "arch_prctl modify_ldt";
const ARM: &str = "sync_file_range2 breakpoint cacheflush set_tls";

/// Allowed to those who have the capability.
const WITH_CAPABILITY: &[(&str, &str)] = &[
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    (
        "CAP_SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr \
         move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount \
         umount2 unshare",
    ),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "delete_module init_module finit_module"),
    ("CAP_SYS_PACCT", "acct"),
    (
        "CAP_SYS_PTRACE",
        "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace",
    ),
    ("CAP_SYS_RAWIO", "iopl ioperm"),
    ("CAP_SYS_TIME", "settimeofday stime clock_settime clock_settime64"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
    ("CAP_SYS_NICE", "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"),
    ("CAP_SYSLOG", "syslog"),
    ("CAP_BPF", "bpf"),
    ("CAP_PERFMON", "perf_event_open"),
];

/// Values of personality(2) that change nothing of importance: Linux, with 16-bit identifiers, with
/// both, and "tell".
const PERSONALITIES: &[u64] = &[0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Flags of clone(2) that make namespaces.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

const ENOSYS: u16 = 38;
const AF_ALG: u64 = 38;
const AF_VSOCK: u64 = 40;

/// `capabilities` are the container's, with the prefix `CAP_`.
pub(in crate::spec) fn profile(capabilities: &[String], kernel: (u32, u32)) -> Seccomp {
    let mut syscalls = vec![allow(ALWAYS, None)];
    syscalls.push(allow(if cfg!(target_arch = "aarch64") { ARM } else { X86 }, None));
    // Sockets of every family but two, whose code the container has no need to reach.
    for (op, value) in
        [("SCMP_CMP_LT", AF_ALG), ("SCMP_CMP_EQ", AF_ALG + 1), ("SCMP_CMP_GT", AF_VSOCK)]
    {
        syscalls.push(allow("socket", Some((op, value, 0))));
    }
    for personality in PERSONALITIES {
        syscalls.push(allow("personality", Some(("SCMP_CMP_EQ", *personality, 0))));
    }
    // Before that, ptrace could be used to get round seccomp.
    if kernel >= (4, 8) {
        syscalls.push(allow("process_vm_readv process_vm_writev ptrace", None));
    }
    let has = |name: &str| capabilities.iter().any(|it| it == name);
    for (capability, names) in WITH_CAPABILITY {
        if has(capability) {
            syscalls.push(allow(names, None));
        }
    }
    if !has("CAP_SYS_ADMIN") {
        syscalls.push(allow("clone", Some(("SCMP_CMP_MASKED_EQ", NEW_NAMESPACES, 0))));
        // Its flags are in memory, where a filter cannot see them; libc then falls back on clone.
        syscalls.push(SeccompSyscall {
            names: vec!["clone3".to_owned()],
            action: "SCMP_ACT_ERRNO".to_owned(),
            errno_ret: Some(ENOSYS),
            args: Vec::new(),
        });
    }
    let architectures: &[&str] = if cfg!(target_arch = "aarch64") {
        &["SCMP_ARCH_ARM", "SCMP_ARCH_AARCH64"]
    } else {
        &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    };
    Seccomp {
        default_action: "SCMP_ACT_ERRNO".to_owned(),
        default_errno_ret: None,
        architectures: architectures.iter().map(|it| (*it).to_owned()).collect(),
        syscalls,
    }
}

/// Names in one text; perhaps if the first argument passes a test (operator, value, second value).
fn allow(names: &str, first: Option<(&str, u64, u64)>) -> SeccompSyscall {
    SeccompSyscall {
        names: names.split_ascii_whitespace().map(str::to_owned).collect(),
        action: "SCMP_ACT_ALLOW".to_owned(),
        errno_ret: None,
        args: first
            .map(|(op, value, value_two)| SeccompArgument {
                index: 0,
                value,
                value_two,
                op: op.to_owned(),
            })
            .into_iter()
            .collect(),
    }
}
