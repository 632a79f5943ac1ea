//! What goes, what stays, and what a crash leaves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use images::{Digest, Store};
use node_api::{ContainerId, Images as _};

use crate::content::{Made, archive, gzip, is_root, open, plain, tar};

async fn load(store: &Store, directory: &Path, made: &Made, tags: &[&str]) -> node_api::ImageId {
    let path = archive(directory, &made.docker(tags), plain);
    store.load(&path).await.unwrap().remove(0).id
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn an_image_goes_with_its_last_name_and_layers_with_their_last_image() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let store = open(&images);
    let shared = tar(&[("shared", b"shared")]);
    let one = Made::new(&[(shared.clone(), gzip), (tar(&[("one", b"")]), gzip)], "one");
    let two = Made::new(&[(shared.clone(), gzip), (tar(&[("two", b"")]), gzip)], "two");
    load(&store, directory.path(), &one, &["one", "also-one"]).await;
    load(&store, directory.path(), &two, &["two"]).await;
    assert_eq!(names(&images.join("layers")).len(), 3);
    store.remove("one").await.unwrap();
    assert!(store.find("one").unwrap().is_none());
    assert!(store.find("also-one").unwrap().is_some());
    assert_eq!(names(&images.join("layers")).len(), 3);
    store.remove("also-one").await.unwrap();
    let layers: BTreeSet<String> =
        two.plain_layers.iter().map(|it| Digest::of(it).hex().to_owned()).collect();
    assert_eq!(names(&images.join("layers")), layers);
    store.remove(two.id().as_str()).await.unwrap();
    for kept in ["layers", "blobs", "holds"] {
        assert_eq!(names(&images.join(kept)), BTreeSet::new(), "{kept}");
    }
    store.remove("two").await.unwrap();
}

#[tokio::test]
async fn a_held_image_stays_also_after_a_restart_and_for_others() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let store = open(&images);
    let id = load(&store, directory.path(), &Made::simple("x"), &["a", "b"]).await;
    let (one, two) = (ContainerId::new("one"), ContainerId::new("two"));
    store.hold(&id, &one).await.unwrap();
    store.hold(&id, &two).await.unwrap();
    drop(store);
    let other = open(&images);
    // One of its names may go.
    other.remove("a").await.unwrap();
    let refused = |err: node_api::Error| err.to_string().contains("is used by a container");
    assert!(refused(other.remove("b").await.unwrap_err()));
    assert!(refused(other.remove(id.as_str()).await.unwrap_err()));
    assert!(other.layers(&id).await.unwrap().directories[0].exists());
    other.release(&one).await.unwrap();
    assert!(refused(other.remove("b").await.unwrap_err()));
    // The other one's container is gone, as its owner finds after a crash.
    other.retain_holds(BTreeSet::new()).await.unwrap();
    other.remove("b").await.unwrap();
    assert!(other.hold(&id, &one).await.is_err());
    assert!(other.hold(&id, &ContainerId::new("../escape")).await.is_err());
}

#[tokio::test]
async fn what_a_killed_process_left_is_removed_and_what_a_living_one_does_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let living = open(&images);
    let dead = images.join("tmp/99999-0/3/fs");
    fs::create_dir_all(&dead).unwrap();
    fs::write(dead.join("half"), "x").unwrap();
    let before = names(&images.join("tmp"));
    assert_eq!(before.len(), 2);
    let second = open(&images);
    let after = names(&images.join("tmp"));
    assert!(!after.contains("99999-0") && after.len() == 2, "{after:?}");
    drop((living, second));
    assert!(names(&images.join("tmp")).is_empty());
}

#[tokio::test]
async fn an_index_of_the_future_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let index = r#"{"format":2,"images":{},"tags":{},"digests":{}}"#;
    fs::write(directory.path().join("index.json"), index).unwrap();
    let err = Store::open(images::Config::new(directory.path())).err().unwrap();
    assert!(stdx::error_chain(&err).contains("use a newer xebec"));
}
