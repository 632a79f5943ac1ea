//! Archives of every kind, good and bad.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use images::{Digest, Reference, Store};
use node_api::{ImageId, Images as _};
use serde_json::json;

use crate::content::{
    Made, archive, descriptor, gzip, is_root, oci_layout, open, plain, tar, zstd,
};

/// The text of `etc/text` as a container would see it.
async fn text(store: &Store, id: &ImageId) -> String {
    let layers = store.layers(id).await.unwrap();
    let file = layers.directories.iter().map(|it| it.join("etc/text")).find(|it| it.exists());
    fs::read_to_string(file.unwrap()).unwrap()
}

#[tokio::test]
async fn every_kind_of_archive_gives_the_same_image() {
    if !is_root() {
        return;
    }
    let lower = tar(&[("etc/text", b"lower"), ("etc/other", b"x")]);
    let upper = tar(&[("etc/text", b"upper")]);
    let made = Made::new(&[(lower.clone(), gzip), (upper.clone(), zstd)], "run");
    let oci = made.oci(json!({"io.containerd.image.name": "docker.io/library/a:1"}));
    let short = made.oci(json!({"org.opencontainers.image.ref.name": "a:1"}));
    let docker = made.docker(&["a:1"]);
    for (files, pack) in [
        (&oci, plain as fn(&[u8]) -> Vec<u8>),
        (&oci, gzip),
        (&oci, zstd),
        (&short, plain),
        (&docker, plain),
        (&docker, gzip),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("images"));
        let loaded = store.load(&archive(directory.path(), files, pack)).await.unwrap();
        let [image] = loaded.as_slice() else { panic!("{loaded:?}") };
        assert_eq!(image.id.as_str(), made.id());
        assert_eq!(image.tags, ["docker.io/library/a:1"]);
        assert_eq!(image.config.command, ["run"]);
        assert_eq!(image.size, 11);
        assert_eq!(store.find("a:1").unwrap().as_ref(), Some(image));
        assert_eq!(text(&store, &image.id).await, "upper");
        let layers = store.layers(&image.id).await.unwrap().directories;
        assert!(layers[0].to_str().unwrap().contains(Digest::of(&upper).hex()), "uppermost first");
        // What was not read again must be read the same.
        let again = open(&directory.path().join("images"));
        assert_eq!(again.list(), loaded);
    }
}

#[tokio::test]
async fn an_archive_for_several_machines_gives_the_one_for_this() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (other, own) = (Made::simple("other machine"), Made::simple("this machine"));
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let mut for_other = descriptor(manifest, &other.manifest);
    for_other["platform"] = json!({"os": "linux", "architecture": "z80"});
    let mut for_own = descriptor(manifest, &own.manifest);
    for_own["platform"] = json!({"os": "linux", "architecture": crate::content::architecture()});
    let entries = [for_other.clone(), for_own];
    let index = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": entries})).unwrap();
    let mut blobs = own.blobs();
    blobs.insert(Digest::of(&index).to_string(), index.clone());
    let mut entry = descriptor("application/vnd.oci.image.index.v1+json", &index);
    entry["annotations"] = json!({"io.containerd.image.name": "host.x/multi:1"});
    // The other machine's blobs are not even in the archive.
    for files in [oci_layout(&[entry], &blobs), oci_layout(&entries, &blobs)] {
        let store = open(&directory.path().join("images"));
        let loaded = store.load(&archive(directory.path(), &files, plain)).await.unwrap();
        assert_eq!(loaded[0].id.as_str(), own.id());
        assert_eq!(text(&store, &loaded[0].id).await, "this machine");
    }
    let store = open(&directory.path().join("images"));
    let files = oci_layout(&[for_other], &other.blobs());
    let err = store.load(&archive(directory.path(), &files, plain)).await.unwrap_err().to_string();
    assert!(err.contains("there is linux/z80"), "{err}");
}

#[tokio::test]
async fn a_given_name_replaces_those_of_the_archive() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("images"));
    let made = Made::simple("x");
    // A tag alone is no name.
    let files = made.oci(json!({"org.opencontainers.image.ref.name": "latest"}));
    let path = archive(directory.path(), &files, plain);
    assert!(store.load(&path).await.unwrap()[0].tags.is_empty());
    let name = Reference::parse("my/own").unwrap();
    let loaded = store.load_as(&path, Some(name)).await.unwrap();
    assert_eq!(loaded[0].tags, ["docker.io/my/own:latest"]);
    assert_eq!(loaded[0].digests, [format!("docker.io/my/own@{}", made.digest())]);
}

async fn check_refused(files: &[(String, Vec<u8>)], pack: fn(&[u8]) -> Vec<u8>, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("images"));
    let path = archive(directory.path(), files, pack);
    let err = stdx::error_chain(&store.load(&path).await.unwrap_err());
    assert!(err.contains(expected), "{err}");
    assert!(store.list().is_empty());
    // Nothing half-done is left.
    for name in ["images/blobs", "images/layers"] {
        assert_eq!(fs::read_dir(directory.path().join(name)).unwrap().count(), 0, "{err}");
    }
    drop(store);
    assert_eq!(fs::read_dir(directory.path().join("images/tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_damaged_is_refused_whole() {
    if !is_root() {
        return;
    }
    let made = Made::simple("text");
    let files = made.oci(json!({}));
    let without = |name: &str| -> Vec<_> {
        files.iter().filter(|it| !it.0.ends_with(name)).cloned().collect()
    };
    let layer = Digest::of(&made.layers[0]);
    check_refused(&without(layer.hex()), plain, "is missing in it").await;
    check_refused(&without("index.json"), plain, "not an image archive").await;
    let mut changed = files.clone();
    for (name, content) in &mut changed {
        if name.ends_with(layer.hex()) {
            *content = gzip(&tar(&[("etc/text", b"evil")]));
        }
    }
    let digest = format!("expected {layer}");
    check_refused(&changed, plain, &digest).await;
    let mut changed = files.clone();
    for (name, content) in &mut changed {
        if name.ends_with(Digest::of(&made.config).hex()) {
            content.push(b' ');
        }
    }
    check_refused(&changed, plain, "has unexpected digest").await;
    // Docker's archives have no digests of documents, but the configuration has those of the
    // layers.
    let mut changed = made.docker(&["a"]);
    changed[0].1 = tar(&[("etc/text", b"evil")]);
    check_refused(&changed, plain, "has unexpected digest").await;
    check_refused(&files, |it| gzip(it)[..100].to_vec(), "reading").await;
    check_refused(&files, |it| it[..1000].to_vec(), "the archive ends in the middle").await;
    check_refused(&[("x".to_owned(), vec![])], plain, "not an image archive").await;
}

/// A layer that puts a file into a directory without describing it leaves the directory as the
/// layer below has it.
#[tokio::test]
async fn undescribed_directories_take_after_the_layer_below() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o1777);
    header.set_uid(7);
    header.set_size(0);
    builder.append_data(&mut header, "tmp/", std::io::empty()).unwrap();
    let lower = builder.into_inner().unwrap();
    let made = Made::new(&[(lower, plain), (tar(&[("tmp/file", b"x")]), plain)], "x");
    let store = open(&directory.path().join("images"));
    let loaded = store.load(&archive(directory.path(), &made.docker(&["a"]), plain)).await.unwrap();
    let layers = store.layers(&loaded[0].id).await.unwrap();
    let upper = fs::metadata(layers.directories[0].join("tmp")).unwrap();
    assert_eq!(upper.permissions().mode() & 0o7777, 0o1777);
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&upper), 7);
}
