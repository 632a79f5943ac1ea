//! Image references as users write them, normalized as docker and containerd do: `nginx` is
//! `docker.io/library/nginx:latest`. The grammar is that of distribution's `reference` package.
//! Pure.

use std::fmt;

use node_api::images::Error;

use crate::digest::Digest;

const DEFAULT_REGISTRY: &str = "docker.io";
const LEGACY_REGISTRY: &str = "index.docker.io";
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const NAME_LENGTH_MAX: usize = 255;
const TAG_LENGTH_MAX: usize = 128;

/// Always with a tag, a digest or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    path: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|problem| Error::InvalidName { reference: text.to_owned(), problem })
    }

    /// Host, and port if there was one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name inside the registry.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// `registry/path`
    pub fn repository(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }

    /// `registry/path:tag`, unless a digest alone was given.
    pub fn tagged(&self) -> Option<String> {
        self.tag.as_ref().map(|tag| format!("{}:{tag}", self.repository()))
    }

    /// `registry/path@digest`
    pub fn with_digest(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.repository())
    }

    /// What the registry is asked for; a digest says more than a tag.
    pub fn object(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.clone().unwrap_or_else(|| DEFAULT_TAG.to_owned()),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

fn parse(text: &str) -> Result<Reference, String> {
    if text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!(
            "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        ));
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(Digest::parse(digest)?)),
        None => (text, None),
    };
    let (registry, rest) = split_registry(rest);
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    if tag.is_some_and(|it| !is_tag(it)) || !is_registry(registry) {
        return Err("invalid reference format".to_owned());
    }
    validate_path(path)?;
    let path = match registry == DEFAULT_REGISTRY && !path.contains('/') {
        true => format!("{OFFICIAL}{path}"),
        false => path.to_owned(),
    };
    if registry.len() + 1 + path.len() > NAME_LENGTH_MAX {
        return Err(format!("repository name must not be more than {NAME_LENGTH_MAX} characters"));
    }
    let tag = match (tag, &digest) {
        (None, None) => Some(DEFAULT_TAG.to_owned()),
        (tag, _) => tag.map(str::to_owned),
    };
    Ok(Reference { registry: registry.to_owned(), path, tag, digest })
}

/// The part before the first slash is a registry if it can be none of docker.io's own names.
fn split_registry(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((LEGACY_REGISTRY, rest)) => (DEFAULT_REGISTRY, rest),
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|it| it.is_ascii_uppercase()) =>
        {
            (first, rest)
        }
        _ => (DEFAULT_REGISTRY, text),
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, port)) => {
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            return is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_tag(text: &str) -> bool {
    let is_word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    text.len() <= TAG_LENGTH_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|it| is_word(it) || matches!(it, b'.' | b'-'))
}

fn validate_path(path: &str) -> Result<(), String> {
    if path.split('/').all(is_path_component) {
        return Ok(());
    }
    let lower = path.to_ascii_lowercase();
    match lower != path && lower.split('/').all(is_path_component) {
        true => Err("repository name must be lowercase".to_owned()),
        false => Err("invalid reference format".to_owned()),
    }
}

/// Letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_joint = |joint: &str| {
        matches!(joint, "." | "_" | "__")
            || (!joint.is_empty() && joint.bytes().all(|it| it == b'-'))
    };
    text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && text.split(is_plain).filter(|it| !it.is_empty()).all(is_joint)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Reference;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(text: &str, expected: &str) {
        let actual = Reference::parse(&text.replace("DIGEST", DIGEST))
            .map_or_else(|err| format!("error: {err}"), |it| it.to_string());
        assert_eq!(actual, expected.replace("DIGEST", DIGEST));
    }

    #[test]
    fn short_names_are_of_docker_io_and_latest() {
        check("nginx", "docker.io/library/nginx:latest");
        check("nginx:1.25", "docker.io/library/nginx:1.25");
        check("library/nginx", "docker.io/library/nginx:latest");
        check("bitnami/redis", "docker.io/bitnami/redis:latest");
        check("docker.io/nginx", "docker.io/library/nginx:latest");
        check("index.docker.io/nginx", "docker.io/library/nginx:latest");
        check("a/b/c", "docker.io/a/b/c:latest");
    }

    #[test]
    fn a_dot_a_colon_or_localhost_makes_a_registry() {
        check("quay.io/a/b:v1", "quay.io/a/b:v1");
        check("localhost/a", "localhost/a:latest");
        check("host:5000/a", "host:5000/a:latest");
        check("127.0.0.1:5000/a/b:x", "127.0.0.1:5000/a/b:x");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check("Host/a", "Host/a:latest");
        check("xebec.local/toolbox", "xebec.local/toolbox:latest");
    }

    #[test]
    fn a_digest_replaces_the_default_tag_but_not_a_written_one() {
        check("nginx@DIGEST", "docker.io/library/nginx@DIGEST");
        check("nginx:1.25@DIGEST", "docker.io/library/nginx:1.25@DIGEST");
        let both = Reference::parse(&format!("nginx:1.25@{DIGEST}")).unwrap();
        assert_eq!(both.object(), DIGEST);
    }

    #[test]
    fn what_is_no_reference_says_why_in_upstreams_words() {
        let bad = |text: &str, problem: &str| {
            check(text, &format!("error: couldn't parse image name {text:?}: {problem}"));
        };
        bad("", "invalid reference format");
        bad("Nginx", "repository name must be lowercase");
        bad("quay.io/A/b", "repository name must be lowercase");
        bad("a//b", "invalid reference format");
        bad("a:", "invalid reference format");
        bad("a:b:c", "invalid reference format");
        bad(":a", "invalid reference format");
        bad("a b", "invalid reference format");
        bad("../../etc/passwd", "invalid reference format");
        bad("a_.b", "invalid reference format");
        bad("host:port/a", "invalid reference format");
        bad("host:99999/a", "invalid reference format");
        bad("-host.x/a", "invalid reference format");
        bad("a@sha256:abc", "invalid checksum digest format \"sha256:abc\"");
        bad(&format!("a:{}", "x".repeat(129)), "invalid reference format");
        bad(
            "a/".repeat(130).trim_end_matches('/'),
            "repository name must not be more than 255 characters",
        );
        let hex = &DIGEST["sha256:".len()..];
        bad(
            hex,
            &format!("invalid repository name ({hex}), cannot specify 64-byte hexadecimal strings"),
        );
    }

    proptest! {
        /// Never panics; and the normalized form is a fixed point.
        #[test]
        fn normalizing_twice_changes_nothing(text in "[a-zA-Z0-9._:/@\\[\\]-]{0,40}") {
            if let Ok(reference) = Reference::parse(&text) {
                let again = Reference::parse(&reference.to_string()).unwrap();
                prop_assert_eq!(&again, &reference);
            }
        }

        #[test]
        fn what_the_grammar_makes_is_understood(
            registry in "[a-z]{1,5}(\\.[a-z]{1,4}){1,2}(:[1-9][0-9]{0,3})?",
            path in "[a-z0-9]{1,5}((\\.|_|__|-{1,3})[a-z0-9]{1,4})?(/[a-z0-9]{1,5}){0,2}",
            tag in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,10}",
        ) {
            // The one rewriting there is has its own test.
            prop_assume!(registry != "docker.io" && registry != "index.docker.io");
            let text = format!("{registry}/{path}:{tag}");
            prop_assert_eq!(Reference::parse(&text).unwrap().to_string(), text);
        }
    }
}
