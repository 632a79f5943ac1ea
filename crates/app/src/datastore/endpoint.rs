//! The text that names an etcd cluster. What it says of passwords goes nowhere else: not into
//! errors, not into logs.

use anyhow::{Result, bail};
use etcd::engine::Credentials;

#[derive(Default)]
pub(super) struct Endpoints {
    pub(super) urls: Vec<String>,
    pub(super) credentials: Option<Credentials>,
}

impl Endpoints {
    /// `https://[USER:PASSWORD@]HOST:PORT`, several separated by commas. One user is enough; two
    /// different ones are refused.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut endpoints = Self::default();
        for url in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let Some((scheme, rest)) = url.split_once("://") else {
                bail!("--datastore-endpoint: each one must be like https://HOST:PORT");
            };
            if !matches!(scheme, "http" | "https") {
                bail!(
                    "--datastore-endpoint: {scheme}:// is not supported, only etcd over http:// or https://"
                );
            }
            let (user, host) = match rest.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, rest),
            };
            endpoints.urls.push(format!("{scheme}://{host}"));
            if let Some(user) = user {
                endpoints.add_user(user)?;
            }
        }
        if endpoints.urls.is_empty() {
            bail!("--datastore-endpoint names no endpoint");
        }
        Ok(endpoints)
    }

    fn add_user(&mut self, text: &str) -> Result<()> {
        let Some((user, password)) = text.split_once(':') else {
            bail!("--datastore-endpoint: a user is given as USER:PASSWORD@HOST");
        };
        let (Some(user), Some(password)) = (decode(user), decode(password)) else {
            bail!("--datastore-endpoint: the user or its password has a bad %XX in it");
        };
        let is_same = |it: &Credentials| it.user == user && it.password == password;
        if self.credentials.as_ref().is_some_and(|it| !is_same(it)) {
            bail!("--datastore-endpoint names different users");
        }
        self.credentials = Some(Credentials { user, password });
        Ok(())
    }
}

/// Undoes the %XX of URLs.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::Endpoints;

    #[test]
    fn endpoints_and_their_user_are_told_apart() {
        let check = |text: &str, urls: &[&str], user: Option<(&str, &str)>| {
            let parsed = Endpoints::parse(text).expect("it is right");
            assert_eq!(parsed.urls, urls, "{text}");
            let found = parsed.credentials.map(|it| (it.user, it.password));
            assert_eq!(found, user.map(|it| (it.0.to_owned(), it.1.to_owned())), "{text}");
        };
        check("http://a:1", &["http://a:1"], None);
        check("https://a:1, https://b:2,", &["https://a:1", "https://b:2"], None);
        check("https://u:p@a:1,https://b:2", &["https://a:1", "https://b:2"], Some(("u", "p")));
        check("https://u:p%40%3A@a:1", &["https://a:1"], Some(("u", "p@:")));
        check("https://u:p@x@a:1", &["https://a:1"], Some(("u", "p@x")));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        let check = |text: &str, expected: &str| {
            let err = format!("{:#}", Endpoints::parse(text).map(drop).expect_err("it is wrong"));
            assert!(err.contains(expected), "{text}: {err}");
            assert!(!err.contains("secret"), "{err}");
        };
        check("", "names no endpoint");
        check("a:2379", "must be like");
        check("postgres://u:secret@db/x", "only etcd");
        check("http://u@a:1", "USER:PASSWORD");
        check("http://u:secret%G0@a:1", "bad %XX");
        check("http://u:secret@a:1,http://v:secret@b:1", "different users");
    }
}
