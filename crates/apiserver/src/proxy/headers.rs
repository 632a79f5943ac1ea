//! Which headers are passed on, each way. Pure.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Between two neighbors (RFC 9110, section 7.6.1), and nobody else.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Who asks, and by what, is this server's to know.
const CREDENTIALS: &[&str] = &["authorization", "cookie2"];
const CREDENTIAL_PREFIXES: &[&str] = &["impersonate-", "x-remote-"];
/// Of a WebSocket, which cannot send an Authorization: then it is a protocol's name.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// Whether other sites may read what a pod answers is not the pod's to say.
const CROSS_ORIGIN: &[&str] = &[
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

/// Those of a request. `is_upgrade`: what asks for another protocol is for the target, too.
pub(crate) fn of_request(from: &HeaderMap, is_upgrade: bool) -> HeaderMap {
    let named = named_by_connection(from);
    let mut to = HeaderMap::with_capacity(from.len() + 2);
    for (name, value) in from {
        let text = name.as_str();
        let is_hop = HOP_BY_HOP.contains(&text) || named.iter().any(|it| it == text);
        let is_asked = is_upgrade && matches!(text, "connection" | "upgrade");
        let is_secret = CREDENTIALS.contains(&text)
            || CREDENTIAL_PREFIXES.iter().any(|it| text.starts_with(it));
        if is_secret || (is_hop && !is_asked) || *name == header::EXPECT {
            continue;
        }
        if *name == header::SEC_WEBSOCKET_PROTOCOL {
            if let Some(value) = without_token(value) {
                to.append(name.clone(), value);
            }
        } else {
            to.append(name.clone(), value.clone());
        }
    }
    to
}

/// Those of an answer.
pub(crate) fn of_answer(from: &HeaderMap, is_upgrade: bool) -> HeaderMap {
    let named = named_by_connection(from);
    let is_kept = |name: &HeaderName| {
        let text = name.as_str();
        let is_hop = HOP_BY_HOP.contains(&text) || named.iter().any(|it| it == text);
        let is_asked = is_upgrade && matches!(text, "connection" | "upgrade");
        (is_asked || !is_hop) && !CROSS_ORIGIN.contains(&text)
    };
    let kept = from.iter().filter(|it| is_kept(it.0));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Appends to what other proxies said.
pub(crate) fn append_forwarded_for(headers: &mut HeaderMap, client: &str) {
    let name = HeaderName::from_static("x-forwarded-for");
    let before = headers.get(&name).and_then(|it| it.to_str().ok());
    let text = before.map_or_else(|| client.to_owned(), |it| format!("{it}, {client}"));
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(name, value);
    }
}

/// `Connection: close, x-mine` makes `x-mine` one of those, too.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|it| it.to_str().ok());
    let names = values.flat_map(|it| it.split(','));
    names.map(|it| it.trim().to_ascii_lowercase()).filter(|it| !it.is_empty()).collect()
}

fn without_token(value: &HeaderValue) -> Option<HeaderValue> {
    let names = value.to_str().ok()?.split(',').map(str::trim);
    let kept: Vec<&str> = names.filter(|it| !it.starts_with(TOKEN_PROTOCOL)).collect();
    (!kept.is_empty()).then(|| HeaderValue::from_str(&kept.join(", ")).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> HeaderMap {
        let pairs = text.lines().map(|it| it.trim().split_once(": ").unwrap());
        pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn text(headers: &HeaderMap) -> String {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines.join("\n")
    }

    #[test]
    fn credentials_and_what_is_between_neighbors_stay_here() {
        let request = map("authorization: Bearer x\nimpersonate-user: root\nx-remote-group: a\n\
             connection: keep-alive, x-hop\nx-hop: 1\nte: trailers\naccept: */*\ncookie: a=b\n\
             x-mine: 2");
        assert_eq!(text(&of_request(&request, false)), "accept: */*\ncookie: a=b\nx-mine: 2");
    }

    #[test]
    fn a_websocket_s_token_is_no_protocol_of_the_target() {
        let request = map("connection: Upgrade\nupgrade: websocket\n\
             sec-websocket-protocol: base64url.bearer.authorization.k8s.io.eA, chat");
        assert_eq!(
            text(&of_request(&request, true)),
            "connection: Upgrade\nsec-websocket-protocol: chat\nupgrade: websocket"
        );
        let alone = map("sec-websocket-protocol: base64url.bearer.authorization.k8s.io.eA");
        assert_eq!(text(&of_request(&alone, true)), "");
    }

    #[test]
    fn a_pod_does_not_open_this_server_to_other_sites() {
        let answer =
            map("access-control-allow-origin: *\ncontent-type: text/plain\nconnection: close");
        assert_eq!(text(&of_answer(&answer, false)), "content-type: text/plain");
    }

    #[test]
    fn proxies_before_us_are_kept_in_line() {
        let mut headers = HeaderMap::new();
        append_forwarded_for(&mut headers, "192.0.2.1");
        append_forwarded_for(&mut headers, "192.0.2.2");
        assert_eq!(text(&headers), "x-forwarded-for: 192.0.2.1, 192.0.2.2");
    }
}
