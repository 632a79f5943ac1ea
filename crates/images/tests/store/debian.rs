//! Debian's own registry on loopback, and an image of its busybox.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use images::Digest;
use node_api::Images as _;

use crate::content::{Made, gzip, is_root, open};

/// The statically linked one, on the path like the registry.
fn busybox() -> Option<Vec<u8>> {
    let path = std::env::var_os("PATH")?;
    let mut candidates = std::env::split_paths(&path).map(|it| it.join("busybox"));
    candidates.find_map(|it| fs::read(it).ok())
}

struct Registry {
    child: Child,
    host: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    /// `None` where it is not installed.
    fn start(directory: &Path) -> Option<Self> {
        let config = directory.join("config.yml");
        let root = directory.join("registry");
        let text = format!(
            "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {}\n\
             http:\n  addr: 127.0.0.1:0\n",
            root.display()
        );
        fs::write(&config, text).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let host = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the registry ended");
            if let Some((_, rest)) = line.split_once("listening on ") {
                let end = rest.find([' ', '"', ',']).unwrap_or(rest.len());
                break rest[..end].trim().to_owned();
            }
        };
        // It must not stop for want of a reader.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(Self { child, host })
    }

    /// Status and the header `location`.
    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let location = answer.lines().find_map(|it| it.strip_prefix("Location: "));
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, location.unwrap_or_default().to_owned())
    }

    fn push(&self, path: &str, tag: &str, made: &Made) {
        for blob in made.layers.iter().chain([&made.config]) {
            let octets = "application/octet-stream";
            let (status, location) =
                self.send("POST", &format!("/v2/{path}/blobs/uploads/"), octets, b"");
            assert_eq!(status, 202);
            let place = location.split_once(&self.host).map_or(location.as_str(), |it| it.1);
            let separator = if place.contains('?') { '&' } else { '?' };
            let place = format!("{place}{separator}digest={}", Digest::of(blob));
            assert_eq!(self.send("PUT", &place, octets, blob).0, 201);
        }
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let place = format!("/v2/{path}/manifests/{tag}");
        assert_eq!(self.send("PUT", &place, kind, &made.manifest).0, 201);
    }
}

#[tokio::test]
async fn busybox_is_pulled_from_debians_registry_and_runs() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(directory.path()) else {
        println!("SKIPPED: docker-registry is not installed");
        return;
    };
    let Some(busybox) = busybox() else {
        println!("SKIPPED: busybox-static is not installed");
        return;
    };
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(busybox.len() as u64);
    builder.append_data(&mut header, "bin/busybox", busybox.as_slice()).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "bin/sh", "busybox").unwrap();
    let made = Made::new(&[(builder.into_inner().unwrap(), gzip)], "/bin/sh");
    registry.push("test/busybox", "1", &made);
    let store = open(&directory.path().join("images"));
    let name = format!("{}/test/busybox", registry.host);
    let image = store.pull(&format!("{name}:1"), vec![]).await.unwrap();
    assert_eq!(image.id.as_str(), made.id());
    let root = store.layers(&image.id).await.unwrap().directories.remove(0);
    let script = ["/bin/sh", "-c", "echo from $0", "busybox"];
    let output = Command::new("chroot").arg(&root).args(script).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "from busybox\n");
    store.pull(&format!("{name}@{}", made.digest()), vec![]).await.unwrap();
    let err = store.pull(&format!("{name}:2"), vec![]).await.unwrap_err().to_string();
    assert!(err.ends_with(&format!("{name}:2: not found")), "{err}");
    let digest = Digest::of(b"other");
    let err = store.pull(&format!("{name}@{digest}"), vec![]).await.unwrap_err().to_string();
    assert!(err.ends_with("not found"), "{err}");
}
