//! Forks in a re-executed copy of the test program, because the test harness itself has threads.

use super::memory::{Mapping, file_mappings};
use super::*;

#[test]
fn signals_are_known_by_name_and_number() {
    let check = |text: &str, expected: Option<i32>| {
        assert_eq!(Signal::parse(text).map(Signal::number), expected, "{text}");
    };
    check("SIGTERM", Some(15));
    check("term", Some(15));
    check("9", Some(9));
    check("SIGRTMIN+3", Some(37));
    check("RTMAX-1", Some(63));
    check("RTMIN", Some(34));
    check("RTMIN+31", None);
    check("RTMIN-1", None);
    check("RTMIN+-1", None);
    check("0", None);
    check("65", None);
    check("SIGNOTHING", None);
    check("", None);
}

#[test]
fn a_process_with_threads_does_not_fork() {
    std::thread::scope(|scope| {
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || rx.recv());
        let err = fork(CloneFlags::default()).unwrap_err();
        assert!(err.to_string().contains("single thread"), "{err}");
        drop(tx);
    });
}

#[test]
fn only_clean_pages_of_files_are_given_back() {
    let maps = "\
00400000-00500000 r-xp 00000000 fe:00 11 /usr/bin/xebec
00500000-00600000 rw-p 00000000 fe:00 11 /usr/bin/xebec
00600000-00700000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 r--s 00000000 fe:00 12 /shared
7f0000003000-7f0000004000 ---p 00000000 fe:00 14 /guard
";
    let mapping = Mapping { start: 0x0040_0000, end: 0x0050_0000 };
    assert_eq!(file_mappings(maps), [mapping]);
}

#[test]
fn giving_pages_back_lowers_the_resident_size() {
    // Touch the whole program, so that there is something to give back.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut sum = 0u64;
    for mapping in file_mappings(&maps) {
        for address in (mapping.start..mapping.end).step_by(4096) {
            // SAFETY: a readable mapping of a file, found a moment ago; the program unmaps none.
            sum += u64::from(unsafe { (address as *const u8).read_volatile() });
        }
    }
    assert_ne!(sum, 0);
    let before = resident();
    let dropped = drop_touched_pages().unwrap();
    let after = resident();
    println!("resident: {before} KiB before, {after} KiB after giving back {} KiB", dropped / 1024);
    assert!(after < before);
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssFile:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
