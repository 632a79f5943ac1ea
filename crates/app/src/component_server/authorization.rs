//! May they: paths that are for everybody, the group that may do everything, and else the API
//! server's word.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use apimachinery::User;
use client::reviews::{Access, Keep, Reviewer};
use http::Method;
use k8s_openapi::api::authorization::v1::NonResourceAttributes;

use super::Cluster;
use super::refused::Refused;
use crate::datastore::parse_duration;
use crate::switch;

/// May do everything, as the API server would say, too.
const MASTERS: &str = "system:masters";

#[derive(clap::Args, Clone)]
#[group(id = "authorization")]
pub(super) struct Flags {
    /// Whom to ask what callers may do; without it the server of --kubeconfig
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    authorization_kubeconfig: Option<PathBuf>,
    /// Paths that are answered without asking; those that end in * stand for all that begin so
    #[arg(long, value_name = "PATH,...", value_delimiter = ',')]
    #[arg(default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<OpenPath>,
    /// How long it is remembered that somebody may
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long it is remembered that somebody may not
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl Flags {
    pub(super) async fn start(&self, cluster: &Cluster<'_>) -> Result<Authorization> {
        let client = cluster.client(&self.authorization_kubeconfig).await?;
        let keep = Keep {
            tokens: Duration::ZERO,
            allowed: self.authorization_webhook_cache_authorized_ttl,
            denied: self.authorization_webhook_cache_unauthorized_ttl,
        };
        let open = self.authorization_always_allow_paths.clone();
        Ok(Authorization { open, reviewer: Reviewer::new(client, keep) })
    }
}

/// A path that is for everybody. What it begins with does not count: `healthz` is `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenPath {
    Exactly(String),
    Below(String),
}

impl FromStr for OpenPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (path, is_prefix) = match path.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (path, false),
        };
        if path.contains('*') {
            return Err(format!("only trailing * allowed in {text:?}"));
        }
        Ok(if is_prefix { Self::Below(path.to_owned()) } else { Self::Exactly(path.to_owned()) })
    }
}

impl OpenPath {
    fn has(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        match self {
            Self::Exactly(open) => path == open,
            Self::Below(prefix) => path.starts_with(prefix.as_str()),
        }
    }
}

pub(super) struct Authorization {
    open: Vec<OpenPath>,
    reviewer: Reviewer,
}

impl Authorization {
    pub(super) fn is_open(&self, path: &str) -> bool {
        self.open.iter().any(|it| it.has(path))
    }

    pub(super) async fn validate(
        &self,
        user: User,
        method: &Method,
        path: &str,
    ) -> Result<(), Refused> {
        if user.is_in(MASTERS) {
            return Ok(());
        }
        let attributes = NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(method.as_str().to_ascii_lowercase()),
        };
        let is_allowed = self.reviewer.access(&user, Access::Path(attributes)).await;
        if is_allowed.map_err(Refused::NoAnswer)? {
            return Ok(());
        }
        Err(Refused::Forbidden { user: user.name, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::OpenPath;

    #[test]
    fn open_paths_are_whole_ones_or_beginnings() {
        let check = |open: &str, path: &str, expected: bool| {
            let open: OpenPath = open.parse().unwrap();
            assert_eq!(open.has(path), expected, "{open:?} {path}");
        };
        check("/healthz", "/healthz", true);
        check("healthz", "/healthz", true);
        check("/healthz", "/healthz/ping", false);
        check("/healthz*", "/healthz/ping", true);
        check("/debug/*", "/debug", false);
        check("/*", "/metrics", true);
        check("/", "/", true);
        check("/", "/metrics", false);
        let refused = "/a*b".parse::<OpenPath>().unwrap_err();
        assert_eq!(refused, r#"only trailing * allowed in "/a*b""#);
    }
}
