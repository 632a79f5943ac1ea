//! What a request for another server is about, for the metrics.
//!
//! Paths come from clients: a resource is named if its server says that it has it.

use apimachinery::GroupVersion;
use http::request::Parts as Head;
use http::{Method, header};

use super::path;
use super::query::Query;
use crate::aggregated::Told;
use crate::metrics::Subject;

/// `told` is what the server of the version says that it has, if it said anything.
pub(crate) fn subject(head: &Head, version: &GroupVersion, told: Option<&Told>) -> Subject {
    let query = Query::parse(head.uri.query());
    let dry_run = if query.get("dryRun").is_some() { "All" } else { "" };
    let Some(target) = path::parse_any(head.uri.path()) else {
        let (verb, subresource) = (verb_of(head, "", ""), format!("/apis/{version}"));
        let (group_version, resource) = (None, String::new());
        return Subject { verb, dry_run, group_version, resource, subresource, scope: "" };
    };
    let scope = match &target {
        _ if target.name.is_some() || head.method == Method::POST => "resource",
        _ if target.namespace.is_some() => "namespace",
        _ => "cluster",
    };
    let subresource = target.subresource.unwrap_or_default();
    let resource = target.resource.resource;
    let verb = match target.is_watch || (scope != "resource" && query.flag("watch")) {
        true => "WATCH",
        false => verb_of(head, scope, &subresource),
    };
    let is_known = told.is_some_and(|it| it.has(&resource, &subresource));
    let known = |it: String| if is_known { it } else { String::new() };
    let (resource, subresource) = (known(resource), known(subresource));
    let group_version = Some(version.clone());
    Subject { verb, dry_run, group_version, resource, subresource, scope }
}

fn verb_of(head: &Head, scope: &str, subresource: &str) -> &'static str {
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    match head.method.as_str() {
        _ if matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy") => {
            "CONNECT"
        }
        "GET" | "HEAD" if matches!(scope, "cluster" | "namespace") => "LIST",
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" if kind == Some(client::PatchKind::Apply.content_type()) => "APPLY",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_its_server_has_is_named() {
        let version = GroupVersion::new("a.org", "v1");
        let resources = r#"[{"resource": "cats", "subresources": [{"subresource": "log"}]}]"#;
        let told = Told::default().with_resources(resources.into());
        let check = |method: &str, uri: &str, expected: &str| {
            let request = http::Request::builder().method(method).uri(uri);
            let (head, ()) = request.body(()).unwrap().into_parts();
            let it = subject(&head, &version, Some(&told));
            let Subject { verb, dry_run, resource, subresource, scope, .. } = it;
            assert_eq!(
                [verb, dry_run, &resource, &subresource, scope].join(","),
                expected,
                "{uri}"
            );
        };
        let base = "/apis/a.org/v1";
        check("GET", base, "GET,,,/apis/a.org/v1,");
        check("GET", &format!("{base}/"), "GET,,,/apis/a.org/v1,");
        check("GET", &format!("{base}/cats"), "LIST,,cats,,cluster");
        check("HEAD", &format!("{base}/namespaces/n/cats"), "LIST,,cats,,namespace");
        check("GET", &format!("{base}/namespaces/n/cats?watch=1"), "WATCH,,cats,,namespace");
        check("GET", &format!("{base}/namespaces/n/cats/tom"), "GET,,cats,,resource");
        check("GET", &format!("{base}/cats/tom/log"), "CONNECT,,cats,log,resource");
        check("POST", &format!("{base}/cats?dryRun=All"), "POST,All,cats,,resource");
        check("BREW", &format!("{base}/cats/tom"), "other,,cats,,resource");
        check("GET", &format!("{base}/dogs"), "LIST,,,,cluster");
        check("GET", &format!("{base}/cats/tom/made-up"), "GET,,,,resource");
    }
}
