//! How a registry wants to know who asks: its challenge, and our answer to it. Pure.
//! See distribution's "Token Authentication Specification".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, WWW_AUTHENTICATE};
use node_api::images::Credentials;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// The one we can answer best.
pub(super) fn parse(headers: &HeaderMap) -> Option<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok());
    let all: Vec<Challenge> = texts.filter_map(parse_one).collect();
    let bearer = all.iter().find(|it| matches!(it, Challenge::Bearer { .. }));
    bearer.or_else(|| all.first()).cloned()
}

fn parse_one(text: &str) -> Option<Challenge> {
    let text = text.trim();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let get = |name: &str| {
        parameters.iter().find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.clone())
    };
    Some(Challenge::Bearer { realm: get("realm")?, service: get("service"), scope: get("scope") })
}

/// `a="x, y",b=z`; commas in quotes do not separate.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
                (value.trim().to_owned(), rest)
            }
        };
        found.push((name, value));
        text = rest;
    }
    found
}

fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|it| it.1)),
            _ => value.push(character),
        }
    }
    (value, "")
}

/// Where a token is to be had.
pub(super) fn token_address(
    realm: &str,
    service: Option<&str>,
    scope: Option<&str>,
    path: &str,
) -> String {
    let own_scope = format!("repository:{path}:pull");
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut query = format!("scope={}", encode(scope.unwrap_or(&own_scope)));
    if let Some(service) = service {
        query = format!("service={}&{query}", encode(service));
    }
    let separator = if realm.contains('?') { '&' } else { '?' };
    format!("{realm}{separator}{query}")
}

pub(super) fn basic(credentials: &Credentials) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", credentials.user, credentials.password)))
}

/// `None` if there is no token in it.
pub(super) fn parse_token(content: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(content).ok()?;
    answer.token.or(answer.access_token).filter(|it| !it.is_empty())
}

/// Those for this registry; users write it with and without scheme and path.
pub(crate) fn matching(credentials: Vec<Credentials>, registry: &str) -> Vec<Credentials> {
    let host = |text: &str| {
        let text = text.split_once("://").map_or(text, |it| it.1);
        let host = text.split('/').next().unwrap_or_default();
        if host == "index.docker.io" { "docker.io".to_owned() } else { host.to_owned() }
    };
    let fits = |it: &Credentials| it.registry.as_ref().is_none_or(|it| host(it) == registry);
    credentials.into_iter().filter(fits).collect()
}

/// What a registry says in the body of an error, for people.
pub(super) fn server_message(content: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        errors: Vec<Problem>,
    }
    #[derive(Deserialize)]
    struct Problem {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    match serde_json::from_slice::<Answer>(content).ok().and_then(|it| it.errors.into_iter().next())
    {
        Some(Problem { code, message }) => {
            format!(": server message: {}: {message}", code.to_ascii_lowercase())
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::WWW_AUTHENTICATE;
    use node_api::images::Credentials;

    use super::{Challenge, matching, parse, server_message, token_address};

    fn check(headers: &[&str], expected: Option<&str>) {
        let mut map = HeaderMap::new();
        for header in headers {
            map.append(WWW_AUTHENTICATE, header.parse().unwrap());
        }
        let actual = parse(&map).map(|it| match it {
            Challenge::Basic => "basic".to_owned(),
            Challenge::Bearer { realm, service, scope } => {
                token_address(&realm, service.as_deref(), scope.as_deref(), "a/b")
            }
        });
        assert_eq!(actual.as_deref(), expected);
    }

    #[test]
    fn challenges_lead_to_tokens() {
        check(
            &[
                r#"Bearer realm="https://auth.x/token",service="reg.x",scope="repository:a/b:pull,push""#,
            ],
            Some("https://auth.x/token?service=reg%2Ex&scope=repository%3Aa%2Fb%3Apull%2Cpush"),
        );
        check(
            &[r#"bearer REALM="http://x/t?k=v""#],
            Some("http://x/t?k=v&scope=repository%3Aa%2Fb%3Apull"),
        );
        check(&[r#"Basic realm="Registry""#], Some("basic"));
        check(
            &["Basic realm=x", r#"Bearer realm="https://x\"y", error="invalid_token""#],
            Some("https://x\"y?scope=repository%3Aa%2Fb%3Apull"),
        );
        check(&["Negotiate"], None);
        check(&["Bearer service=x"], None);
        check(&[], None);
    }

    #[test]
    fn credentials_are_for_their_registry_alone() {
        let credentials = |registry: Option<&str>| Credentials {
            registry: registry.map(str::to_owned),
            user: "u".to_owned(),
            password: "p".to_owned(),
        };
        let check = |of: Option<&str>, registry: &str, fits: bool| {
            assert_eq!(matching(vec![credentials(of)], registry).len(), usize::from(fits));
        };
        check(None, "a.x", true);
        check(Some("a.x"), "a.x", true);
        check(Some("https://a.x/v1/"), "a.x", true);
        check(Some("https://index.docker.io/v1/"), "docker.io", true);
        check(Some("a.x:5000"), "a.x", false);
        check(Some("b.x"), "a.x", false);
    }

    #[test]
    fn messages_of_the_server_are_shown() {
        let body = br#"{"errors":[{"code":"DENIED","message":"requested access is denied"}]}"#;
        assert_eq!(server_message(body), ": server message: denied: requested access is denied");
        assert_eq!(server_message(b"<html>"), "");
    }
}
