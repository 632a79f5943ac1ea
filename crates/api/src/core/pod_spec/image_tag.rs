//! The tag that an image reference names, read as upstream reads references (the package
//! `distribution/reference`): one that cannot be read has none.

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
const LATEST: &str = "latest";
const TAG_LENGTH_MAX: usize = 128;
const PATH_LENGTH_MAX: usize = 255;
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// `latest` if there is neither tag nor digest; `None` if there is a digest alone, or no reference.
pub(super) fn tag(image: &str) -> Option<&str> {
    let is_identifier = image.len() == 64 && image.bytes().all(is_lower_hex);
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((part, tag)) => (&name[..last + part.len()], Some(tag)),
        None => (name, None),
    };
    let is_reference =
        !is_identifier && is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    if !is_reference {
        return None;
    }
    tag.or_else(|| digest.is_none().then_some(LATEST))
}

/// Domain and path.
fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => (first, rest),
        _ => (DEFAULT_DOMAIN, name),
    };
    let is_path = path.split('/').all(is_component);
    if is_domain(domain) {
        // Without a folder, it is one of the default's library.
        let is_in_library = matches!(domain, DEFAULT_DOMAIN | LEGACY_DOMAIN) && !path.contains('/');
        let folder = if is_in_library { "library/".len() } else { 0 };
        return is_path && folder + path.len() <= PATH_LENGTH_MAX;
    }
    // What is no host may be a folder.
    is_path && is_component(domain) && name.len() <= PATH_LENGTH_MAX
}

fn is_domain_like(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

/// A host, perhaps with a port.
fn is_domain(text: &str) -> bool {
    let is_port = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let is_address = |it: u8| it.is_ascii_hexdigit() || it == b':';
        return !address.is_empty()
            && address.bytes().all(is_address)
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_label = |it: &str| {
        !it.is_empty()
            && !it.starts_with('-')
            && !it.ends_with('-')
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Lower case, with single dots, one or two underscores, or any dashes between.
fn is_component(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let separators = text.split(is_plain).filter(|it| !it.is_empty());
    let is_separator = |it: &str| matches!(it, "." | "_" | "__") || it.bytes().all(|it| it == b'-');
    text.starts_with(is_plain) && text.ends_with(is_plain) && { separators }.all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    text.len() <= TAG_LENGTH_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|it| is_word(it) || it == b'.' || it == b'-')
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hash)) = text.split_once(':') else { return false };
    DIGESTS.iter().any(|(name, length)| *name == algorithm && hash.len() == *length)
        && hash.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::tag;

    fn check(image: &str, expected: Option<&str>) {
        assert_eq!(tag(image), expected, "{image}");
    }

    #[test]
    fn a_reference_without_tag_and_digest_is_the_latest() {
        for image in ["web", "a/web", "localhost/web", "host:5000/web", "[::1]:5000/a/b", "Host/a"]
        {
            check(image, Some("latest"));
        }
        check("web:1.0", Some("1.0"));
        check("host:5000/web:latest", Some("latest"));
        check("a__b/c---d.e", Some("latest"));
        check("foo_bar.com/x", Some("latest"));
    }

    #[test]
    fn a_digest_alone_is_no_tag() {
        let digest = format!("sha256:{}", "a".repeat(64));
        check(&format!("web@{digest}"), None);
        check(&format!("web:latest@{digest}"), Some("latest"));
        check(&format!("web:latest@{}", &digest[..70]), None);
        check(&format!("web:latest@md5:{}", "a".repeat(32)), None);
    }

    #[test]
    fn what_is_no_reference_has_no_tag() {
        let identifier = "a".repeat(64);
        let long = format!("a/{}", "b".repeat(300));
        for image in [
            "",
            "Web",
            "web:",
            "web:-x",
            " web",
            "web ",
            "a//b",
            "/web",
            "web/",
            "-web",
            "a..b",
            "a___b",
            "host:port/web",
            "a/B",
            "web:latest:latest",
            "[::1/web",
            &identifier,
            &long,
            "a b/c",
        ] {
            check(image, None);
        }
    }
}
