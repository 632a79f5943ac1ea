//! URLs as Go's `net/url` reads them, with its complaints.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: String,
    opaque: String,
    user: String,
    /// With the port.
    pub(super) host: String,
    /// As written.
    path: String,
    raw_query: String,
    fragment: String,
}

/// Whether it is what a request may name: an absolute URL or an absolute path.
pub(in super::super) fn check_request_uri(text: &str) -> Result<(), String> {
    Url::parse_without_fragment(text, Via::Request)
        .map(|_| ())
        .map_err(|why| format!("parse {text:?}: {why}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Via {
    Request,
    Reference,
}

/// Which part a text is of: they need different characters to be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let complain = |why: String| format!("parse {text:?}: {why}");
        let url = Self::parse_without_fragment(rest, Via::Reference)
            .map_err(|why| format!("parse {rest:?}: {why}"))?;
        let fragment = unescape(fragment, Part::Fragment).map_err(complain)?;
        Ok(Self { fragment, ..url })
    }

    fn parse_without_fragment(text: &str, via: Via) -> Result<Self, String> {
        if text.bytes().any(|it| it < 0x20 || it == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && via == Via::Request {
            return Err("empty url".to_owned());
        }
        if text == "*" {
            return Ok(Self { path: "*".to_owned(), ..Self::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.raw_query);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if via == Via::Request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|it| it.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let may_have_host =
            !scheme.is_empty() || (via == Via::Reference && !rest.starts_with("///"));
        let path = match rest.strip_prefix("//") {
            Some(rest) if may_have_host => {
                let end = rest.find('/').unwrap_or(rest.len());
                url.set_authority(&rest[..end])?;
                &rest[end..]
            }
            _ => rest,
        };
        unescape(path, Part::Path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        self.host = parse_host(host)?;
        if !user.bytes().all(is_user_byte) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, Part::User)?;
        user.clone_into(&mut self.user);
        Ok(())
    }

    /// The host without brackets, and the port.
    pub(super) fn split_host(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':') {
            Some(at) if is_optional_port(&self.host[at..]) => {
                (&self.host[..at], &self.host[at + 1..])
            }
            _ => (self.host.as_str(), ""),
        };
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }

    /// The path as written if that is well escaped, else escaped anew.
    pub(super) fn escaped_path(&self) -> String {
        let is_kept = |it: u8| !must_escape_in_path(it) || b"!'()*%[]".contains(&it);
        if self.path == "*" || self.path.bytes().all(is_kept) {
            return self.path.clone();
        }
        let mut escaped = String::new();
        for it in unescape_bytes(&self.path, Part::Path).unwrap_or_default() {
            if must_escape_in_path(it) {
                escaped.push_str(&format!("%{it:02X}"));
            } else {
                escaped.push(char::from(it));
            }
        }
        escaped
    }

    /// Pairs that are not well formed are left out.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut pairs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.raw_query.split('&').filter(|it| !it.is_empty() && !it.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let both = unescape(key, Part::Query)
                .and_then(|key| unescape(value, Part::Query).map(|value| (key, value)));
            if let Ok((key, value)) = both {
                pairs.entry(key).or_default().push(value);
            }
        }
        pairs
    }
}

/// The scheme, which may be missing, and the rest.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, it) in text.char_indices() {
        match it {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
}

fn parse_host(host: &str) -> Result<String, String> {
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".to_owned());
        };
        let port = &host[end + 1..];
        if !is_optional_port(port) {
            return Err(format!("invalid port {port:?} after host"));
        }
        if let Some(zone) = host[..end].find("%25") {
            let before = unescape(&host[..zone], Part::Host)?;
            let zone = unescape(&host[zone..end], Part::Zone)?;
            return Ok(format!("{before}{zone}{}", unescape(&host[end..], Part::Host)?));
        }
    } else if let Some(at) = host.rfind(':')
        && !is_optional_port(&host[at..])
    {
        return Err(format!("invalid port {:?} after host", &host[at..]));
    }
    unescape(host, Part::Host)
}

fn is_user_byte(it: u8) -> bool {
    it.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&it)
}

fn is_unreserved(it: u8) -> bool {
    it.is_ascii_alphanumeric() || b"-_.~".contains(&it)
}

fn must_escape_in_path(it: u8) -> bool {
    !is_unreserved(it) && !b"$&+,/:;=@".contains(&it)
}

fn must_escape_in_host(it: u8) -> bool {
    !is_unreserved(it) && !b"!$&'()*+,;=:[]<>\"".contains(&it)
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    let bytes = unescape_bytes(text, part)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unescape_bytes(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = bytes.get(at + 1..at + 3);
                let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
                let is_hex = |it: &&str| it.bytes().all(|it| it.is_ascii_hexdigit());
                let value = digits.filter(is_hex).and_then(|it| u8::from_str_radix(it, 16).ok());
                let is_allowed = |it: &u8| match part {
                    // Of ASCII only the percent sign itself may be escaped.
                    Part::Host => *it >= 0x80 || *it == b'%',
                    Part::Zone => {
                        *it == b'%' || *it == b' ' || !must_escape_in_host(*it) || *it >= 0x80
                    }
                    _ => true,
                };
                let Some(value) = value.filter(is_allowed) else {
                    let end = text.len().min(at + 3);
                    let shown = text.get(at..end).unwrap_or_else(|| &text[at..]);
                    return Err(format!("invalid URL escape {shown:?}"));
                };
                out.push(value);
                at += 3;
                continue;
            }
            b'+' if part == Part::Query => out.push(b' '),
            it => {
                let is_host = matches!(part, Part::Host | Part::Zone);
                if is_host && it < 0x80 && must_escape_in_host(it) {
                    let shown = char::from(it).to_string();
                    return Err(format!("invalid character {shown:?} in host name"));
                }
                out.push(it);
            }
        }
        at += 1;
    }
    Ok(out)
}
