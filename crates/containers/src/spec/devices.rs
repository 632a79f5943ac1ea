//! Devices of the host that a container asks for: which numbers they have now.

use std::path::Path;

use node_api::Error;
use node_api::containers::Device as Wanted;

use super::machine::read_device;
use super::{Device, DeviceRule};

/// A directory holds no more.
const DEVICES_MAX: usize = 256;

/// A device and what may be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub device: Device,
    pub rule: DeviceRule,
}

/// A directory stands for the devices directly in it. Blocks for a moment.
pub fn find(wanted: &[Wanted]) -> Result<Vec<Allowed>, Error> {
    let mut found = Vec::new();
    for wanted in wanted {
        find_one(wanted, &mut found)?;
    }
    Ok(found)
}

fn find_one(wanted: &Wanted, found: &mut Vec<Allowed>) -> Result<(), Error> {
    let host = &wanted.host_path;
    let refuse = |why: &str| Error::Refused(format!("device {:?}: {why}", host.display()));
    let is_access = |it: char| "rwm".contains(it);
    if wanted.permissions.is_empty() || !wanted.permissions.chars().all(is_access) {
        return Err(refuse("its permissions are not letters of rwm"));
    }
    if let Some(device) = read_device(host, &wanted.container_path) {
        found.push(allowed(device, wanted));
        return Ok(());
    }
    let entries = std::fs::read_dir(host).map_err(|_| refuse("there is no such device"))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let inside = Path::new(&wanted.container_path).join(&name);
        let Some(inside) = inside.to_str() else { continue };
        if let Some(device) = read_device(&entry.path(), inside) {
            found.push(allowed(device, wanted));
        }
        if found.len() > DEVICES_MAX {
            return Err(refuse("there are too many devices"));
        }
    }
    Ok(())
}

fn allowed(device: Device, wanted: &Wanted) -> Allowed {
    let rule = DeviceRule {
        allow: true,
        kind: device.kind,
        major: Some(device.major),
        minor: Some(device.minor),
        access: wanted.permissions.clone(),
    };
    Allowed { device, rule }
}
