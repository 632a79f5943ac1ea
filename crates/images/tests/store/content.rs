//! Images made in code: layers, documents, and archives of them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use images::{Config, Digest, Store};
use serde_json::{Value, json};

/// How something is compressed.
pub(crate) type Pack = fn(&[u8]) -> Vec<u8>;

/// One image, as a registry or an archive has it.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    /// As they are sent.
    pub(crate) layers: Vec<Vec<u8>>,
    pub(crate) plain_layers: Vec<Vec<u8>>,
}

pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: unpacking needs root");
    }
    is_root
}

pub(crate) fn open(directory: &Path) -> Store {
    Store::open(Config::new(directory)).unwrap()
}

pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": Digest::of(content).to_string(),
        "size": content.len(),
    })
}

impl Made {
    /// `layers`: the lowest first, each with how it is compressed.
    pub(crate) fn new(layers: &[(Vec<u8>, Pack)], command: &str) -> Self {
        let plain_layers: Vec<Vec<u8>> = layers.iter().map(|it| it.0.clone()).collect();
        let diff_ids: Vec<String> =
            plain_layers.iter().map(|it| Digest::of(it).to_string()).collect();
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Cmd": [command], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = serde_json::to_vec(&config).unwrap();
        let layers: Vec<Vec<u8>> = layers.iter().map(|(plain, pack)| pack(plain)).collect();
        let layer_type = "application/vnd.oci.image.layer.v1.tar+gzip";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.iter().map(|it| descriptor(layer_type, it)).collect::<Vec<_>>(),
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        Self { config, manifest, layers, plain_layers }
    }

    /// One gzip'd layer with one file.
    pub(crate) fn simple(text: &str) -> Self {
        Self::new(&[(tar(&[("etc/text", text.as_bytes())]), gzip)], text)
    }

    pub(crate) fn id(&self) -> String {
        Digest::of(&self.config).to_string()
    }

    pub(crate) fn digest(&self) -> String {
        Digest::of(&self.manifest).to_string()
    }

    pub(crate) fn blobs(&self) -> BTreeMap<String, Vec<u8>> {
        let all = self.layers.iter().chain([&self.config, &self.manifest]);
        all.map(|it| (Digest::of(it).to_string(), it.clone())).collect()
    }

    /// Files of an OCI layout. `annotations` are those of its entry in the index.
    pub(crate) fn oci(&self, annotations: Value) -> Vec<(String, Vec<u8>)> {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &self.manifest);
        entry["annotations"] = annotations;
        oci_layout(&[entry], &self.blobs())
    }

    pub(crate) fn docker(&self, tags: &[&str]) -> Vec<(String, Vec<u8>)> {
        let layers: Vec<String> =
            (0..self.layers.len()).map(|n| format!("{n}/layer.tar")).collect();
        let manifest = json!([{"Config": "config.json", "RepoTags": tags, "Layers": layers}]);
        let contents = self.plain_layers.iter().cloned();
        let mut files: Vec<(String, Vec<u8>)> = layers.into_iter().zip(contents).collect();
        files.push(("config.json".to_owned(), self.config.clone()));
        files.push(("manifest.json".to_owned(), serde_json::to_vec(&manifest).unwrap()));
        files
    }
}

pub(crate) fn oci_layout(
    entries: &[Value],
    blobs: &BTreeMap<String, Vec<u8>>,
) -> Vec<(String, Vec<u8>)> {
    let index = json!({"schemaVersion": 2, "manifests": entries});
    let mut files: Vec<(String, Vec<u8>)> = blobs
        .iter()
        .map(|(digest, content)| (format!("blobs/{}", digest.replace(':', "/")), content.clone()))
        .collect();
    files.push(("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    files.push(("index.json".to_owned(), serde_json::to_vec(&index).unwrap()));
    files
}

/// Writes an archive of the files below `directory`, packed with `pack`.
pub(crate) fn archive(
    directory: &Path,
    files: &[(String, Vec<u8>)],
    pack: Pack,
) -> std::path::PathBuf {
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, content)| (path.as_str(), content.as_slice())).collect();
    let path = directory.join("archive");
    std::fs::write(&path, pack(&tar(&files))).unwrap();
    path
}

pub(crate) fn plain(content: &[u8]) -> Vec<u8> {
    content.to_vec()
}
