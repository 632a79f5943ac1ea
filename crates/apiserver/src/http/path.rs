//! What a URL path is about.

use apimachinery::{GroupVersion, GroupVersionResource};

/// A path below `/api/v1` or `/apis/group/version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) resource: GroupVersionResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The deprecated `/watch/` form.
    pub(crate) is_watch: bool,
}

/// `None`: not a resource.
pub(crate) fn parse(path: &str) -> Option<ResourcePath> {
    let (target, is_deeper) = split(path)?;
    // What is below a proxy is for whoever is behind it.
    (!is_deeper || target.subresource.as_deref() == Some("proxy")).then_some(target)
}

/// Of another server, which may have paths that go deeper: what those are about.
pub(crate) fn parse_any(path: &str) -> Option<ResourcePath> {
    split(path).map(|it| it.0)
}

/// And whether there is more to the path.
fn split(path: &str) -> Option<(ResourcePath, bool)> {
    let mut segments = path.trim_matches('/').split('/').map(decode);
    let group_version = match segments.next()?.as_str() {
        "api" => GroupVersion::new("", segments.next()?),
        "apis" => GroupVersion::new(segments.next()?, segments.next()?),
        _ => return None,
    };
    let mut rest: Vec<String> = segments.collect();
    let is_watch = rest.first().is_some_and(|it| it == "watch") && rest.len() > 1;
    if is_watch {
        rest.remove(0);
    }
    let mut namespace = None;
    // `/namespaces/x` is the namespace itself; `/namespaces/x/pods` is inside it; its own
    // subresources are its.
    if rest.len() > 2
        && rest[0] == "namespaces"
        && !matches!(rest[2].as_str(), "status" | "finalize")
    {
        namespace = Some(rest[1].clone());
        rest.drain(..2);
    }
    let mut rest = rest.into_iter();
    let resource = rest.next().filter(|it| !it.is_empty())?;
    let name = rest.next();
    let subresource = rest.next();
    let is_deeper = rest.next().is_some();
    let resource = GroupVersionResource::new(group_version.group, group_version.version, resource);
    Some((ResourcePath { resource, namespace, name, subresource, is_watch }, is_deeper))
}

fn decode(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn check(path: &str, expected: &str) {
        let text = parse(path).map_or_else(
            || "none".to_owned(),
            |it| {
                format!(
                    "{} {} {} {} {}",
                    it.resource.group_version(),
                    it.resource.resource,
                    it.namespace.as_deref().unwrap_or("-"),
                    it.name.as_deref().unwrap_or("-"),
                    it.subresource.as_deref().unwrap_or("-")
                )
            },
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn paths_name_resources() {
        check("/api/v1/pods", "v1 pods - - -");
        check("/api/v1/namespaces/a/pods/b/status", "v1 pods a b status");
        check("/api/v1/namespaces/a", "v1 namespaces - a -");
        check("/api/v1/namespaces/a/finalize", "v1 namespaces - a finalize");
        check("/apis/apps/v1/namespaces/a/deployments", "apps/v1 deployments a - -");
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "rbac.authorization.k8s.io/v1 clusterroles - system:node -",
        );
        check("/api/v1/namespaces/a/pods/b/proxy", "v1 pods a b proxy");
        check("/api/v1/namespaces/a/pods/https:b:80/proxy/x/y/", "v1 pods a https:b:80 proxy");
        check("/api/v1/nodes/b/proxy/metrics", "v1 nodes - b proxy");
        check("/api/v1/nodes/b/status/metrics", "none");
        check("/apis/apps/v1", "none");
        check("/healthz", "none");
    }
}
