//! What a worker may.

use std::fs;
use std::path::PathBuf;

use crate::bed::Bed;

pub(crate) fn a_worker_has_no_privileges_and_can_gain_none() {
    let Some(bed) = Bed::make() else { return };
    let _worker = bed.worker();
    let process = PathBuf::from(format!("/proc/{}", bed.pid()));
    let status = fs::read_to_string(process.join("status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(of(set), "0000000000000000", "{set}");
    }
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(of("Threads:"), "1");
    assert_eq!(of("Groups:"), "");
    let ids = of("Uid:");
    assert!(ids.split(' ').all(|it| it == "81850"), "{ids}");
    assert_eq!(ids, of("Gid:"));
    // No descriptor of who started it but the socket: no file, no terminal.
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        let target = target.to_string_lossy().into_owned();
        let is_own = target == "/dev/null"
            || ["socket:", "anon_inode:", "pipe:"].iter().any(|it| target.starts_with(it));
        assert!(is_own, "{target}");
    }
}
