//! Which modules of the kernel a node needs, and what these need in turn. The package has no
//! `modules.dep` (installing it would make that), but each module names its needs:
//! `depends=one,two` in its section `.modinfo`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The first is not named by anybody: the kernel looks for whoever can compute it.
const NEEDED: &[&str] = &[
    "crc32c_generic",
    "overlay",
    "dummy",
    "veth",
    "bridge",
    "nf_conntrack_netlink",
    "nf_tables",
    "nft_chain_nat",
    "nft_ct",
    "nft_fib_inet",
    "nft_fib_ipv4",
    "nft_hash",
    "nft_limit",
    "nft_masq",
    "nft_nat",
    "nft_numgen",
    "nft_redir",
    "nft_reject_inet",
    "nft_reject_ipv4",
];

/// Files of all modules, each after those that it needs. Those that are built in are not there.
pub(crate) fn in_order(directory: &Path) -> Vec<PathBuf> {
    let mut files = BTreeMap::new();
    collect(directory, &mut files);
    let mut ordered = Vec::new();
    for name in NEEDED {
        add(name, &files, &mut ordered);
    }
    ordered
}

/// The kernel's modules need each other in no circle.
fn add(name: &str, files: &BTreeMap<String, PathBuf>, ordered: &mut Vec<PathBuf>) {
    let Some(path) = files.get(name).filter(|it| !ordered.contains(it)) else { return };
    let content = std::fs::read(path).unwrap();
    for needed in depends(&content) {
        add(&needed, files, ordered);
    }
    ordered.push(path.clone());
}

fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|it| it == KEY) else { return Vec::new() };
    let value = module[start + KEY.len()..].split(|it| *it == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|it| !it.is_empty()).map(name_of).collect()
}

/// A dash in the name of a file is an underscore in the name of a module.
fn name_of(file: &str) -> String {
    file.replace('-', "_")
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "ko")
            && let Some(stem) = path.file_stem()
        {
            files.insert(name_of(&stem.to_string_lossy()), path);
        }
    }
}

#[test]
fn a_module_names_what_it_needs() {
    let check = |module: &[u8], expected: &[&str]| assert_eq!(depends(module), expected);
    check(b"ELF\0license=GPL\0depends=nf_tables,x-tables\0name=one\0", &["nf_tables", "x_tables"]);
    check(b"ELF\0depends=\0", &[]);
    check(b"ELF", &[]);
}
