//! Which requests may take as long as they like.

use http::Uri;

use super::elsewhere;
use super::path::{self, ResourcePath};
use crate::pipeline::Core;
use crate::registry::Registry;

/// Logs, terminals and forwarded ports: long-running in upstream's words, and their reader may
/// pause (in a pager). Watches are long-running too, but their head is answered soon, and their
/// reader must take what comes.
pub(super) fn is_stream(core: &Core, uri: &Uri) -> bool {
    match core.aggregated.find_path(uri.path()) {
        Some(_) => path::parse_any(uri.path()).is_some_and(|it| elsewhere::leads_to_stream(&it)),
        None => is_own_stream(&core.registry, uri),
    }
}

fn is_own_stream(registry: &Registry, uri: &Uri) -> bool {
    path::parse(uri.path()).is_some_and(|it| leads_to_stream(registry, &it))
}

fn leads_to_stream(registry: &Registry, target: &ResourcePath) -> bool {
    let Some(name) = &target.subresource else { return false };
    let kinds = registry.kinds();
    let subresources = kinds.find(&target.resource).map(|it| it.subresources());
    subresources.into_iter().flatten().any(|it| it.name == name && it.is_stream())
}

#[cfg(test)]
mod tests {
    use super::is_own_stream;
    use crate::registry::Registry;

    #[test]
    fn only_streams_of_pods_take_as_long_as_they_like() {
        let registry = Registry::new(api::kinds());
        let check = |uri: &str, expected| {
            assert_eq!(is_own_stream(&registry, &uri.parse().unwrap()), expected, "{uri}");
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
