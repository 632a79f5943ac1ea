//! Files of networks that pods of others were in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Error, names};

type IsLeft = fn(&str) -> bool;

/// Folders, and which of their entries are left.
const FOLDERS: [(&str, IsLeft); 4] = [
    ("etc/cni/net.d", names::is_configuration),
    ("var/lib/cni", |it| it == "flannel"),
    ("var/lib/cni/networks", names::is_network),
    ("var/lib/cni/results", names::is_result),
];
/// Left as a whole.
const WHOLE: &str = "run/flannel";

/// Below `root`.
pub(super) fn find(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for (folder, is_left) in FOLDERS {
        let folder = root.join(folder);
        let look = |err| Error::Look(folder.clone(), err);
        let entries = match fs::read_dir(&folder) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(look)?,
        };
        for entry in entries {
            let entry = entry.map_err(look)?;
            if entry.file_name().to_str().is_some_and(is_left) {
                found.push(entry.path());
            }
        }
    }
    let whole = root.join(WHOLE);
    if fs::symlink_metadata(&whole).is_ok() {
        found.push(whole);
    }
    found.sort();
    Ok(found)
}

/// A link to something else goes, and not what it is to.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(it) if it.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(err) => Err(err),
    };
    match removed {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_networks_are_found_and_those_of_podman_stay() {
        let root = tempfile::tempdir().unwrap();
        let folders = [
            "etc/cni/net.d",
            "run/flannel",
            "var/lib/cni/flannel",
            "var/lib/cni/networks/cbr0",
            "var/lib/cni/networks/podman",
            "var/lib/cni/results",
        ];
        folders.iter().for_each(|it| fs::create_dir_all(root.path().join(it)).unwrap());
        let files = [
            "etc/cni/net.d/10-flannel.conflist",
            "etc/cni/net.d/87-podman.conflist",
            "run/flannel/subnet.env",
            "var/lib/cni/results/cbr0-1-eth0",
        ];
        files.iter().for_each(|it| fs::write(root.path().join(it), "").unwrap());
        let found = find(root.path()).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|it| it.strip_prefix(root.path()).unwrap().to_str().unwrap())
            .collect();
        let expected = [
            "etc/cni/net.d/10-flannel.conflist",
            "run/flannel",
            "var/lib/cni/flannel",
            "var/lib/cni/networks/cbr0",
            "var/lib/cni/results/cbr0-1-eth0",
        ];
        assert_eq!(shown, expected);
        for path in &found {
            remove(path).unwrap();
            remove(path).unwrap();
        }
        assert_eq!(find(root.path()).unwrap(), [] as [PathBuf; 0]);
        assert!(root.path().join("etc/cni/net.d/87-podman.conflist").exists());
        assert_eq!(find(Path::new("/nowhere")).unwrap(), [] as [PathBuf; 0]);
    }
}
