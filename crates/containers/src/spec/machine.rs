//! What a configuration needs to know about the machine.

use std::io;
use std::path::Path;

use rustix::fs::FileType;

use super::Device;
use super::seccomp::docker::parse_kernel;

/// Taken once per process, or when devices have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Major and minor version.
    pub kernel: (u32, u32),
    /// Those of `/dev`; privileged containers get them all.
    pub devices: Vec<Device>,
}

/// Folders of `/dev` that are file systems of their own, or not devices.
const SKIPPED: &[&str] = &["pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"];
const DEPTH_MAX: usize = 4;
const DEVICES_MAX: usize = 4096;

impl Machine {
    pub fn detect() -> io::Result<Self> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut devices = Vec::new();
        collect(Path::new("/dev"), DEPTH_MAX, &mut devices)?;
        devices.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { kernel: parse_kernel(&release).unwrap_or((0, 0)), devices })
    }
}

fn collect(directory: &Path, depth: usize, devices: &mut Vec<Device>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = entry.path();
        // Devices come and go.
        let Ok(stat) = rustix::fs::lstat(&path) else { continue };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth > 0 && !SKIPPED.iter().any(|it| name == *it) => {
                collect(&path, depth - 1, devices)?;
                continue;
            }
            FileType::CharacterDevice => 'c',
            FileType::BlockDevice => 'b',
            _ => continue,
        };
        let Some(path) = path.to_str() else { continue };
        // The container has its own.
        if path == "/dev/console" || path == "/dev/ptmx" || devices.len() >= DEVICES_MAX {
            continue;
        }
        devices.push(device(path, kind, &stat));
    }
    Ok(())
}

fn device(path: &str, kind: char, stat: &rustix::fs::Stat) -> Device {
    Device {
        path: path.to_owned(),
        kind,
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
        file_mode: stat.st_mode & 0o777,
    }
}

/// The device at a path of the host, under its path in a container; `None` if there is none. Links
/// are followed.
pub(super) fn read_device(host: &Path, inside: &str) -> Option<Device> {
    let stat = rustix::fs::stat(host).ok()?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => 'c',
        FileType::BlockDevice => 'b',
        _ => return None,
    };
    Some(device(inside, kind, &stat))
}
