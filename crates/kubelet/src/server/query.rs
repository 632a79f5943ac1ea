//! Query parameters of a request to the kubelet.

use percent_encoding::percent_decode_str;

#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let decode =
            |it: &str| percent_decode_str(&it.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.unwrap_or_default().split('&').filter(|it| !it.is_empty());
        let pairs = pairs.map(|it| it.split_once('=').unwrap_or((it, "")));
        Self(pairs.map(|(key, value)| (decode(key), decode(value))).collect())
    }

    pub(crate) fn get<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).next().filter(|it| !it.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |it| it.0 == key).map(|it| it.1.as_str())
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|it| matches!(it, "1" | "t" | "T" | "true" | "True" | "TRUE"))
    }
}
