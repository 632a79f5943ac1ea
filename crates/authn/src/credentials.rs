//! Who a request says it is from, and whom it wants to act as, by its headers and the certificate of
//! its connection. Pure. A header that cannot be read is never left out: what would then happen is
//! what somebody else may do.

use std::sync::Arc;

use apimachinery::{ApiError, User};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;

use crate::{ClientCertificate, Credential, Proxied, RequestHeaders};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const PREFIX: &str = "impersonate-";

/// A proxy's word counts before a certificate, and that before a token, as upstream asks them in
/// that order. Other schemes than Bearer, and Bearer without a token, prove nothing: such a caller
/// is anonymous.
pub fn credential(
    headers: &HeaderMap,
    certificate: Option<Arc<ClientCertificate>>,
    proxies: Option<&RequestHeaders>,
) -> Result<Credential, ApiError> {
    let text = only(headers, header::AUTHORIZATION.as_str())?.unwrap_or_default();
    if let (Some(certificate), Some(proxies)) = (&certificate, proxies)
        && certificate.is_of_proxy()
        && let Some(user) = proxied_user(headers, proxies)?
    {
        let proxied = Proxied::new(certificate.clone(), proxies, user);
        return Ok(Credential::Proxied(Box::new(proxied)));
    }
    if let Some(certificate) = certificate.as_ref().filter(|it| it.is_of_user()) {
        return Ok(Credential::Certificate(certificate.clone()));
    }
    let mut words = text.trim().split(' ');
    let is_bearer = words.next().is_some_and(|it| it.eq_ignore_ascii_case("bearer"));
    let token = words.next().filter(|it| is_bearer && !it.is_empty());
    Ok(match (token, certificate) {
        (Some(token), _) => Credential::Bearer(token.to_owned()),
        // A proxy that speaks for nobody is nobody.
        (None, Some(certificate)) => Credential::Certificate(certificate),
        (None, None) => Credential::None,
    })
}

/// Whom a proxy names; `None`: nobody.
fn proxied_user(headers: &HeaderMap, proxies: &RequestHeaders) -> Result<Option<User>, ApiError> {
    let first = |names: &[String]| -> Result<String, ApiError> {
        let found = names.iter().find_map(|name| Some((name, headers.get(name)?)));
        let found = found.filter(|it| !it.1.is_empty());
        found.map_or_else(|| Ok(String::new()), |(name, value)| text(name, value))
    };
    let mut user = User { name: first(&proxies.username)?, ..User::default() };
    if user.name.is_empty() {
        return Ok(None);
    }
    user.uid = first(&proxies.uid)?;
    for name in &proxies.group {
        for value in headers.get_all(name) {
            user.groups.push(text(name, value)?);
        }
    }
    for (name, value) in headers {
        let prefix = proxies.extra_prefix.iter().find(|it| name.as_str().starts_with(*it));
        if let Some(key) = prefix.and_then(|it| name.as_str().strip_prefix(it.as_str())) {
            user.extra.entry(extra_key(name, key)?).or_default().push(text(name, value)?);
        }
    }
    Ok(Some(user))
}

/// `None`: the caller acts as itself.
pub fn impersonation(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let mut user = User::default();
    let mut is_asked = false;
    for (name, value) in headers {
        let Some(what) = name.as_str().strip_prefix(PREFIX) else { continue };
        is_asked = true;
        match name.as_str().strip_prefix(EXTRA_PREFIX) {
            Some(key) => {
                user.extra.entry(extra_key(name, key)?).or_default().push(text(name, value)?)
            }
            None if name == GROUP => user.groups.push(text(name, value)?),
            None if name == USER || name == UID => {}
            // One that narrows what may be done must not be left out by a server that does not know
            // it.
            None => {
                return Err(ApiError::bad_request(format!(
                    "the header Impersonate-{what} is not known"
                )));
            }
        }
    }
    if !is_asked {
        return Ok(None);
    }
    user.name = only(headers, USER)?.unwrap_or_default();
    user.uid = only(headers, UID)?.unwrap_or_default();
    if user.name.is_empty() {
        return Err(ApiError::bad_request(
            "requested impersonation without impersonating a user name",
        ));
    }
    Ok(Some(user))
}

/// The only value of a header; two could be read as either.
fn only(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::bad_request(format!("the header {name:?} is there more than once")));
    }
    text(name, first).map(Some)
}

/// Names may have any characters, in UTF-8.
fn text(name: impl AsRef<str>, value: &HeaderValue) -> Result<String, ApiError> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| unreadable(name.as_ref()))
}

/// A key whose escapes make no sense is taken as it is, as upstream does: it is asked for under
/// that name.
fn extra_key(name: &HeaderName, key: &str) -> Result<String, ApiError> {
    let mut escapes = key.split('%').skip(1);
    let is_escaped =
        |it: &str| it.len() >= 2 && it.bytes().take(2).all(|it| it.is_ascii_hexdigit());
    if !escapes.all(is_escaped) {
        return Ok(key.to_owned());
    }
    let key = percent_decode_str(key).decode_utf8();
    key.map(std::borrow::Cow::into_owned).map_err(|_| unreadable(name.as_str()))
}

fn unreadable(name: &str) -> ApiError {
    ApiError::bad_request(format!("the header {name:?} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{credential, impersonation};
    use crate::{ClientCertificate, Credential, RequestHeaders, Vouched};

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&str, &[u8])| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_bytes(value).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn token(values: &[&[u8]]) -> Result<Option<String>, u16> {
        let pairs: Vec<_> = values.iter().map(|it| ("authorization", *it)).collect();
        match credential(&headers(&pairs), None, None) {
            Ok(Credential::Bearer(token)) => Ok(Some(token)),
            Ok(_) => Ok(None),
            Err(err) => Err(err.code()),
        }
    }

    #[test]
    fn a_token_is_read_as_upstream_reads_it() {
        let some = |it: &str| Ok(Some(it.to_owned()));
        assert_eq!(token(&[]), Ok(None));
        assert_eq!(token(&[b"Bearer abc"]), some("abc"));
        assert_eq!(token(&[b"bEARER abc rest"]), some("abc"));
        assert_eq!(token(&["Bearer ä".as_bytes()]), some("ä"));
        for nothing in ["", "Bearer", "Bearer ", "Bearer  abc", "Basic abc", "abc"] {
            assert_eq!(token(&[nothing.as_bytes()]), Ok(None), "{nothing:?}");
        }
    }

    #[test]
    fn a_credential_that_cannot_be_read_is_refused_even_beside_a_certificate() {
        assert_eq!(token(&[b"Bearer a\xff"]), Err(400));
        assert_eq!(token(&[b"Bearer a", b"Bearer b"]), Err(400));
        let unreadable = headers(&[("authorization", b"Bearer \xff")]);
        let certificate = || Some(Arc::new(ClientCertificate::read(&[1])));
        assert!(credential(&unreadable, certificate(), None).is_err());
        let both = credential(&headers(&[("authorization", b"Bearer a")]), certificate(), None);
        assert!(matches!(both, Ok(Credential::Certificate(_))));
    }

    #[test]
    fn only_a_proxy_speaks_for_others() {
        let proxies = RequestHeaders::default();
        let check = |vouched: Option<Vouched>, pairs: &[(&str, &[u8])], expected: &str| {
            let certificate = vouched.map(|it| Arc::new(ClientCertificate::read_as(&[1], it)));
            let seen = match credential(&headers(pairs), certificate, Some(&proxies)) {
                Ok(Credential::Proxied(_)) => "proxied".to_owned(),
                Ok(Credential::Certificate(_)) => "certificate".to_owned(),
                Ok(Credential::Bearer(_)) => "token".to_owned(),
                Ok(_) => "nobody".to_owned(),
                Err(err) => err.code().to_string(),
            };
            assert_eq!(seen, expected, "{vouched:?} {pairs:?}");
        };
        let named: (&str, &[u8]) = ("X-Remote-User", b"jane");
        let token: (&str, &[u8]) = ("Authorization", b"Bearer x");
        check(None, &[named], "nobody");
        check(None, &[named, token], "token");
        check(Some(Vouched::Clients), &[named], "certificate");
        check(Some(Vouched::Both), &[named], "proxied");
        check(Some(Vouched::Both), &[], "certificate");
        check(Some(Vouched::Proxies), &[named, token], "proxied");
        check(Some(Vouched::Proxies), &[token], "token");
        check(Some(Vouched::Proxies), &[("X-Remote-User", b""), token], "token");
        check(Some(Vouched::Proxies), &[("X-Remote-Group", b"system:masters")], "certificate");
        check(Some(Vouched::Proxies), &[("X-Remote-User", b"\xff")], "400");
    }

    #[test]
    fn a_proxy_says_all_about_whom_it_speaks_for() {
        let proxies = RequestHeaders {
            username: vec!["x-other-user".to_owned(), "x-remote-user".to_owned()],
            ..RequestHeaders::default()
        };
        let pairs: &[(&str, &[u8])] = &[
            ("X-Remote-User", "ä".as_bytes()),
            ("X-Remote-Uid", b"7"),
            ("X-Remote-Group", b"g"),
            ("X-Remote-Group", b"h"),
            ("X-Remote-Extra-Example.org%2FScopes", b"x"),
            ("X-Remote-Extra-Example.org%2FScopes", b"y"),
        ];
        let user = super::proxied_user(&headers(pairs), &proxies).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ä", "7"));
        assert_eq!(user.groups, ["g", "h"]);
        assert_eq!(user.extra["example.org/scopes"], ["x", "y"]);
    }

    fn check(pairs: &[(&str, &[u8])], expected: &str) {
        let text = match impersonation(&headers(pairs)) {
            Ok(None) => "nobody".to_owned(),
            Ok(Some(it)) => format!("{} {:?} {:?} {:?}", it.name, it.uid, it.groups, it.extra),
            Err(err) => err.code().to_string(),
        };
        assert_eq!(text, expected, "{pairs:?}");
    }

    #[test]
    fn whoever_is_named_is_meant_and_no_name_is_left_out() {
        check(&[], "nobody");
        check(&[("x-impersonate-user", b"a")], "nobody");
        check(&[("Impersonate-User", "ä".as_bytes())], r#"ä "" [] {}"#);
        let all: &[(&str, &[u8])] = &[
            ("Impersonate-User", b"a"),
            ("Impersonate-Group", b"g"),
            ("Impersonate-Group", "ö".as_bytes()),
            ("Impersonate-Uid", b"u"),
            ("Impersonate-Extra-a%2Fb", b"x"),
            ("Impersonate-Extra-a%2Fb", "ß".as_bytes()),
            ("Impersonate-Extra-50%", b"y"),
        ];
        check(all, r#"a "u" ["g", "ö"] {"50%": ["y"], "a/b": ["x", "ß"]}"#);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        check(&[("Impersonate-User", b"\xe4")], "400");
        check(&[("Impersonate-User", b"a"), ("Impersonate-User", b"b")], "400");
        check(
            &[("Impersonate-User", b"a"), ("Impersonate-Uid", b"1"), ("Impersonate-Uid", b"2")],
            "400",
        );
        check(&[("Impersonate-User", b"a"), ("Impersonate-Group", b"\xff")], "400");
        check(&[("Impersonate-User", b"a"), ("Impersonate-Extra-x", b"\xff")], "400");
        check(&[("Impersonate-User", b"a"), ("Impersonate-Extra-%ff", b"x")], "400");
        check(&[("Impersonate-User", b"a"), ("Impersonate-Scope", b"x")], "400");
        // Names that go with no user.
        check(&[("Impersonate-User", b"")], "400");
        check(&[("Impersonate-Group", b"system:masters")], "400");
        check(&[("Impersonate-Uid", b"1")], "400");
        check(&[("Impersonate-Extra-x", b"1")], "400");
    }
}
