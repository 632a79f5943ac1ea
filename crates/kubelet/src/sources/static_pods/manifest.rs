//! A file to a static pod. Pure.

use std::path::Path;

use api::Resource as _;
use apimachinery::FieldErrors;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use sha2::{Digest as _, Sha256};

use crate::sources::mirror::{ANNOTATION_HASH, ANNOTATION_SEEN, ANNOTATION_SOURCE};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("reading")]
    Read {
        #[source]
        source: std::io::Error,
    },
    #[error("parsing as YAML")]
    ParseYaml(#[source] Box<serde_saphyr::Error>),
    #[error("decoding as a Pod")]
    Decode(#[source] serde_json::Error),
    #[error("it is a {kind:?}, not a v1 Pod")]
    Kind { kind: String },
    #[error("it has no name")]
    Unnamed,
    #[error("{0}")]
    Invalid(String),
}

pub(super) fn parse(
    bytes: &[u8],
    file: &Path,
    node_name: &str,
    seen: Timestamp,
) -> Result<Pod, Error> {
    let text = String::from_utf8_lossy(bytes);
    let value: serde_json::Value =
        serde_saphyr::from_str(&text).map_err(|err| Error::ParseYaml(Box::new(err)))?;
    let kind = value.get("kind").and_then(|it| it.as_str()).unwrap_or_default();
    if kind != "Pod" {
        return Err(Error::Kind { kind: kind.to_owned() });
    }
    let mut pod = Pod::decode(value.to_string().as_bytes()).map_err(Error::Decode)?;
    let name = pod.metadata.name.clone().filter(|it| !it.is_empty()).ok_or(Error::Unnamed)?;
    pod.apply_defaults();
    complete(&mut pod, &name, file, node_name);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_SEEN.to_owned(), seen.to_string());
    let mut errors = FieldErrors::default();
    pod.validate_create(&mut errors);
    if !errors.is_empty() {
        let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(Error::Invalid(problems.join("; ")));
    }
    Ok(pod)
}

/// The uid follows from the content, the node and the file: the same pod after a restart, another
/// one after a change.
fn complete(pod: &mut Pod, name: &str, file: &Path, node_name: &str) {
    let mut hash = Sha256::new();
    hash.update(node_name);
    hash.update([0]);
    hash.update(file.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(pod.encode());
    let hash: String = hash.finalize().iter().take(16).map(|it| format!("{it:02x}")).collect();
    let meta = &mut pod.metadata;
    meta.name = Some(format!("{name}-{}", node_name.to_lowercase()));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    meta.uid.get_or_insert_with(|| hash.clone());
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_HASH.to_owned(), hash);
    annotations.insert(ANNOTATION_SOURCE.to_owned(), "file".to_owned());
    pod.status = None;
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    // Static pods belong to the node, whatever is said of it.
    let everything = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let tolerations = spec.tolerations.get_or_insert_default();
    if !tolerations.contains(&everything) {
        tolerations.push(everything);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::parse;

    fn check(manifest: &str, expected: Result<&str, &str>) {
        let pod = parse(manifest.as_bytes(), Path::new("a.yaml"), "n1", Timestamp::UNIX_EPOCH);
        let text = pod.map(|it| {
            let meta = it.metadata;
            format!("{}/{}", meta.namespace.unwrap(), meta.name.unwrap())
        });
        let text = text.map_err(|err| stdx::error_chain(&err));
        assert_eq!(text.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_manifest_gets_the_nodes_name_and_a_namespace() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    image: i\n";
        check(pod, Ok("default/web-n1"));
        let json = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"kube-system"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        check(json, Ok("kube-system/a-n1"));
        check("kind: ConfigMap\n", Err("it is a \"ConfigMap\", not a v1 Pod"));
        check("kind: Pod\n", Err("it has no name"));
    }

    #[test]
    fn the_uid_follows_the_content() {
        let uid = |image: &str| {
            let text = format!(
                "kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
            );
            let pod = parse(text.as_bytes(), Path::new("a"), "n", Timestamp::UNIX_EPOCH).unwrap();
            pod.metadata.uid.unwrap()
        };
        assert_eq!(uid("a"), uid("a"));
        assert_ne!(uid("a"), uid("b"));
        assert_eq!(uid("a").len(), 32);
    }
}
