//! The documents of an image: index, manifest and configuration, in OCI's and docker's dialects,
//! which differ only in media types. Pure.

use std::collections::BTreeMap;

use node_api::images::ImageConfig;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// More layers than any builder makes; overlayfs itself takes 500.
const LAYERS_MAX: usize = 500;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    #[serde(default)]
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) variant: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    /// The lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

/// What stands under a tag.
#[derive(Debug)]
pub(crate) enum Document {
    Index(Index),
    Manifest(Manifest),
}

/// By its fields: the media type in the document is optional, and the one in the header is often
/// wrong.
pub(crate) fn parse_document(content: &[u8]) -> Result<Document, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape {
        schema_version: Option<u32>,
        config: Option<serde::de::IgnoredAny>,
        layers: Option<serde::de::IgnoredAny>,
        manifests: Option<serde::de::IgnoredAny>,
    }
    let wrong = |err| format!("its manifest cannot be read: {err}");
    let shape: Shape = serde_json::from_slice(content).map_err(wrong)?;
    match (shape.schema_version, shape.config, shape.layers, shape.manifests) {
        (Some(1), ..) => {
            Err("its manifest has docker's schema 1, which is not supported: push it \
                              again with a current tool"
                .to_owned())
        }
        // A document that is both could be read as one here and as the other elsewhere.
        (_, None, None, Some(_)) => {
            serde_json::from_slice(content).map(Document::Index).map_err(wrong)
        }
        (_, Some(_), Some(_), None) => {
            let manifest: Manifest = serde_json::from_slice(content).map_err(wrong)?;
            validate_manifest(&manifest)?;
            Ok(Document::Manifest(manifest))
        }
        _ => Err("its manifest is neither an image nor an index of images".to_owned()),
    }
}

fn validate_manifest(manifest: &Manifest) -> Result<(), String> {
    let media_type = &manifest.config.media_type;
    if ![OCI_CONFIG, DOCKER_CONFIG, ""].contains(&media_type.as_str()) {
        return Err(format!("it is not a container image but {media_type}"));
    }
    if manifest.layers.len() > LAYERS_MAX {
        return Err(format!("it has more than {LAYERS_MAX} layers"));
    }
    match manifest.layers.iter().find(|it| it.media_type.contains("+encrypted")) {
        Some(layer) => Err(format!("its layer {} is encrypted", layer.digest)),
        None => Ok(()),
    }
}

/// This machine, in the words of images.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

impl Index {
    /// The manifest for this machine. Entries without a platform fit every machine but are taken
    /// last.
    pub(crate) fn choose(&self, architecture: &str) -> Result<&Descriptor, String> {
        let is_manifest = |it: &&Descriptor| {
            [OCI_MANIFEST, DOCKER_MANIFEST, ""].contains(&it.media_type.as_str())
        };
        let fits = |platform: &Platform| {
            platform.os == "linux"
                && platform.architecture == architecture
                // Later variants of arm64 and amd64 may need more than this machine has.
                && ["", "v1", "v8"].contains(&platform.variant.as_str())
        };
        let manifests = || self.manifests.iter().filter(is_manifest);
        manifests()
            .find(|it| it.platform.as_ref().is_some_and(fits))
            .or_else(|| manifests().find(|it| it.platform.is_none()))
            .ok_or_else(|| {
                format!(
                    "no match for platform linux/{architecture} in manifest, there is {}",
                    self.platforms()
                )
            })
    }

    fn platforms(&self) -> String {
        let names: Vec<String> = self
            .manifests
            .iter()
            .filter_map(|it| it.platform.as_ref())
            .filter(|it| it.os != "unknown")
            .map(|it| format!("{}/{}", it.os, it.architecture))
            .collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// An image's configuration, as far as we read it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConfigFile {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) config: Option<RunConfig>,
    #[serde(default)]
    pub(crate) rootfs: RootFs,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    /// The lowest first.
    #[serde(default)]
    pub(crate) diff_ids: Vec<Digest>,
}

/// Docker writes `null` where it means nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RunConfig {
    pub(crate) user: Option<String>,
    pub(crate) env: Option<Vec<String>>,
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) cmd: Option<Vec<String>>,
    pub(crate) working_dir: Option<String>,
    pub(crate) stop_signal: Option<String>,
    pub(crate) volumes: Option<BTreeMap<String, serde_json::Value>>,
    pub(crate) exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

impl ConfigFile {
    pub(crate) fn parse(content: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(content)
            .map_err(|err| format!("its configuration cannot be read: {err}"))
    }

    /// That it is for this machine and speaks of as many layers as the manifest.
    pub(crate) fn validate(&self, n_layers: usize) -> Result<(), String> {
        let (os, arch) = (self.os.as_str(), self.architecture.as_str());
        if !["", "linux"].contains(&os) || !["", architecture()].contains(&arch) {
            let wanted = architecture();
            return Err(format!(
                "no match for platform linux/{wanted} in manifest, there is {os}/{arch}"
            ));
        }
        let n_ids = self.rootfs.diff_ids.len();
        match n_ids == n_layers {
            true => Ok(()),
            false => Err(format!("it has {n_layers} layers, but its configuration says {n_ids}")),
        }
    }

    pub(crate) fn into_image_config(self) -> ImageConfig {
        let config = self.config.unwrap_or_default();
        let keys = |map: Option<BTreeMap<String, serde_json::Value>>| {
            map.unwrap_or_default().into_keys().collect()
        };
        ImageConfig {
            user: config.user.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            working_dir: config.working_dir.unwrap_or_default(),
            stop_signal: config.stop_signal.filter(|it| !it.is_empty()),
            volumes: keys(config.volumes),
            exposed_ports: keys(config.exposed_ports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfigFile, Document, parse_document};

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(document: &str, expected: &str) {
        let document = document.replace("HEX", HEX);
        let actual = match parse_document(document.as_bytes()) {
            Ok(Document::Index(index)) => match index.choose("amd64") {
                Ok(chosen) => format!("index: {}", chosen.size),
                Err(problem) => problem,
            },
            Ok(Document::Manifest(manifest)) => format!("manifest: {}", manifest.layers.len()),
            Err(problem) => problem,
        };
        assert_eq!(actual, expected);
    }

    #[test]
    fn documents_are_told_apart_by_their_fields() {
        check(
            r#"{"schemaVersion":2,"config":{"digest":"sha256:HEX"},"layers":[{"digest":"sha256:HEX"}]}"#,
            "manifest: 1",
        );
        check(
            r#"{"schemaVersion":1,"fsLayers":[]}"#,
            "its manifest has docker's schema 1, which is not supported: push it again with a current tool",
        );
        check(
            r#"{"config":{"digest":"sha256:HEX"},"layers":[],"manifests":[]}"#,
            "its manifest is neither an image nor an index of images",
        );
        check(
            r#"{"config":{"digest":"sha256:HEX","mediaType":"application/vnd.cncf.helm.config.v1+json"},"layers":[]}"#,
            "it is not a container image but application/vnd.cncf.helm.config.v1+json",
        );
        check(
            r#"{"config":{"digest":"sha256:HEX"},"layers":[{"digest":"sha256:HEX","mediaType":"x.tar+gzip+encrypted"}]}"#,
            &format!("its layer sha256:{HEX} is encrypted"),
        );
        let digest = parse_document(br#"{"config":{"digest":"sha256:../../x"},"layers":[]}"#);
        assert!(digest.unwrap_err().contains("invalid checksum digest format"));
    }

    #[test]
    fn an_index_gives_the_manifest_for_the_machine() {
        let entry = |size: u32, platform: &str| {
            format!(r#"{{"digest":"sha256:{HEX}","size":{size}{platform}}}"#)
        };
        let platform = |os: &str, architecture: &str, variant: &str| {
            format!(
                r#","platform":{{"os":"{os}","architecture":"{architecture}","variant":"{variant}"}}"#
            )
        };
        let index = |entries: &[String]| format!(r#"{{"manifests":[{}]}}"#, entries.join(","));
        let arm = entry(1, &platform("linux", "arm64", "v8"));
        let new = entry(2, &platform("linux", "amd64", "v3"));
        let amd = entry(3, &platform("linux", "amd64", ""));
        let windows = entry(4, &platform("windows", "amd64", ""));
        let attestation = entry(5, &platform("unknown", "unknown", ""));
        let any = entry(6, "");
        check(&index(&[arm.clone(), new, windows.clone(), amd.clone()]), "index: 3");
        check(&index(&[any.clone(), amd]), "index: 3");
        check(&index(&[arm.clone(), any]), "index: 6");
        check(
            &index(&[arm, windows, attestation]),
            "no match for platform linux/amd64 in manifest, there is linux/arm64, windows/amd64",
        );
        check(&index(&[]), "no match for platform linux/amd64 in manifest, there is none");
    }

    #[test]
    fn nulls_in_a_configuration_mean_nothing() {
        let file = br#"{"config":{"Cmd":null,"Env":["A=1"],"Volumes":{"/data":{}},"StopSignal":""},"extra":1}"#;
        let config = ConfigFile::parse(file).unwrap().into_image_config();
        assert_eq!((config.command.len(), config.env.len()), (0, 1));
        assert_eq!(config.volumes, ["/data"]);
        assert_eq!(config.stop_signal, None);
    }
}
