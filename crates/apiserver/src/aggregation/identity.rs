//! Who asks, told to another server in headers. What a client wrote there itself does not pass.
//! Pure.

use apimachinery::User;
use authn::RequestHeaders;
use http::{HeaderMap, HeaderName, HeaderValue};

const PREFIX: &str = "x-remote-";
const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// A name that no header can carry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of the user, of a group or of an extra field cannot be written into a header")]
pub(super) struct Unspeakable;

/// The user, and nobody else.
pub(super) fn set(
    headers: &mut HeaderMap,
    user: &User,
    known: Option<&RequestHeaders>,
) -> Result<(), Unspeakable> {
    let is_claim = |it: &HeaderName| {
        it.as_str().starts_with(PREFIX) || known.is_some_and(|known| known.has(it.as_str()))
    };
    let claims: Vec<HeaderName> = headers.keys().filter(|it| is_claim(it)).cloned().collect();
    for claim in claims {
        headers.remove(claim);
    }
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escape(key));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Unspeakable)?;
        for it in values {
            headers.append(name.clone(), value(it)?);
        }
    }
    Ok(())
}

fn value(text: &str) -> Result<HeaderValue, Unspeakable> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Unspeakable)
}

/// A key as the name of a header: what cannot stand there is percent-encoded, and so is `%`.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        let is_token = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        match is_token {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(headers: &HeaderMap) -> String {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        lines.join("\n")
    }

    #[test]
    fn only_this_server_says_who_asks() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-whatever", "x"),
            ("x-auth-user", "root"),
            ("x-auth-extra-a", "root"),
            ("accept", "*/*"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let known = RequestHeaders {
            username: vec!["x-auth-user".to_owned()],
            extra_prefix: vec!["x-auth-extra-".to_owned()],
            ..RequestHeaders::default()
        };
        let user = User {
            name: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["a".to_owned(), "ö".to_owned()],
            extra: [("example.org/key%".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
        };
        set(&mut headers, &user, Some(&known)).unwrap();
        assert_eq!(
            text(&headers),
            "accept: */*\nx-remote-extra-example.org%2fkey%25: x\n\
             x-remote-extra-example.org%2fkey%25: y\nx-remote-group: a\nx-remote-group: ö\n\
             x-remote-uid: 7\nx-remote-user: jane"
        );
    }

    #[test]
    fn who_cannot_be_named_is_not_named_otherwise() {
        let user = User::new("a\nb", &[]);
        assert_eq!(set(&mut HeaderMap::new(), &user, None), Err(Unspeakable));
        let user = User::new("a", &["x\0"]);
        assert_eq!(set(&mut HeaderMap::new(), &user, None), Err(Unspeakable));
    }
}
