//! What a request to the kubelet is called when the API server is asked for permission.

use http::Method;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    /// By method; but running commands is never only reading, also where WebSocket makes a GET of it. Upstream asks
    /// for `get` there, and so lets whoever may read `nodes/proxy` run commands in every pod.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        match (method.as_str(), first_segment(path)) {
            (_, "exec" | "attach" | "portForward" | "run") => Self::Create,
            ("POST", _) => Self::Create,
            ("PUT", _) => Self::Update,
            ("PATCH", _) => Self::Patch,
            ("DELETE", _) => Self::Delete,
            _ => Self::Get,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

fn first_segment(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// Below `nodes`, in the order in which they are tried: KEP-2862, fine-grained kubelet authorization.
pub(super) fn subresources(path: &str) -> Vec<&'static str> {
    match first_segment(path) {
        "stats" => vec!["stats"],
        "metrics" => vec!["metrics"],
        "logs" => vec!["log"],
        "spec" => vec!["spec"],
        "checkpoint" => vec!["checkpoint"],
        "healthz" => vec!["healthz", "proxy"],
        "configz" => vec!["configz", "proxy"],
        "pods" | "runningpods" => vec!["pods", "proxy"],
        _ => vec!["proxy"],
    }
}
