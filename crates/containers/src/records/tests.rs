//! Every format that was ever written is read, and what is written now is in `golden/` too.

use std::fmt::Debug;
use std::path::Path;

use node_api::containers::{ContainerConfig, Seccomp, SeccompFile};
use node_api::sandboxes::SandboxConfig;
use serde::Serialize;

use super::*;

fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/records/golden").join(name);
    fs::read(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

fn read_golden<T: Record>(name: &str) -> Result<T, Unreadable> {
    parse(Path::new(T::FILE), &golden(name))
}

/// The file of format 1 says the same as that of now, and that is what is written.
fn check<T: Record + Serialize + PartialEq + Debug>(kind: &str, formats: &[u32]) -> T {
    let now: T = read_golden(&format!("{VERSION}-{kind}.json")).unwrap();
    for format in formats {
        assert_eq!(read_golden::<T>(&format!("{format}-{kind}.json")).unwrap(), now, "{format}");
    }
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &now).unwrap();
    let written = fs::read_to_string(directory.path().join(T::FILE)).unwrap();
    let expected = String::from_utf8(golden(&format!("{VERSION}-{kind}.json"))).unwrap();
    assert_eq!(written, expected.trim_end());
    now
}

#[test]
fn every_format_is_read_and_the_newest_is_written() {
    check::<SandboxRecord>("sandbox", &[1]);
    check::<ContainerRecord>("container", &[1]);
    check::<Exit>("exit", &[1]);
    check::<StartedRecord>("started", &[]);
    check::<HolderRecord>("holder", &[]);
}

/// Nothing is lost between the types that everybody uses and what is on disk.
#[test]
fn records_say_all_that_configurations_say() {
    let sandbox: SandboxRecord = read_golden("2-sandbox.json").unwrap();
    let config = SandboxConfig::from(sandbox.config.clone());
    assert_eq!(sandbox::Config::from(config), sandbox.config);
    let container: ContainerRecord = read_golden("2-container.json").unwrap();
    let config = ContainerConfig::from(container.config.clone());
    assert_eq!(container::Config::from(config), container.config);
    let exit: Exit = read_golden("2-exit.json").unwrap();
    assert_eq!(Exit::from(node_api::containers::Exit::from(exit.clone())), exit);
}

#[test]
fn what_later_versions_added_has_a_value_in_the_oldest_record() {
    let half_made: SandboxRecord = read_golden("1-sandbox-half-made.json").unwrap();
    assert_eq!(half_made.addresses, None);
    let oldest: ContainerRecord = read_golden("1-container-oldest.json").unwrap();
    let config = ContainerConfig::from(oldest.config);
    assert_eq!((config.target, config.security.ignores_groups_of_image), (None, false));
    let [directory, name] = ["/var/lib/xebec/seccomp", "audit.json"].map(str::to_owned);
    let file = SeccompFile { directory: directory.into(), name };
    assert_eq!(config.security.seccomp, Seccomp::Localhost(file));
}

#[test]
fn a_holder_reads_what_it_keeps_from_every_format() {
    let now: HeldRecord = read_golden("2-container.json").unwrap();
    assert_eq!(read_golden::<HeldRecord>("1-container.json").unwrap(), now);
    assert_eq!(now.config.target.as_deref(), Some("feed"));
    let oldest: HeldRecord = read_golden("1-container-oldest.json").unwrap();
    assert_eq!(oldest.config.target, None);
    assert_eq!(oldest.layers, now.layers);
}

#[test]
fn a_newer_record_is_read_unless_it_forbids_guessing() {
    let change = |text: &str| {
        let record = String::from_utf8(golden("2-exit.json")).unwrap();
        record.replace(r#""version":2"#, text)
    };
    let read = |text: &str| parse::<Exit>(Path::new("exit.json"), change(text).as_bytes());
    assert_eq!(read(r#""version":9,"core":"kept""#).unwrap().code, 137);
    assert_eq!(read(r#""version":9,"needs":2"#).unwrap().code, 137);
    let err = read(r#""version":9,"needs":7"#).unwrap_err();
    assert_eq!(
        err.to_string(),
        "exit.json is of version 9, which takes a xebec that knows version 7; this one knows 2"
    );
}

#[test]
fn damage_is_named_and_absence_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    assert!(read::<Exit>(directory.path()).unwrap().is_none());
    for text in ["", "{", "[]", "null", r#"{"code":"no number"}"#, "\u{0}\u{0}\u{0}"] {
        fs::write(directory.path().join("exit.json"), text).unwrap();
        let err = read::<Exit>(directory.path()).unwrap_err();
        assert!(err.to_string().ends_with("exit.json is damaged"), "{text:?}: {err}");
    }
    fs::remove_file(directory.path().join("exit.json")).unwrap();
    fs::create_dir(directory.path().join("exit.json")).unwrap();
    assert!(matches!(read::<Exit>(directory.path()), Err(Unreadable::Read { .. })));
}
