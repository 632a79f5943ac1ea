//! The content of `/dev`: made in a file system that nobody sees yet.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags};

use super::refusal::{OrRefuse as _, Refusal, Result};
use crate::spec::{Device, Spec};

const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

pub(super) fn populate(dev: BorrowedFd<'_>, spec: &Spec) -> Result<()> {
    for (name, target) in LINKS {
        rustix::fs::symlinkat(*target, dev, *name).or_refuse(|| format!("link /dev/{name}"))?;
    }
    for device in &spec.linux.devices {
        make(dev, device)?;
    }
    if spec.process.terminal {
        // The terminal is bound over it.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(dev, "console", flags, Mode::from_raw_mode(0o620))
            .or_refuse(|| "make /dev/console".to_owned())?;
    }
    Ok(())
}

fn make(dev: BorrowedFd<'_>, device: &Device) -> Result<()> {
    let doing = || format!("make device {}", device.path);
    let name = device
        .path
        .strip_prefix("/dev/")
        .filter(|it| it.split('/').all(|it| !it.is_empty() && it != "." && it != ".."));
    let Some(name) = name else {
        return Err(Refusal(format!("device {:?} is not below /dev", device.path)));
    };
    // Nobody else is in this file system, so its paths can be trusted.
    for (end, _) in name.match_indices('/') {
        match rustix::fs::mkdirat(dev, &name[..end], Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(err) => return Err(err).or_refuse(doing),
        }
    }
    let kind = if device.kind == 'b' { FileType::BlockDevice } else { FileType::CharacterDevice };
    let mode = Mode::from_raw_mode(device.file_mode);
    let number = rustix::fs::makedev(device.major, device.minor);
    rustix::fs::mknodat(dev, name, kind, mode, number).or_refuse(doing)?;
    // The umask has had its part.
    rustix::fs::chmodat(dev, name, mode, rustix::fs::AtFlags::empty()).or_refuse(doing)
}
