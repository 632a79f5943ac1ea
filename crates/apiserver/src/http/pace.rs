//! Which requests may take as long as they like, by their address alone.

use http::Uri;

use super::path;
use crate::kubelets::location::Stream;

/// Logs, terminals and forwarded ports: long-running in upstream's words, and their reader may pause (in a pager). Watches are
/// long-running too, but their head is answered soon, and their reader must take what comes.
pub(crate) fn is_stream(uri: &Uri) -> bool {
    path::parse(uri.path()).is_some_and(|it| Stream::of(&it).is_some())
}

#[cfg(test)]
mod tests {
    use super::is_stream;

    #[test]
    fn only_streams_of_pods_take_as_long_as_they_like() {
        let check = |uri: &str, expected| {
            assert_eq!(is_stream(&uri.parse().unwrap()), expected, "{uri}");
        };
        check("/api/v1/namespaces/a/pods/b/log?follow=true", true);
        check("/api/v1/namespaces/a/pods/b/%65xec?command=sh", true);
        check("/api/v1/namespaces/a/pods/log", false);
        check("/api/v1/namespaces/a/services/b/log", false);
        check("/apis/example.com/v1/namespaces/a/pods/b/log", false);
        check("/api/v1/pods?watch=true", false);
        check("/livez", false);
    }
}
