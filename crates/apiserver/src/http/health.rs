//! `/healthz`, `/livez`, `/readyz`, and their single checks below them.
//!
//! Everybody may see which check fails; why it does is told below the check's own path, which takes
//! a permission.

use http::Response;

use super::query::Query;
use super::{Body, status};
use crate::pipeline::Core;

/// Upstream's name for the store, whichever engine it is.
const STORE: &str = "etcd";

/// One check: its name, and why it fails.
type Check = (String, Result<(), String>);

pub(super) async fn answer(core: &Core, path: &str, query: &Query) -> Option<Response<Body>> {
    let mut segments = path.trim_matches('/').split('/');
    let which = segments.next().filter(|it| matches!(*it, "healthz" | "livez" | "readyz"))?;
    let single = segments.next();
    if segments.next().is_some() {
        return None;
    }
    let checks = checks(core, which).await;
    if let Some(single) = single {
        let (_, result) = checks.into_iter().find(|(name, _)| name == single)?;
        return Some(match result {
            Ok(()) => status::text(200, "ok"),
            Err(why) => status::text(500, format!("internal server error: {why}\n")),
        });
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let is_ok =
        checks.iter().all(|(name, result)| result.is_ok() || excluded.contains(&name.as_str()));
    if is_ok && !query.flag("verbose") && query.get("verbose").is_none() {
        return Some(status::text(200, "ok"));
    }
    let mut text = String::new();
    for (name, result) in &checks {
        text.push_str(&match (excluded.contains(&name.as_str()), result) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, Ok(())) => format!("[+]{name} ok\n"),
            (false, Err(_)) => format!("[-]{name} failed: reason withheld\n"),
        });
    }
    text.push_str(&format!("{which} check {}\n", if is_ok { "passed" } else { "failed" }));
    Some(status::text(if is_ok { 200 } else { 500 }, text))
}

/// A live process may not be ready yet, and a restart frees no disk: only the other two ask for
/// that.
async fn checks(core: &Core, which: &str) -> Vec<Check> {
    let mut checks = vec![("ping".to_owned(), Ok(()))];
    if which == "livez" {
        return checks;
    }
    checks.push((STORE.to_owned(), core.cache.trouble().await.map_or(Ok(()), Err)));
    for (name, is_ready) in core.readiness.checks() {
        checks.push((name, if is_ready { Ok(()) } else { Err("not ready".to_owned()) }));
    }
    checks
}
