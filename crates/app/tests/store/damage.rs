//! A flipped bit: found, named, never served.

use std::path::{Path, PathBuf};

use crate::cluster::Cluster;
use crate::{json, store, store_refuses, xebec};

/// Flips one bit in the middle of the file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn first_segment(data: &Path) -> PathBuf {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(data.join("store/log"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "log"))
        .collect();
    segments.sort();
    segments.remove(0)
}

#[test]
fn a_damaged_snapshot_is_not_restored() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let data = cluster.path("data");
    let file = cluster.path("snapshot");
    let name = file.display().to_string();
    store(&data, &["snapshot", &name]);
    cluster.stop();
    let whole = std::fs::read(&file).unwrap();
    let target = cluster.path("restored");
    let check = |what: &str| {
        assert!(!store_refuses(&data, &["check", &name]).is_empty());
        store_refuses(&target, &["restore", &name]);
        let left = std::fs::read_dir(target.join("store")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{what}: nothing of it is kept");
    };
    flip(&file);
    check("a flipped bit");
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    check("cut short");
    std::fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
    check("something after its end");
    std::fs::write(&file, b"").unwrap();
    check("empty");
    std::fs::write(&file, &whole).unwrap();
    store(&target, &["restore", &name]);
}

#[test]
fn a_damaged_store_is_found_by_the_check_and_not_served() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let data = cluster.path("data");
    cluster.stop();
    flip(&first_segment(&data));
    let said = xebec(&["store", "--data-dir", data.to_str().unwrap(), "check", "-o", "json"]);
    assert!(!said.is_ok);
    let report = json(&said.stdout);
    assert_eq!(report["isSound"], false, "{report}");
    assert!(report["why"].as_str().unwrap().contains("damaged"), "{report}");
    let up =
        xebec(&["up", "--node", "none", "--https-port", "0", "--data-dir", data.to_str().unwrap()]);
    assert!(!up.is_ok && up.stderr.contains("damaged"), "{}", up.stderr);
    assert!(store_refuses(&data, &["status"]).contains("damaged"));
}
