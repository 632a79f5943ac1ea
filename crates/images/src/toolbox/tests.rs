//! The toolbox image, made of the test program itself.

use std::fs;
use std::fs::File;
use std::path::Path;

use super::{Toolbox, elf};

fn own_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

#[test]
fn the_needs_of_a_program_are_what_it_has_loaded() {
    let needs = elf::needs(&File::open(own_program()).unwrap()).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_loaded = |name: &str| maps.lines().any(|it| it.ends_with(&format!("/{name}")));
    assert!(needs.libraries.iter().any(|it| it.starts_with("libc.so")), "{needs:?}");
    assert!(needs.libraries.iter().all(|it| is_loaded(it)), "{needs:?}\n{maps}");
    assert!(Path::new(&needs.loader.unwrap()).exists());
}

#[test]
fn what_is_no_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |content: &[u8]| {
        let path = directory.path().join("file");
        fs::write(&path, content).unwrap();
        assert!(elf::needs(&File::open(&path).unwrap()).is_err());
    };
    check(b"");
    check(b"#!/bin/sh\n");
    check(&[b"\x7fELF\x02\x01".as_slice(), &[0xff; 300]].concat());
}

#[test]
fn the_image_changes_when_the_program_does() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    fs::copy(own_program(), &program).unwrap();
    let toolbox = Toolbox::new(program.clone(), vec!["cat".to_owned()]);
    let first = toolbox.describe().unwrap();
    assert_eq!(first.id, toolbox.describe().unwrap().id);
    // Replaced, as an installer does.
    let new = directory.path().join("new");
    fs::copy(own_program(), &new).unwrap();
    fs::rename(&new, &program).unwrap();
    assert_ne!(first.id, toolbox.describe().unwrap().id);
    let other_tools = Toolbox::new(program, vec!["ls".to_owned()]);
    assert_ne!(other_tools.describe().unwrap().id, toolbox.describe().unwrap().id);
}
