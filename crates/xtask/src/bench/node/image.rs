//! Images for the benchmark, made from files of this machine, and how long unpacking one takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::usage::now;
use super::containerd::Containerd;
use super::machine;
use super::size;
use crate::process::output;
use crate::say;

/// Of the image that is unpacked, at least.
const BYTES: u64 = 200_000_000;
const RUNS: usize = 3;
const LARGE: &str = "localhost/large:1";

/// An OCI archive with one compressed layer, under each of the names.
pub(super) fn archive(root: &Path, command: &[&str], names: &[&str]) -> Result<PathBuf> {
    let folder = root.parent().context("a root is in a folder")?;
    let layout = folder.join("layout");
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    fs::write(layout.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    let plain = folder.join("layer.tar");
    output(Command::new("tar").arg("-C").arg(root).arg("-cf").arg(&plain).arg("."))?;
    let uncompressed = sha256(&plain)?;
    output(Command::new("gzip").args(["-1", "-f"]).arg(&plain))?;
    let layer = blob(&layout, &folder.join("layer.tar.gz"))?;
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": command},
        "rootfs": {"type": "layers", "diff_ids": [uncompressed]},
    });
    let config = text_blob(&layout, folder, &config.to_string())?;
    let of = |kind: &str, blob: &Blob| {
        let kind = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": kind, "digest": blob.digest, "size": blob.size})
    };
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": of("config.v1+json", &config), "layers": [of("layer.v1.tar+gzip", &layer)],
    });
    let manifest = text_blob(&layout, folder, &manifest.to_string())?;
    let named = names.iter().map(|name| {
        let mut entry = of("manifest.v1+json", &manifest);
        entry["annotations"] = json!({
            "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name,
        });
        entry
    });
    let index = json!({"schemaVersion": 2, "manifests": named.collect::<Vec<_>>()});
    fs::write(layout.join("index.json"), index.to_string())?;
    let archive = folder.join("image.tar");
    output(Command::new("tar").arg("-C").arg(&layout).arg("-cf").arg(&archive).arg("."))?;
    Ok(archive)
}

struct Blob {
    digest: String,
    size: u64,
}

fn text_blob(layout: &Path, folder: &Path, text: &str) -> Result<Blob> {
    let path = folder.join("blob");
    fs::write(&path, text)?;
    blob(layout, &path)
}

/// Moves the file to where its digest says.
fn blob(layout: &Path, file: &Path) -> Result<Blob> {
    let (digest, size) = (sha256(file)?, fs::metadata(file)?.len());
    let name = digest.trim_start_matches("sha256:");
    fs::rename(file, layout.join("blobs/sha256").join(name))?;
    Ok(Blob { digest, size })
}

fn sha256(path: &Path) -> Result<String> {
    let text = output(Command::new("sha256sum").arg(path))?;
    let digest = text.split_whitespace().next().context("sha256sum prints a digest")?;
    Ok(format!("sha256:{digest}"))
}

/// Ours beside `ctr image import`, each into an empty store.
pub(super) fn unpack(xebec: &Path, containerd: Option<&Containerd>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    fill(&root)?;
    let archive = archive(&root, &["true"], &[LARGE])?;
    let megabytes = size(&root) as f64 / 1e6;
    let ours = (0..RUNS).map(|_| load(xebec, &archive)).collect::<Result<Vec<_>>>()?;
    let ours = super::median(ours);
    say(&format!("unpacking an image of {megabytes:.0} MB, median of {RUNS}: {ours:.2} s"));
    let Some(containerd) = containerd else { return Ok(()) };
    let theirs = (0..RUNS).map(|_| import(containerd, &archive)).collect::<Result<Vec<_>>>()?;
    let theirs = super::median(theirs);
    let ratio = theirs / ours;
    say(&format!("the same by `ctr image import`: {theirs:.2} s, {ratio:.1}x ours (goal: 1.5x)"));
    Ok(())
}

/// Programs and libraries of this machine, as images have them.
fn fill(root: &Path) -> Result<()> {
    let mut copied = 0;
    for source in ["/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/share"] {
        let target = root.join(source.trim_start_matches('/'));
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(source)?.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                copied += fs::copy(entry.path(), target.join(entry.file_name()))?;
            }
            if copied > BYTES {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn load(xebec: &Path, archive: &Path) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let started = now();
    let mut command = Command::new(xebec);
    command.args(["image", "load", "--data-dir"]).arg(folder.path().join("data")).arg(archive);
    output(command.env("XEBEC_REGISTRY", folder.path().join("clusters")).stdin(Stdio::null()))?;
    Ok(started.elapsed().as_secs_f64())
}

fn import(containerd: &Containerd, archive: &Path) -> Result<f64> {
    let mut namespace = machine::make_namespace()?;
    let imported = containerd.start(&namespace).and_then(|daemon| {
        let started = now();
        output(&mut daemon.import(archive))?;
        Ok(started.elapsed().as_secs_f64())
    });
    namespace.kill()?;
    namespace.wait()?;
    imported
}
