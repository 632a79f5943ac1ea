//! The built-in image, made of this test program.

use std::fs;
use std::path::Path;
use std::process::Command;

use images::{Config, Store};
use node_api::{ContainerId, Images as _};

use crate::content::is_root;

const NAME: &str = "xebec.local/toolbox";

fn open(directory: &Path, program: &Path) -> Store {
    let mut config = Config::new(directory);
    config.toolbox = Some(program.to_owned());
    config.toolbox_tools = vec!["cat".to_owned(), "tar".to_owned()];
    Store::open(config).unwrap()
}

#[tokio::test]
async fn the_program_runs_in_its_own_image() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("images"), &std::env::current_exe().unwrap());
    let image = store.find(NAME).unwrap().unwrap();
    assert_eq!(image.config.entrypoint, ["/bin/toolbox"]);
    assert_eq!(image.config.command, ["http", "--port", "8080"]);
    assert_eq!(store.find(image.id.as_str()).unwrap().as_ref(), Some(&image));
    assert_eq!(store.list(), std::slice::from_ref(&image));
    assert_eq!(store.pull(&format!("{NAME}:latest"), vec![]).await.unwrap(), image);
    let version = format!("{NAME}:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(store.find(&version).unwrap().as_ref(), Some(&image));
    assert!(store.find(&format!("{NAME}:other")).unwrap().is_none());
    assert!(store.pull(&format!("{NAME}:other"), vec![]).await.is_err());
    assert_eq!(store.list(), std::slice::from_ref(&image));
    let root = store.layers(&image.id).await.unwrap().directories.remove(0);
    assert_eq!(fs::read_link(root.join("bin/tar")).unwrap(), Path::new("toolbox"));
    for program in ["/bin/toolbox", "/bin/cat"] {
        let output = Command::new("chroot").arg(&root).args([program, "--list"]).output().unwrap();
        let list = String::from_utf8(output.stdout).unwrap();
        assert!(list.contains("the_program_runs_in_its_own_image"), "{:?}", output.stderr);
    }
}

#[tokio::test]
async fn a_new_program_makes_a_new_image_and_containers_keep_the_old_one() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (images, program) = (directory.path().join("images"), directory.path().join("program"));
    let own = std::env::current_exe().unwrap();
    fs::copy(&own, &program).unwrap();
    let store = open(&images, &program);
    let old = store.find(NAME).unwrap().unwrap();
    let owner = ContainerId::new("c1");
    // Held before it is made: holding makes it.
    store.hold(&old.id, &owner).await.unwrap();
    let new = directory.path().join("new");
    fs::copy(&own, &new).unwrap();
    fs::rename(&new, &program).unwrap();
    let new = store.find(NAME).unwrap().unwrap();
    assert_ne!(new.id, old.id);
    let new_layers = store.layers(&new.id).await.unwrap();
    let old_layers = store.layers(&old.id).await.unwrap();
    assert!(new_layers != old_layers && old_layers.directories[0].join("bin/toolbox").exists());
    // Once nobody uses it, the outdated one goes with the next removal of anything.
    store.release(&owner).await.unwrap();
    store.remove("anything").await.unwrap();
    assert!(!old_layers.directories[0].exists());
    assert!(new_layers.directories[0].exists());
    // And the image cannot be lost.
    store.remove(NAME).await.unwrap();
    assert_eq!(store.find(NAME).unwrap().unwrap().id, new.id);
    assert!(store.layers(&new.id).await.unwrap().directories[0].join("bin/toolbox").exists());
}

#[tokio::test]
async fn images_outlive_a_program_that_is_removed() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (images, program) = (directory.path().join("images"), directory.path().join("program"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let store = open(&images, &program);
    let image = store.find(NAME).unwrap().unwrap();
    store.layers(&image.id).await.unwrap();
    fs::remove_file(&program).unwrap();
    assert_eq!(store.find(NAME).unwrap().as_ref(), Some(&image));
    assert!(store.layers(&image.id).await.unwrap().directories[0].join("bin/toolbox").exists());
    // One that starts only now has no program to offer, but what was made is still there by its id.
    let later = open(&images, &program);
    assert!(later.find("nginx").unwrap().is_none());
    assert_eq!(later.find(image.id.as_str()).unwrap(), Some(image));
}

#[tokio::test]
async fn an_image_of_an_earlier_boot_is_made_anew() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let store = open(directory.path(), &program);
    let id = store.find(NAME).unwrap().unwrap().id;
    let root = store.layers(&id).await.unwrap().directories.remove(0);
    // As after a power cut.
    fs::write(root.parent().unwrap().join("boot"), "another").unwrap();
    fs::write(root.join("etc/passwd"), "").unwrap();
    let store = open(directory.path(), &program);
    let root = store.layers(&id).await.unwrap().directories.remove(0);
    assert!(fs::read_to_string(root.join("etc/passwd")).unwrap().starts_with("root:"));
}
