//! Maps and programs in the kernel, and programs at a cgroup of our own.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::fs::File;
use std::path::PathBuf;

use linux::bpf::{
    Assembler, Code, Error, Hook, Map, MapFormat, MapKind, Program, Register, attach, attached,
    detach,
};
use linux::cgroups::Hierarchies;
use rustix::io::Errno;

fn map(kind: MapKind, entries_max: u32) -> Option<Map> {
    match Map::create("test", MapFormat { kind, key: 4, value: 8, entries_max }) {
        Ok(map) => Some(map),
        Err(err) => {
            eprintln!("SKIPPED: {err}: {:?}", err.errno());
            None
        }
    }
}

fn entry(number: u32) -> (Vec<u8>, Vec<u8>) {
    (number.to_ne_bytes().to_vec(), u64::from(number).to_ne_bytes().to_vec())
}

#[test]
fn a_map_holds_what_was_put_there() {
    for kind in [MapKind::Hash, MapKind::LruHash] {
        let Some(map) = map(kind, 100) else { return };
        let (key, value) = entry(7);
        assert_eq!(map.lookup(&key).unwrap(), None);
        map.update(&key, &value).unwrap();
        assert_eq!(map.lookup(&key).unwrap(), Some(value.clone()));
        map.update(&key, &entry(8).1).unwrap();
        assert_eq!(map.entries().unwrap(), [(key.clone(), entry(8).1)]);
        assert!(map.delete(&key).unwrap());
        assert!(!map.delete(&key).unwrap());
        assert_eq!(map.entries().unwrap(), []);
        let short = map.update(&key[1..], &value).unwrap_err();
        assert_eq!(short.to_string(), "map test has keys of 4 bytes and values of 8, not 3");
    }
    let Some(array) = map(MapKind::Array, 2) else { return };
    array.update(&entry(1).0, &entry(9).1).unwrap();
    assert_eq!(array.entries().unwrap(), [(entry(0).0, entry(0).1), (entry(1).0, entry(9).1)]);
}

#[test]
fn many_entries_come_and_go_in_batches() {
    let n_entries = 10_000;
    let Some(map) = map(MapKind::Hash, n_entries) else { return };
    let all: Vec<_> = (0..n_entries).map(entry).collect();
    map.update_all(&all).unwrap();
    let mut found = map.entries().unwrap();
    found.sort_by_key(|it| u32::from_ne_bytes(*it.0.first_chunk().unwrap()));
    assert!(found == all, "{} of {n_entries}", found.len());
    let full = map.update_all(&[entry(n_entries), entry(n_entries + 1)]).unwrap_err();
    assert!(full.is(Errno::TOOBIG), "{full:?}");
    // Some of them are gone already.
    let keys: Vec<_> = all.iter().map(|it| it.0.clone()).collect();
    map.delete_all(&keys[5000..6000]).unwrap();
    map.delete_all(&keys[..9999]).unwrap();
    assert_eq!(map.entries().unwrap(), all[9999..]);
}

#[test]
fn a_map_is_found_by_its_number_as_it_was_made() {
    let Some(map) = map(MapKind::LruHash, 64) else { return };
    let id = map.id().unwrap();
    let again = Map::by_id(id).unwrap().unwrap();
    assert_eq!((again.name(), again.format()), ("test", map.format()));
    map.update(&entry(1).0, &entry(1).1).unwrap();
    assert_eq!(again.entries().unwrap(), [entry(1)]);
}

/// Lets everything pass. The map does nothing.
fn passing(map: Option<&Map>) -> Code {
    let mut code = Assembler::new();
    if let Some(map) = map {
        code.set_map(Register::R2, map.descriptor());
    }
    code.set(Register::R0, 1).exit();
    code.assemble().unwrap()
}

#[test]
fn a_program_that_the_kernel_refuses_is_explained() {
    let Some(_) = map(MapKind::Hash, 1) else { return };
    let mut code = Assembler::new();
    code.set(Register::R0, Register::R7).exit();
    let refused = Program::load("wrong", Hook::Connect4, &code.assemble().unwrap()).unwrap_err();
    let Error::Verify { log, .. } = &refused else { panic!("{refused:?}") };
    assert!(log.contains("R7 !read_ok"), "{log}");
    let named = Program::load("no name", Hook::Connect4, &passing(None)).unwrap_err();
    assert!(matches!(named, Error::Name { .. }), "{named}");
}

/// A cgroup of version 2, removed at the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make(name: &str) -> Option<Self> {
        let hierarchies = Hierarchies::detect().unwrap();
        let made = hierarchies.unified().map(|it| {
            let path = it.mount.join(format!("xebec-test-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).map(|()| Self(path))
        });
        match made {
            Some(Ok(cgroup)) => Some(cgroup),
            other => {
                eprintln!("SKIPPED: no cgroup of version 2: {:?}", other.map(Result::err));
                None
            }
        }
    }

    fn open(&self) -> File {
        File::open(&self.0).unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

#[test]
fn a_program_stays_at_its_cgroup_and_is_found_there_with_its_maps() {
    let Some(map) = map(MapKind::Hash, 16) else { return };
    let Some(cgroup) = Cgroup::make("bpf") else { return };
    let (hook, id) = (Hook::Connect4, map.id().unwrap());
    let program = Program::load("first", hook, &passing(Some(&map))).unwrap();
    let other = Program::load("other", hook, &passing(None)).unwrap();
    attach(&cgroup.open(), hook, &program, None).unwrap();
    attach(&cgroup.open(), hook, &other, None).unwrap();
    map.update(&entry(5).0, &entry(5).1).unwrap();
    drop((program, other, map));
    let ids = attached(&cgroup.open(), hook).unwrap();
    let programs: Vec<_> = ids.iter().map(|it| Program::by_id(*it).unwrap().unwrap()).collect();
    let names: Vec<_> = programs.iter().map(|it| it.describe().unwrap().name).collect();
    assert_eq!(names, ["first", "other"]);
    let description = programs[0].describe().unwrap();
    assert_eq!(description.maps, [id]);
    assert_eq!(Map::by_id(id).unwrap().unwrap().entries().unwrap(), [entry(5)]);
    // The same code is the same program to whoever looks at the tag.
    let same = Program::load("same", hook, &passing(None)).unwrap();
    assert_eq!(same.describe().unwrap().tag, programs[1].describe().unwrap().tag);
    assert_ne!(same.describe().unwrap().tag, description.tag);
    attach(&cgroup.open(), hook, &same, Some(&programs[0])).unwrap();
    let now = attached(&cgroup.open(), hook).unwrap();
    assert_eq!(now, [same.describe().unwrap().id, ids[1]]);
    detach(&cgroup.open(), hook, &same).unwrap();
    assert_eq!(attached(&cgroup.open(), hook).unwrap(), [ids[1]]);
    assert_eq!(attached(&cgroup.open(), Hook::SendMessage6).unwrap(), [0; 0]);
}
