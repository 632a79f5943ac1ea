//! On a real kernel, in a directory of their own. Mounts need root; without it these tests say that
//! they were skipped.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use linux::mount_points as mounts;
use node_api::volumes::{File, FilesPlugin, HostPathKind, Medium, SubPath, Volume, Volumes as _};
use node_api::{Error, PodUid};
use stdx::World;

use crate::{Config, LocalVolumes};

/// A kubelet's directory that leaves no mount behind, however the test ends.
struct Bench {
    volumes: LocalVolumes,
    directory: PathBuf,
    root: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = mounts::unmount_below(&self.directory);
    }
}

/// `None`, loudly, where the kernel would not let us.
fn bench() -> Option<Bench> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: mounting needs root");
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().canonicalize().unwrap().join("pods");
    let config = Config { directory: directory.clone() };
    let volumes = LocalVolumes::open(config, &World::system()).unwrap();
    Some(Bench { volumes, directory, root })
}

fn pod() -> PodUid {
    PodUid::new("u1")
}

fn file(content: &str, mode: u32) -> File {
    File { content: content.to_owned().into(), mode, user: None }
}

fn files(plugin: FilesPlugin, files: &[(&str, &str)]) -> Volume {
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), file(content, 0o644)));
    Volume::Files { plugin, files: files.collect() }
}

impl Bench {
    async fn publish(&self, name: &str, volume: Volume) -> PathBuf {
        self.volumes.publish(&pod(), name, volume, None).await.unwrap()
    }

    /// Nothing of the pod is left, not even a mount.
    async fn tear_down(&self) {
        self.volumes.tear_down(&pod()).await.unwrap();
        assert_eq!(mounts::below(&self.directory).unwrap(), [""; 0].map(PathBuf::from));
        assert_eq!(std::fs::read_dir(&self.directory).unwrap().count(), 0);
    }

    async fn sub_path(&self, root: &Path, path: &str) -> Result<PathBuf, Error> {
        let sub_path = SubPath {
            volume: "data".to_owned(),
            root: root.to_owned(),
            container: "app".to_owned(),
            mount: 0,
            path: path.to_owned(),
        };
        self.volumes.sub_path(&pod(), sub_path).await
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_tmpfs(path: &Path) -> bool {
    rustix::fs::statfs(path).unwrap().f_type == 0x0102_1994
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn local_volumes_keep_the_promises() {
    let Some(bench) = bench() else { return };
    let host = bench.root.path().join("host");
    std::fs::create_dir(&host).unwrap();
    node_api::contract::volumes::all(&bench.volumes, &host).await;
    assert!(host.exists());
}

#[tokio::test]
async fn empty_directories_keep_their_content() {
    let Some(bench) = bench() else { return };
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let path = bench.publish("data", disk.clone()).await;
    assert!(path.ends_with("u1/volumes/kubernetes.io~empty-dir/data"), "{}", path.display());
    assert_eq!(mode(&path), 0o777);
    std::fs::write(path.join("kept"), "1").unwrap();
    bench.publish("data", disk).await;
    assert_eq!(names(&path), ["kept"]);
    bench.tear_down().await;
}

#[tokio::test]
async fn huge_pages_are_a_file_system_of_one_page_size() {
    let Some(bench) = bench() else { return };
    if !Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        eprintln!("SKIPPED: this kernel has no huge pages of 2 MiB");
        return;
    }
    let medium = Medium::HugePages { page_size: 2 << 20 };
    let volume = || Volume::EmptyDir { medium, size_limit: Some(4 << 20) };
    let path = bench.publish("data", volume()).await;
    let file_system = rustix::fs::statfs(&path).unwrap();
    assert_eq!((file_system.f_type as u32, file_system.f_bsize), (0x9584_58f6, 2 << 20));
    assert_eq!(file_system.f_blocks, 2);
    assert_eq!(mode(&path), 0o777);
    assert_eq!(bench.publish("data", volume()).await, path);
    let wrong = Medium::HugePages { page_size: 12_345 };
    let wrong = Volume::EmptyDir { medium: wrong, size_limit: None };
    let refused = bench.volumes.publish(&pod(), "wrong", wrong, None).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("mounting a file system of huge pages on"), "{refused}");
    bench.tear_down().await;
}

#[tokio::test]
async fn memory_has_a_limit() {
    let Some(bench) = bench() else { return };
    let memory = |size| Volume::EmptyDir { medium: Medium::Memory, size_limit: Some(size) };
    let path = bench.publish("data", memory(1 << 20)).await;
    assert!(is_tmpfs(&path));
    assert_eq!(mode(&path), 0o777);
    let too_much = vec![1u8; 2 << 20];
    let error = std::fs::write(path.join("big"), &too_much).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28), "{error}");
    bench.publish("data", memory(4 << 20)).await;
    std::fs::write(path.join("big"), &too_much).unwrap();
    bench.tear_down().await;
}

#[tokio::test]
async fn the_group_of_the_pod_owns_its_volumes() {
    let Some(bench) = bench() else { return };
    let publish = async |name: &str, volume| {
        bench.volumes.publish(&pod(), name, volume, Some(4711)).await.unwrap()
    };
    for medium in [Medium::Disk, Medium::Memory] {
        let name = format!("{medium:?}").to_lowercase();
        let path = publish(&name, Volume::EmptyDir { medium, size_limit: None }).await;
        assert_eq!((mode(&path), path.metadata().unwrap().gid()), (0o2777, 4711));
        std::fs::write(path.join("made"), "").unwrap();
        assert_eq!(path.join("made").metadata().unwrap().gid(), 4711);
    }
    let owned = File { content: "t".into(), mode: 0o600, user: Some(12) };
    let tokens =
        BTreeMap::from([("token".to_owned(), owned), ("d/x".to_owned(), file("x", 0o400))]);
    let volume = Volume::Files { plugin: FilesPlugin::Projected, files: tokens };
    let path = publish("tokens", volume.clone()).await;
    let token = path.join("token").metadata().unwrap();
    assert_eq!((token.uid(), token.gid(), token.mode() & 0o7777), (12, 4711, 0o640));
    let other = path.join("d/x").metadata().unwrap();
    assert_eq!((other.uid(), other.gid(), other.mode() & 0o7777), (0, 4711, 0o440));
    let before = std::fs::read_link(path.join("..data")).unwrap();
    publish("tokens", volume).await;
    assert_eq!(std::fs::read_link(path.join("..data")).unwrap(), before);
    bench.tear_down().await;
}

#[tokio::test]
async fn files_change_together() {
    let Some(bench) = bench() else { return };
    let plugin = FilesPlugin::ConfigMap;
    let path =
        bench.publish("config", files(plugin, &[("a", "1"), ("d/b", "2"), ("d/c", "3")])).await;
    let data = std::fs::read_link(path.join("..data")).unwrap();
    let data = data.to_str().unwrap();
    assert_eq!(names(&path), [data, "..data", "a", "d"]);
    assert_eq!(std::fs::read_link(path.join("d")).unwrap(), Path::new("..data/d"));
    // ..2026_11_16_00_00_00.123
    let shape: String = data.chars().map(|it| if it.is_ascii_digit() { '0' } else { it }).collect();
    assert!(shape.starts_with("..0000_00_00_00_00_00.0"), "{data}");
    assert_eq!(std::fs::read_to_string(path.join("d/c")).unwrap(), "3");
    let old = std::fs::File::open(path.join("a")).unwrap();

    bench.publish("config", files(plugin, &[("a", "1"), ("d/b", "2"), ("d/c", "3")])).await;
    assert_eq!(
        std::fs::read_link(path.join("..data")).unwrap(),
        Path::new(data),
        "nothing changed"
    );

    bench.publish("config", files(plugin, &[("a", "new"), ("e", "4")])).await;
    let new = std::fs::read_link(path.join("..data")).unwrap();
    assert_ne!(new, Path::new(data));
    assert_eq!(names(&path), [new.to_str().unwrap(), "..data", "a", "e"]);
    assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "new");
    assert_eq!(std::io::read_to_string(old).unwrap(), "1", "who has it open reads on");

    let stricter = BTreeMap::from([("a".to_owned(), file("new", 0o400))]);
    bench.publish("config", Volume::Files { plugin, files: stricter }).await;
    assert_eq!(mode(&path.join("..data/a")), 0o400);
    bench.publish("config", files(plugin, &[])).await;
    assert_eq!(names(&path).len(), 2, "{:?}", names(&path));
    bench.tear_down().await;
}

#[tokio::test]
async fn half_written_files_are_cleared() {
    let Some(bench) = bench() else { return };
    let volume = || files(FilesPlugin::ConfigMap, &[("a", "1")]);
    let path = bench.publish("config", volume()).await;
    std::fs::create_dir(path.join("..2020_01_01_00_00_00.1")).unwrap();
    symlink("..2020_01_01_00_00_00.1", path.join("..data_tmp")).unwrap();
    std::fs::remove_file(path.join("a")).unwrap();
    bench.publish("config", volume()).await;
    assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "1");
    bench.publish("config", files(FilesPlugin::ConfigMap, &[("a", "2")])).await;
    assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "2");
    assert_eq!(names(&path).len(), 3, "{:?}", names(&path));
    bench.tear_down().await;
}

#[tokio::test]
async fn secrets_stay_in_memory() {
    let Some(bench) = bench() else { return };
    let check = async |plugin, folder: &str, expected: bool| {
        let path = bench.publish(folder, files(plugin, &[("a", "1")])).await;
        assert!(path.ends_with(format!("kubernetes.io~{folder}/{folder}")), "{}", path.display());
        assert_eq!(mounts::is_mount_point(&path).unwrap(), expected, "{folder}");
        assert!(!expected || is_tmpfs(&path));
    };
    check(FilesPlugin::Secret, "secret", true).await;
    check(FilesPlugin::Projected, "projected", true).await;
    check(FilesPlugin::DownwardApi, "downward-api", true).await;
    check(FilesPlugin::ConfigMap, "configmap", false).await;
    bench.tear_down().await;
}

#[tokio::test]
async fn files_stay_below_their_volume() {
    let Some(bench) = bench() else { return };
    for path in ["../x", "/x", "a/../../x", "..data", ""] {
        let volume = files(FilesPlugin::ConfigMap, &[(path, "1")]);
        let error = bench.volumes.publish(&pod(), "v", volume, None).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{path:?}: {error:?}");
    }
    let volume = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    for name in ["..", "a/b", ""] {
        let error = bench.volumes.publish(&PodUid::new(name), "v", volume.clone(), None).await;
        assert!(matches!(error, Err(Error::Refused(_))), "{name:?}: {error:?}");
        assert!(bench.volumes.tear_down(&PodUid::new(name)).await.is_err());
    }
}

#[tokio::test]
async fn paths_of_the_host_are_checked() {
    let Some(bench) = bench() else { return };
    let root = bench.root.path();
    std::fs::create_dir(root.join("dir")).unwrap();
    std::fs::write(root.join("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let check = async |path: PathBuf, kind, expected: &str| {
        let volume = Volume::HostPath { path: path.clone(), kind };
        let result = bench.volumes.publish(&pod(), "host", volume, None).await;
        let actual = result.map_or_else(
            |err| err.to_string(),
            |it| {
                assert_eq!(it, path);
                "ok".to_owned()
            },
        );
        let shown = root.to_str().unwrap();
        assert_eq!(actual.replace(shown, "R"), expected);
    };
    use HostPathKind::*;
    let at = |name: &str| root.join(name);
    let failed = |text: &str| format!("hostPath type check failed: {text}");
    check(at("dir"), Directory, "ok").await;
    check(at("none"), Directory, &failed("R/none is not a directory")).await;
    check(at("file"), Directory, &failed("R/file is not a directory")).await;
    check(at("file"), DirectoryOrCreate, &failed("R/file is not a directory")).await;
    check(at("made/deep"), DirectoryOrCreate, "ok").await;
    check(at("file"), File, "ok").await;
    check(at("dir"), File, &failed("R/dir is not a file")).await;
    check(at("dir"), FileOrCreate, &failed("R/dir is not a file")).await;
    check(at("new"), FileOrCreate, "ok").await;
    check(at("socket"), Socket, "ok").await;
    check(at("file"), Socket, &failed("R/file is not a socket file")).await;
    check("/dev/null".into(), CharDevice, "ok").await;
    check(at("file"), CharDevice, &failed("R/file is not a character device")).await;
    check(at("file"), BlockDevice, &failed("R/file is not a block device")).await;
    check(at("any"), Unset, "ok").await;
    assert!(at("made/deep").is_dir() && at("new").is_file() && at("any").is_dir());
    assert!(at("socket").metadata().unwrap().file_type().is_socket());
    bench.tear_down().await;
    assert!(at("dir").exists() && at("file").exists(), "the host keeps its own");
}

#[tokio::test]
async fn parts_are_made_and_held() {
    let Some(bench) = bench() else { return };
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let root = bench.publish("data", disk).await;
    let part = bench.sub_path(&root, "a/b").await.unwrap();
    assert!(part.ends_with("u1/volume-subpaths/data/app/0"), "{}", part.display());
    assert_eq!(mode(&root.join("a/b")), 0o777);
    std::fs::write(root.join("a/b/x"), "1").unwrap();
    assert_eq!(names(&part), ["x"]);
    // A container that exchanges the directory for a link does not move what is mounted.
    std::fs::rename(root.join("a"), root.join("old")).unwrap();
    symlink("/etc", root.join("a")).unwrap();
    assert_eq!(names(&part), ["x"]);
    let error = bench.sub_path(&root, "a/b").await.unwrap_err();
    let expected = "unable to provision SubPath `a/b`: it leads out of volume \"data\"";
    assert_eq!(error.to_string(), expected);
    // A file, and a link that stays inside.
    std::fs::write(root.join("f"), "2").unwrap();
    symlink("f", root.join("link")).unwrap();
    let part = bench.sub_path(&root, "link").await.unwrap();
    assert_eq!(std::fs::read_to_string(&part).unwrap(), "2");
    let part = bench.sub_path(&root, "old").await.unwrap();
    assert_eq!(names(&part), ["b"]);
    let error = bench.sub_path(&root, "f/x").await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    bench.tear_down().await;
}

#[tokio::test]
async fn links_of_containers_lead_nowhere() {
    let Some(bench) = bench() else { return };
    let outside = bench.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let root = bench.publish("data", disk).await;
    for (link, to) in
        [("up", "../../../.."), ("abs", outside.to_str().unwrap()), ("proc", "/proc/self/root")]
    {
        symlink(to, root.join(link)).unwrap();
        let error = bench.sub_path(&root, link).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{link}: {error:?}");
        let error = bench.sub_path(&root, &format!("{link}/new")).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{link}: {error:?}");
    }
    bench.tear_down().await;
    assert_eq!(names(&outside), ["precious"]);
}

/// CVE-2017-1002101, CVE-2021-25741: a container exchanges a directory of its volume for a link
/// while it is mounted.
#[tokio::test]
async fn a_race_with_a_link_is_never_lost() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let Some(bench) = bench() else { return };
    let outside = bench.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let root = bench.publish("data", disk).await;
    std::fs::create_dir_all(root.join("a")).unwrap();
    std::fs::write(root.join("a/own"), "").unwrap();
    symlink(&outside, root.join("b")).unwrap();
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let racer = std::thread::spawn({
        let (one, other, is_over) = (root.join("a"), root.join("b"), is_over.clone());
        move || {
            while !is_over.load(Ordering::Relaxed) {
                let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                rustix::fs::renameat_with(here, &one, here, &other, flags).unwrap();
            }
        }
    });
    let mut n_mounted = 0;
    for round in 0..400 {
        let path = if round % 2 == 0 { "a".to_owned() } else { format!("a/{}", round / 100) };
        match bench.sub_path(&root, &path).await {
            Ok(part) => {
                n_mounted += 1;
                assert!(!part.join("precious").exists(), "the host's is mounted");
            }
            // Caught in the act.
            Err(Error::Refused(_) | Error::Node { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    racer.join().unwrap();
    assert_eq!(names(&outside), ["precious"]);
    println!("{n_mounted} of 400 were mounted");
    bench.tear_down().await;
}

#[tokio::test]
async fn what_is_mounted_elsewhere_survives() {
    let Some(bench) = bench() else { return };
    let outside = bench.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let root = bench.publish("data", disk).await;
    // Somebody mounted below the volume, twice, and with a space in the name.
    let point = root.join("a b");
    std::fs::create_dir(&point).unwrap();
    for _ in 0..2 {
        rustix::mount::mount_bind(&outside, &point).unwrap();
    }
    // A removal that did not unmount first stops at the mount.
    let error = linux::removal::remove(&bench.directory, "u1").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::CrossesDevices, "{error}");
    assert_eq!(names(&outside), ["precious"]);
    bench.tear_down().await;
    assert_eq!(names(&outside), ["precious"]);
}

#[tokio::test]
async fn a_volume_goes_with_its_mounts_and_its_parts() {
    let Some(bench) = bench() else { return };
    let memory = Volume::EmptyDir { medium: Medium::Memory, size_limit: None };
    let root = bench.publish("data", memory).await;
    bench.sub_path(&root, "a").await.unwrap();
    let other = bench.publish("other", files(FilesPlugin::Secret, &[("a", "1")])).await;
    bench.volumes.unpublish(&pod(), "data").await.unwrap();
    assert!(!root.exists());
    assert_eq!(mounts::below(&bench.directory).unwrap(), [other]);
    for name in ["..", "a/b", ""] {
        let error = bench.volumes.unpublish(&pod(), name).await;
        assert!(matches!(error, Err(Error::Refused(_))), "{name:?}: {error:?}");
    }
    bench.tear_down().await;
}

#[tokio::test]
async fn what_an_earlier_process_published_is_found() {
    let Some(bench) = bench() else { return };
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let host = Volume::HostPath { path: bench.root.path().into(), kind: HostPathKind::Directory };
    bench.publish("data", disk).await;
    bench.publish("config", files(FilesPlugin::ConfigMap, &[("a", "1")])).await;
    let root = bench.publish("host", host).await;
    let part = SubPath {
        volume: "host".to_owned(),
        root,
        container: "app".to_owned(),
        mount: 0,
        path: "made".to_owned(),
    };
    bench.volumes.sub_path(&pod(), part).await.unwrap();
    let config = Config { directory: bench.directory.clone() };
    let later = LocalVolumes::open(config, &World::system()).unwrap();
    let found = later.list(&pod()).await.unwrap();
    assert!(found.iter().all(|it| it.is_published && !it.is_staged && !it.is_attached));
    let names: Vec<String> = found.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["config", "data", "host"]);
    for name in names {
        later.unpublish(&pod(), &name).await.unwrap();
    }
    assert_eq!(later.list(&pod()).await.unwrap(), []);
    assert!(bench.root.path().join("made").is_dir(), "the host keeps its own");
    bench.tear_down().await;
}

#[tokio::test]
async fn depth_is_no_defence() {
    let Some(bench) = bench() else { return };
    let disk = Volume::EmptyDir { medium: Medium::Disk, size_limit: None };
    let root = bench.publish("data", disk).await;
    // Deeper than a path may be long, and than descriptors and stack would last.
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let empty = rustix::fs::Mode::empty();
    let mut directory = rustix::fs::open(&root, flags, empty).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&directory, "deep", rustix::fs::Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, "deep", flags, empty).unwrap();
    }
    drop(directory);
    bench.tear_down().await;
}

#[tokio::test]
async fn a_file_is_read_from_its_volume_alone_and_within_bounds() {
    let Some(bench) = bench() else { return };
    let empty_dir = Volume::EmptyDir { medium: Medium::Memory, size_limit: Some(1 << 20) };
    let path = bench.publish("env", empty_dir).await;
    std::fs::write(bench.root.path().join("secret"), "SECRET='1'").unwrap();
    std::fs::create_dir(path.join("sub")).unwrap();
    std::fs::write(path.join("sub/env"), "A='1'").unwrap();
    symlink("/sub/env", path.join("link")).unwrap();
    symlink(bench.root.path().join("secret"), path.join("out")).unwrap();
    symlink("../../../../../secret", path.join("up")).unwrap();
    let read = async |name: &str, limit: usize| {
        let read = bench.volumes.read_file(&pod(), path.clone(), name, limit).await;
        read.map(|it| String::from_utf8(it.to_vec()).unwrap()).map_err(|it| it.to_string())
    };
    assert_eq!(read("sub/env", 5).await.as_deref(), Ok("A='1'"));
    assert_eq!(read("link", 5).await.as_deref(), Ok("A='1'"));
    assert_eq!(read("link", 4).await, Err("\"link\" has more than 4 bytes".to_owned()));
    for hostile in ["out", "up", "sub", "none", "../../../secret"] {
        assert!(read(hostile, 100).await.is_err(), "{hostile}");
    }
    bench.tear_down().await;
}
