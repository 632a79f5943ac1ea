//! Two processes on one directory: here two stores, which share nothing but the disk.

use node_api::Images as _;

use crate::content::{Made, archive, is_root, open, plain};

#[tokio::test]
async fn what_one_process_loads_or_removes_the_other_sees_at_once() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let (running, command) = (open(&images), open(&images));
    assert!(running.find("a").unwrap().is_none());
    let path = archive(directory.path(), &Made::simple("x").docker(&["a"]), plain);
    command.load(&path).await.unwrap();
    let found = running.find("a").unwrap().unwrap();
    assert!(running.layers(&found.id).await.unwrap().directories[0].join("etc/text").exists());
    let path = archive(directory.path(), &Made::simple("y").docker(&["b"]), plain);
    running.load(&path).await.unwrap();
    assert_eq!(command.list().len(), 2);
    command.remove("a").await.unwrap();
    assert!(running.find("a").unwrap().is_none());
    assert_eq!(running.list(), command.list());
}

/// All at once, of images with common layers: each is there whole in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_loads_at_once_end_well() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let stores = [open(&images), open(&images)];
    let mut paths = Vec::new();
    for n in 0..8 {
        let place = directory.path().join(n.to_string());
        std::fs::create_dir(&place).unwrap();
        let made = Made::simple(["x", "y"][n % 2]);
        paths.push(archive(&place, &made.docker(&[&format!("tag:{n}")]), plain));
    }
    let loads = paths.iter().enumerate().map(|(n, path)| stores[n % 2].load(path));
    for loaded in futures_util::future::join_all(loads).await {
        loaded.unwrap();
    }
    for store in &stores {
        let tags: Vec<usize> = store.list().iter().map(|it| it.tags.len()).collect();
        assert_eq!(tags, [4, 4]);
    }
}
