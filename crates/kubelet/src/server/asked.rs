//! What a request asks for. Its path is read here, once: what is authorized and what is answered
//! are this one value.

use http::Method;
use percent_encoding::percent_decode_str;

/// The container, or for `PortForward` the pod, that a stream is to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// Empty if the client does not care.
    pub(crate) uid: String,
    /// Empty for a pod.
    pub(crate) container: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Exec(Place),
    Attach(Place),
    PortForward(Place),
    ContainerLogs(Place),
    Healthz,
    Pods,
    Metrics,
    /// What is used by whom, as a page of metrics.
    ResourceMetrics,
    /// The same as a document.
    Summary,
    /// There is nothing. Whether a client may know that is asked for all the same.
    Missing(Area),
}

/// The parts of the kubelet that are permitted separately: KEP-2862, fine-grained kubelet
/// authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Stats,
    Metrics,
    Log,
    Spec,
    Checkpoint,
    Healthz,
    Configz,
    Pods,
    /// Everything that has no name of its own.
    Proxy,
}

/// A path that could be read in more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

impl Asked {
    /// Paths with empty segments, dots or slashes within a segment are refused, not put right:
    /// whatever is in front of us may put them right in another way. One slash at the end changes
    /// nothing.
    pub(crate) fn parse(path: &str) -> Result<Self, Ambiguous> {
        let path = path.strip_prefix('/').ok_or(Ambiguous)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<String> = path.split('/').map(segment).collect::<Result<_, _>>()?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Ok(match segments.as_slice() {
            ["exec", rest @ ..] => place(rest).map_or(Self::MISSING, Self::Exec),
            ["attach", rest @ ..] => place(rest).map_or(Self::MISSING, Self::Attach),
            ["portForward", rest @ ..] => pod(rest).map_or(Self::MISSING, Self::PortForward),
            ["containerLogs", rest @ ..] if rest.len() == 3 => {
                place(rest).map_or(Self::MISSING, Self::ContainerLogs)
            }
            ["healthz"] | ["healthz", "ping"] => Self::Healthz,
            ["pods"] | ["runningpods"] => Self::Pods,
            ["metrics"] => Self::Metrics,
            ["metrics", "resource"] => Self::ResourceMetrics,
            ["stats", "summary"] => Self::Summary,
            [first, ..] => Self::Missing(Area::of(first)),
            [] => Self::MISSING,
        })
    }

    const MISSING: Self = Self::Missing(Area::Proxy);

    pub(crate) fn area(&self) -> Area {
        match self {
            Self::Exec(_) | Self::Attach(_) | Self::PortForward(_) | Self::ContainerLogs(_) => {
                Area::Proxy
            }
            Self::Healthz => Area::Healthz,
            Self::Pods => Area::Pods,
            Self::Metrics | Self::ResourceMetrics => Area::Metrics,
            Self::Summary => Area::Stats,
            Self::Missing(area) => *area,
        }
    }

    /// The verb that must be permitted: by method; but running commands is never only reading, also
    /// where WebSocket makes a GET of it. Upstream asks for `get` there, and so lets whoever may
    /// read `nodes/proxy` run commands in every pod.
    pub(crate) fn verb(&self, method: &Method) -> &'static str {
        match (self, method.as_str()) {
            (Self::Exec(_) | Self::Attach(_) | Self::PortForward(_), _) | (_, "POST") => "create",
            (_, "PUT") => "update",
            (_, "PATCH") => "patch",
            (_, "DELETE") => "delete",
            (_, "GET" | "HEAD") => "get",
            // Upstream asks for no verb at all here: only who may do everything may.
            _ => "*",
        }
    }
}

impl Area {
    fn of(first: &str) -> Self {
        match first {
            "stats" => Self::Stats,
            "metrics" => Self::Metrics,
            "logs" => Self::Log,
            "spec" => Self::Spec,
            "checkpoint" => Self::Checkpoint,
            "healthz" => Self::Healthz,
            "configz" => Self::Configz,
            "pods" | "runningpods" => Self::Pods,
            _ => Self::Proxy,
        }
    }

    /// Below `nodes`: any of these is enough, in the order in which they are tried.
    pub(crate) fn subresources(self) -> &'static [&'static str] {
        match self {
            Self::Stats => &["stats"],
            Self::Metrics => &["metrics"],
            Self::Log => &["log"],
            Self::Spec => &["spec"],
            Self::Checkpoint => &["checkpoint"],
            Self::Healthz => &["healthz", "proxy"],
            Self::Configz => &["configz", "proxy"],
            Self::Pods => &["pods", "proxy"],
            Self::Proxy => &["proxy"],
        }
    }
}

fn segment(text: &str) -> Result<String, Ambiguous> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| Ambiguous)?;
    let is_plain = !matches!(&*decoded, "" | "." | "..") && !decoded.contains(['/', '\\', '\0']);
    if is_plain { Ok(decoded.into_owned()) } else { Err(Ambiguous) }
}

/// `<namespace>/<pod>[/<uid>]/<container>`
fn place(segments: &[&str]) -> Option<Place> {
    let (container, pod_segments) = segments.split_last()?;
    Some(Place { container: (*container).to_owned(), ..pod(pod_segments)? })
}

/// `<namespace>/<pod>[/<uid>]`
fn pod(segments: &[&str]) -> Option<Place> {
    let (namespace, pod, uid) = match segments {
        [namespace, pod] => (namespace, pod, ""),
        [namespace, pod, uid] => (namespace, pod, *uid),
        _ => return None,
    };
    let text = |it: &str| it.to_owned();
    Some(Place {
        namespace: text(namespace),
        pod: text(pod),
        uid: text(uid),
        container: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;

    use super::{Area, Asked};

    #[test]
    fn requests_are_named_as_upstream_names_them() {
        for (method, path, expected) in [
            (Method::GET, "/pods", "get [\"pods\", \"proxy\"]"),
            (Method::GET, "/runningpods/", "get [\"pods\", \"proxy\"]"),
            (Method::GET, "/healthz/ping", "get [\"healthz\", \"proxy\"]"),
            (Method::GET, "/metrics/cadvisor", "get [\"metrics\"]"),
            (Method::GET, "/metrics/resource", "get [\"metrics\"]"),
            (Method::GET, "/stats/summary", "get [\"stats\"]"),
            (Method::GET, "/stats/container", "get [\"stats\"]"),
            (Method::GET, "/logs/messages", "get [\"log\"]"),
            (Method::POST, "/checkpoint/a/b/c", "create [\"checkpoint\"]"),
            (Method::GET, "/containerLogs/a/b/c", "get [\"proxy\"]"),
            (Method::POST, "/exec/a/b/c", "create [\"proxy\"]"),
            (Method::GET, "/exec/a/b/c", "create [\"proxy\"]"),
            (Method::GET, "/portForward/a/b", "create [\"proxy\"]"),
            (Method::OPTIONS, "/pods", "* [\"pods\", \"proxy\"]"),
            (Method::GET, "/", "refused"),
            (Method::GET, "/nothing", "get [\"proxy\"]"),
        ] {
            let named = Asked::parse(path).map_or_else(
                |_| "refused".to_owned(),
                |it| format!("{} {:?}", it.verb(&method), it.area().subresources()),
            );
            assert_eq!(named, expected, "{method} {path}");
        }
    }

    #[test]
    fn an_encoded_path_is_what_it_says() {
        for path in ["/%65xec/a/b/c", "/e%78ec/%61/b/c", "/exec/a/b/c/"] {
            assert_eq!(Asked::parse(path), Asked::parse("/exec/a/b/c"), "{path}");
        }
        let place = |path| match Asked::parse(path) {
            Ok(Asked::Exec(it)) => [it.namespace, it.pod, it.uid, it.container].join(" "),
            other => format!("{other:?}"),
        };
        assert_eq!(place("/exec/a/b/c"), "a b  c");
        assert_eq!(place("/exec/a/b/u/c"), "a b u c");
        // A word is a word only whole.
        assert_eq!(Asked::parse("/Exec/a/b/c"), Ok(Asked::Missing(Area::Proxy)));
        assert_eq!(Asked::parse("/metricsx"), Ok(Asked::Missing(Area::Proxy)));
    }

    #[test]
    fn a_path_that_can_be_read_in_two_ways_is_refused() {
        for path in [
            "//exec/a/b/c",
            "/metrics/../exec/a/b/c",
            "/metrics/%2e%2e/exec/a/b/c",
            "/metrics%2f..%2fexec/a/b/c",
            "/./exec/a/b/c",
            "/exec//b/c",
            "/exec/a/b/c//",
            "/exec/a/b/%ff",
            "/pods%00",
            "/pods%5c",
            "exec/a/b/c",
            "*",
            "",
        ] {
            assert!(Asked::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        /// What runs commands is never permitted as anything less.
        #[test]
        fn no_spelling_of_a_stream_is_cheaper(path in "/(exec|%65xec|pods|\\.\\.|metrics|//|%2f|[a-z/%0-9.]){0,4}") {
            if let Ok(asked @ (Asked::Exec(_) | Asked::Attach(_) | Asked::PortForward(_))) = Asked::parse(&path) {
                prop_assert_eq!(asked.area(), Area::Proxy);
                prop_assert_eq!(asked.verb(&Method::GET), "create");
            }
        }
    }
}
