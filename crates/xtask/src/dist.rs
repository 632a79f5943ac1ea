//! `cargo xtask dist`: what somebody needs who does not build: the binary, its unit for systemd,
//! completions, the documents, and a checksum.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{output, run};
use crate::say;

const SHELLS: &[&str] = &["bash", "zsh", "fish"];

pub(crate) fn make(root: &Path) -> Result<()> {
    run(Command::new("cargo").args(["build", "--release", "--bin", "xebec"]).current_dir(root))?;
    let built = root.join("target/release/xebec");
    let version = output(Command::new(&built).args(["version", "-o", "json"]))?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    let version = version["version"].as_str().context("the binary says its version")?;
    let name = format!("xebec-{version}-linux-{}", std::env::consts::ARCH);
    let folder = root.join("target/dist").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("docs"))?;
    copy(&built, &folder.join("xebec"))?;
    run(Command::new("strip").arg(folder.join("xebec")))?;
    for file in ["README.md", "LICENSE", "dist/xebec.service"] {
        let from = root.join(file);
        copy(&from, &folder.join(from.file_name().unwrap_or_default()))?;
    }
    for page in pages(&root.join("docs"))? {
        copy(&page, &folder.join("docs").join(page.file_name().unwrap_or_default()))?;
    }
    for shell in SHELLS {
        let text = output(Command::new(&built).args(["completion", shell]))?;
        fs::write(folder.join(format!("xebec.{shell}")), text)?;
    }
    pack(&folder, &name)
}

/// The same files make the same tarball.
fn pack(folder: &Path, name: &str) -> Result<()> {
    let dist = folder.parent().context("the folder is below target/dist")?;
    let tarball = format!("{name}.tar.gz");
    run(Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["-czf", &tarball, name])
        .current_dir(dist))?;
    let sum = output(Command::new("sha256sum").arg(&tarball).current_dir(dist))?;
    fs::write(dist.join(format!("{tarball}.sha256")), &sum)?;
    say(&format!("made {}", dist.join(tarball).display()));
    Ok(())
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "md") {
            pages.push(path);
        }
    }
    Ok(pages)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}
