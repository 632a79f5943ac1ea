//! Links of whoever is behind the proxy, so that they lead through the proxy again. Pure.

/// Where a client sees what is behind the proxy, and by which names that is known.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// `/api/v1/namespaces/a/pods/b/proxy`
    pub(super) prefix: String,
    /// By which the client called us.
    pub(super) host: String,
    /// By which we call whoever is behind.
    pub(super) target: String,
}

impl Links {
    /// A link that would leave the proxy although it means the same server; others stay.
    pub(super) fn rewrite(&self, link: &str) -> Option<String> {
        let Parts { origin, authority, path } = Parts::of(link)?;
        let is_target = authority == self.target;
        let is_same = authority.is_empty() || is_target || authority == self.host;
        if !is_same || path.starts_with("//") {
            return None;
        }
        // A client knows us by its own name for us, and cannot reach the target.
        let origin = if is_target { "" } else { origin };
        let below = path.strip_prefix(self.prefix.as_str());
        let is_below = below.is_some_and(|it| it.is_empty() || it.starts_with(['/', '?', '#']));
        match is_below {
            true => is_target.then(|| path.to_owned()),
            false => Some(format!("{origin}{}{path}", self.prefix)),
        }
    }
}

/// Of `http://host:1/x?y`: `http://host:1`, `host:1` and `/x?y`.
struct Parts<'a> {
    origin: &'a str,
    authority: &'a str,
    path: &'a str,
}

impl<'a> Parts<'a> {
    /// `None`: another scheme, or a link from where it stands.
    fn of(link: &'a str) -> Option<Self> {
        let start = ["http://", "https://"].into_iter().find(|it| link.starts_with(it));
        let Some(start) = start.map(str::len) else {
            let is_path = link.starts_with('/');
            return is_path.then_some(Self { origin: "", authority: "", path: link });
        };
        let end = link[start..].find(['/', '?', '#']).map_or(link.len(), |it| start + it);
        let (origin, path) = link.split_at(end);
        let path = if path.is_empty() { "/" } else { path };
        path.starts_with('/').then(|| Self { origin, authority: &origin[start..], path })
    }
}

#[cfg(test)]
mod tests {
    use super::Links;

    #[test]
    fn links_to_the_same_server_lead_through_the_proxy() {
        let links = Links {
            prefix: "/api/v1/namespaces/a/pods/b/proxy".to_owned(),
            host: "cluster:6443".to_owned(),
            target: "10.244.0.2:8080".to_owned(),
        };
        let check = |link: &str, expected: Option<&str>| {
            assert_eq!(links.rewrite(link).as_deref(), expected, "{link}");
        };
        check("/", Some("/api/v1/namespaces/a/pods/b/proxy/"));
        check("/x?y=/z#w", Some("/api/v1/namespaces/a/pods/b/proxy/x?y=/z#w"));
        check("http://10.244.0.2:8080/x", Some("/api/v1/namespaces/a/pods/b/proxy/x"));
        check(
            "http://10.244.0.2:8080/api/v1/namespaces/a/pods/b/proxy/x",
            Some("/api/v1/namespaces/a/pods/b/proxy/x"),
        );
        check(
            "https://cluster:6443",
            Some("https://cluster:6443/api/v1/namespaces/a/pods/b/proxy/"),
        );
        check("/api/v1/namespaces/a/pods/b/proxy/x", None);
        check(
            "/api/v1/namespaces/a/pods/b/proxyx",
            Some("/api/v1/namespaces/a/pods/b/proxy/api/v1/namespaces/a/pods/b/proxyx"),
        );
        check("http://example.com/x", None);
        check("//example.com/x", None);
        check("x", None);
        check("?x", None);
        check("#x", None);
        check("mailto:x", None);
        check("", None);
    }
}
