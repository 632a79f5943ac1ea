//! The text of a seccomp profile on this node. Whoever may name one in a pod is not trusted with
//! the rest of the disk: it is a regular file below the folder of profiles, no link is followed,
//! and it has a size.

use std::io::{self, Read as _};
use std::path::Path;

use linux::rooted::Root;
use node_api::Error;
use node_api::containers::{Seccomp, SeccompFile};

/// Docker's own profile has 20 KiB.
const PROFILE_MAX: u64 = 1 << 20;

pub(super) async fn read(seccomp: &Seccomp) -> Result<Option<String>, Error> {
    let Seccomp::Localhost(SeccompFile { directory, name }) = seccomp else { return Ok(None) };
    let refuse =
        |err: &io::Error| Error::Refused(format!("reading seccomp profile {name:?}: {err}"));
    let (folder, file) = (directory.clone(), name.clone());
    let text = tokio::task::spawn_blocking(move || read_below(&folder, &file)).await;
    text.unwrap_or_else(|err| Err(io::Error::other(err))).map(Some).map_err(|err| refuse(&err))
}

fn read_below(directory: &Path, name: &str) -> io::Result<String> {
    let file = Root::open(directory)?.open_regular(name)?;
    let mut text = String::new();
    file.take(PROFILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > PROFILE_MAX {
        return Err(io::Error::other(format!("it is longer than {PROFILE_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn records_of_an_older_version_are_read() {
        for text in
            [r#"{"Localhost":"/s/a.json"}"#, r#"{"Localhost":{"directory":"/s","name":"a.json"}}"#]
        {
            let expected = SeccompFile { directory: "/s".into(), name: "a.json".to_owned() };
            let read: Seccomp = serde_json::from_str(text).unwrap();
            assert_eq!(read, Seccomp::Localhost(expected));
        }
    }

    #[test]
    fn a_profile_is_a_short_regular_file_below_its_folder() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("seccomp");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(directory.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.join("sub/a.json"), "{}").unwrap();
        let long = vec![b' '; usize::try_from(PROFILE_MAX).unwrap() + 1];
        std::fs::write(folder.join("long"), long).unwrap();
        symlink("../secret", folder.join("link")).unwrap();
        symlink("/", folder.join("root")).unwrap();
        symlink("/dev/zero", folder.join("zero")).unwrap();
        let pipe = rustix::fs::CWD;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(pipe, folder.join("pipe"), fifo, mode, 0).unwrap();
        assert_eq!(read_below(&folder, "sub/a.json").unwrap(), "{}");
        for name in [
            "../secret",
            "/etc/passwd",
            "link",
            "root/etc/passwd",
            "zero",
            "pipe",
            "long",
            "sub",
            "",
            ".",
            "..",
            "../../dev/zero",
            "sub/../../secret",
            "missing",
        ] {
            assert!(read_below(&folder, name).is_err(), "{name:?} was read");
        }
    }
}
