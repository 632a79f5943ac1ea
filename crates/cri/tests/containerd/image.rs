//! An image of busybox, as an archive that containerd imports and as blobs that a registry serves.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};

const BUSYBOX: &str = "/bin/busybox";
const TOOLS: &[&str] = &[
    "sh", "cat", "echo", "sleep", "true", "printf", "stty", "nc", "seq", "head", "ls", "test",
    "id", "wc", "kill",
];

pub(crate) struct Image {
    pub(crate) layer: Vec<u8>,
    pub(crate) config: Vec<u8>,
}

pub(crate) fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{hex}")
}

impl Image {
    pub(crate) fn busybox() -> Self {
        Self::with("PATH=/bin")
    }

    /// With this environment: another one is another image.
    pub(crate) fn with(env: &str) -> Self {
        let layer = layer();
        let config = format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["{env}"],"Entrypoint":["/bin/sleep","1000000"]}},"rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
            digest(&layer)
        );
        Self { layer, config: config.into_bytes() }
    }

    /// As `docker save` writes it.
    pub(crate) fn archive(&self, names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|it| format!("{it:?}")).collect();
        let manifest = format!(
            r#"[{{"Config":"config.json","RepoTags":[{}],"Layers":["layer.tar"]}}]"#,
            names.join(",")
        );
        let mut archive = tar::Builder::new(Vec::new());
        file(&mut archive, "config.json", &self.config, 0o644);
        file(&mut archive, "layer.tar", &self.layer, 0o644);
        file(&mut archive, "manifest.json", manifest.as_bytes(), 0o644);
        archive.into_inner().unwrap()
    }
}

fn layer() -> Vec<u8> {
    let mut layer = tar::Builder::new(Vec::new());
    for name in ["bin/", "etc/", "tmp/", "dev/", "proc/", "sys/"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        layer.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    file(&mut layer, "bin/busybox", &std::fs::read(BUSYBOX).unwrap(), 0o755);
    for tool in TOOLS {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        layer.append_link(&mut header, format!("bin/{tool}"), "busybox").unwrap();
    }
    file(&mut layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n", 0o644);
    let mut bytes = layer.into_inner().unwrap();
    bytes.flush().unwrap();
    bytes
}

fn file(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8], mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content).unwrap();
}
