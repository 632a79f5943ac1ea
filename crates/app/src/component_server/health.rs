//! `/healthz`, `/livez` and `/readyz`, and their single checks below them. What was found is counted
//! for `/metrics/slis`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use lifecycle::Tasks;
use telemetry::{Description, Registry, Stability};

const LAST: Description<2> = Description {
    name: "kubernetes_healthcheck",
    stability: Stability::Stable,
    help: "This metric records the result of a single healthcheck.",
    labels: ["name", "type"],
};

const ALL: Description<3> = Description {
    name: "kubernetes_healthchecks_total",
    stability: Stability::Stable,
    help: "This metric records the results of all healthcheck.",
    labels: ["name", "status", "type"],
};

/// One thing that may be wrong.
struct Check {
    name: String,
    /// Told to whoever asks for this one alone.
    failure: Option<String>,
}

impl Check {
    fn new(name: &str, failure: Option<String>) -> Self {
        Self { name: name.to_owned(), failure }
    }
}

/// What a component says of its own parts whenever it is asked.
#[derive(Clone)]
pub(crate) struct Health {
    parts: Arc<dyn Fn() -> Vec<Check> + Send + Sync>,
    troubles: Vec<(&'static str, Trouble)>,
}

/// What keeps a component from its work, for as long as it does. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    pub(crate) fn begin(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Health {
    /// Whoever answers at all is well.
    pub(crate) fn of_answering() -> Self {
        Self { parts: Arc::new(Vec::new), troubles: Vec::new() }
    }

    /// Parts that run as tasks below these, by name. One that was never seen to run is no check:
    /// another may lead, or it has nothing to do without a key or a feature.
    pub(crate) fn of_parts(tasks: &Tasks, parts: Vec<&'static str>) -> Self {
        let (tasks, seen) = (tasks.clone(), Mutex::new(BTreeSet::new()));
        let parts = Arc::new(move || {
            let running = tasks.names();
            let runs = |part: &str| running.iter().any(|it| it.split('/').any(|it| it == part));
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(parts.iter().filter(|it| runs(it)));
            let failure = |it: &str| (!runs(it)).then(|| format!("{it} does not run"));
            seen.iter().map(|it: &&str| Check::new(it, failure(it))).collect()
        });
        Self { parts, troubles: Vec::new() }
    }

    /// With a check of this name, which fails while there is trouble.
    #[must_use]
    pub(crate) fn unless(mut self, name: &'static str, trouble: &Trouble) -> Self {
        self.troubles.push((name, trouble.clone()));
        self
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = vec![Check::new("ping", None)];
        checks.extend(self.troubles.iter().map(|(name, it)| Check::new(name, it.now())));
        checks.extend((self.parts)());
        checks
    }

    /// `None` for a path that is none of these. Whoever asks for all checks has them counted.
    pub(super) fn answer(
        &self,
        path: &str,
        query: &str,
        slis: &Registry,
    ) -> Option<(StatusCode, String)> {
        let mut segments = path.trim_matches('/').split('/');
        let which = segments.next().filter(|it| matches!(*it, "healthz" | "livez" | "readyz"))?;
        let single = segments.next();
        if segments.next().is_some() {
            return None;
        }
        let checks = self.checks();
        if let Some(single) = single {
            let check = checks.into_iter().find(|it| it.name == single)?;
            return Some(match check.failure {
                None => (StatusCode::OK, "ok".to_owned()),
                Some(failure) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("internal server error: {failure}\n"),
                ),
            });
        }
        Some(all(which, &checks, query, slis))
    }
}

fn all(which: &str, checks: &[Check], query: &str, slis: &Registry) -> (StatusCode, String) {
    let pairs = || query.split('&').map(|it| it.split_once('=').unwrap_or((it, "")));
    let is_excluded = |name: &str| pairs().any(|it| it == ("exclude", name));
    for Check { name, failure } in checks.iter().filter(|it| !is_excluded(&it.name)) {
        let status = if failure.is_none() { "success" } else { "error" };
        slis.gauges(&LAST).with([name, which]).set(f64::from(u8::from(failure.is_none())));
        slis.counters(&ALL).with([name, status, which]).increment();
    }
    let is_ok = checks.iter().all(|it| it.failure.is_none() || is_excluded(&it.name));
    if is_ok && !pairs().any(|(key, _)| key == "verbose") {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for Check { name, failure } in checks {
        let _ = match (is_excluded(name), failure) {
            (true, _) => writeln!(text, "[+]{name} excluded: ok"),
            (false, None) => writeln!(text, "[+]{name} ok"),
            (false, Some(_)) => writeln!(text, "[-]{name} failed: reason withheld"),
        };
    }
    let (status, verdict) = match is_ok {
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    };
    let _ = writeln!(text, "{which} check {verdict}");
    (status, text)
}

#[cfg(test)]
mod tests {
    use lifecycle::Tasks;
    use telemetry::Registry;

    use super::{Health, Trouble};

    fn check(health: &Health, uri: &str, expected: Option<(u16, &str)>) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let answer = health
            .answer(path, query, &Registry::default())
            .map(|(status, text)| (status.as_u16(), text));
        let expected = expected.map(|(status, text)| (status, text.to_owned()));
        assert_eq!(answer, expected, "{uri}");
    }

    #[tokio::test]
    async fn each_part_that_runs_is_a_check() {
        let tasks = Tasks::new();
        let parts = vec!["job-controller", "ttl-controller"];
        let health = Health::of_parts(&tasks, parts);
        check(&health, "/healthz", Some((200, "ok")));
        check(&health, "/healthz/job-controller", None);
        let manager = tasks.child("controller-manager");
        let controller = |name: &str| {
            let controller = manager.child(name);
            controller.spawn("worker", |shutdown| async move { shutdown.cancelled().await });
            controller
        };
        controller("job-controller");
        check(&health, "/healthz/job-controller", Some((200, "ok")));
        check(&health, "/healthz/ttl-controller", None);
        let ttl = controller("ttl-controller");
        check(&health, "/healthz", Some((200, "ok")));
        ttl.cancel();
        while tasks.names().len() > 1 {
            tokio::task::yield_now().await;
        }
        let failed = "internal server error: ttl-controller does not run\n";
        check(&health, "/healthz/ttl-controller", Some((500, failed)));
        let all = "[+]ping ok\n[+]job-controller ok\n[-]ttl-controller failed: reason withheld\n\
                   healthz check failed\n";
        check(&health, "/healthz", Some((500, all)));
        check(&health, "/readyz?exclude=ttl-controller", Some((200, "ok")));
        check(&health, "/healthz/job-controller/0", None);
        check(&health, "/metrics", None);
        tasks.cancel();
    }

    #[test]
    fn who_has_no_parts_is_well_when_it_answers() {
        let health = Health::of_answering();
        check(&health, "/livez?verbose", Some((200, "[+]ping ok\nlivez check passed\n")));
    }

    #[test]
    fn trouble_is_a_check_that_fails_until_it_is_over() {
        let trouble = Trouble::default();
        let health = Health::of_answering().unless("controllers", &trouble);
        check(&health, "/healthz", Some((200, "ok")));
        trouble.begin("the controllers did not start: no token".to_owned());
        let failed = "internal server error: the controllers did not start: no token\n";
        check(&health, "/healthz/controllers", Some((500, failed)));
        let all = "[+]ping ok\n[-]controllers failed: reason withheld\nlivez check failed\n";
        check(&health, "/livez", Some((500, all)));
        trouble.end();
        check(&health, "/healthz/controllers", Some((200, "ok")));
        check(&health, "/livez", Some((200, "ok")));
    }

    #[test]
    fn what_was_found_is_counted() {
        let (health, slis) = (Health::of_answering(), Registry::default());
        for path in ["/livez", "/livez", "/readyz", "/livez/ping"] {
            health.answer(path, "", &slis).unwrap();
        }
        health.answer("/healthz", "exclude=ping", &slis).unwrap();
        let page = slis.render();
        for line in [
            r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
            r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2"#,
            r#"kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 1"#,
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
        assert!(!page.contains("healthz\""), "{page}");
    }
}
