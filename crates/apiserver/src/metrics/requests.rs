//! Requests: how many, how long, how large. A request looks up everything that it is counted by
//! once, when it is known what it is about; the rest are additions.
//!
//! As upstream's, a watch and a stream are counted when they end. Unlike upstream's, requests that
//! are refused before their kind is asked (401 excepted: nobody knows what they were about) are
//! counted, too.

use std::sync::{Arc, OnceLock};

use apimachinery::GroupVersionResource;
use client::Verb;
use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Interner, Registry, Stability,
    exponential,
};
use tokio::time::Instant;

use super::elsewhere::TERMINATIONS;
use super::in_flight::Peak;
use crate::registry::Kinds;

pub(super) const TOTAL: Description<9> = Description {
    name: "apiserver_request_total",
    stability: Stability::Stable,
    help: "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, \
           component, and HTTP response code.",
    labels: [
        "verb",
        "dry_run",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
        "code",
    ],
};
const DURATION: Description<8> = Description {
    name: "apiserver_request_duration_seconds",
    stability: Stability::Stable,
    help: "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, \
           scope and component.",
    labels: [
        "verb",
        "dry_run",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
    ],
};
const SIZES: Description<7> = Description {
    name: "apiserver_response_sizes",
    stability: Stability::Stable,
    help: "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
    labels: ["verb", "group", "version", "resource", "subresource", "scope", "component"],
};
const LONG_RUNNING: Description<7> = Description {
    name: "apiserver_longrunning_requests",
    stability: Stability::Stable,
    help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and \
           component. Not all requests are tracked this way.",
    labels: ["verb", "group", "version", "resource", "subresource", "scope", "component"],
};
const IN_FLIGHT: Description<1> = Description {
    name: "apiserver_current_inflight_requests",
    stability: Stability::Stable,
    help: "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
    labels: ["request_kind"],
};
/// The store's are the same, so that both can be held against each other.
pub(super) const DURATION_BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const SIZE_BOUNDS: [f64; 7] = exponential(1000.0, 10.0);

const COMPONENT: &str = "apiserver";

/// Answers that are counted without a second look-up.
const CODES: [u16; 12] = [200, 201, 202, 400, 403, 404, 409, 410, 422, 429, 500, 504];

/// What a request is about.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a GroupVersionResource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) is_dry_run: bool,
    pub(crate) is_apply: bool,
}

pub(crate) struct Requests {
    total: Family<Counter, 9>,
    duration: Family<Histogram, 8>,
    sizes: Family<Histogram, 7>,
    long_running: Family<Gauge, 7>,
    in_flight: Family<Gauge, 1>,
    terminations: Family<Counter, 8>,
    /// By the labels of `duration`.
    series: Interner<Series, 8>,
    readonly: Peak,
    mutating: Peak,
    /// What seconds are counted from.
    epoch: Instant,
}

struct Series {
    labels: [Box<str>; 8],
    counts: [OnceLock<Arc<Counter>>; CODES.len()],
    duration: Arc<Histogram>,
    /// Of reads alone.
    sizes: Option<Arc<Histogram>>,
    /// Of watches and streams alone, which are not in flight.
    long_running: Option<Arc<Gauge>>,
    is_mutating: bool,
}

/// A request under way. What is long-running is counted when this is dropped, the others by
/// `finish` alone: nobody saw an answer of a request that was given up.
pub(crate) struct Recording {
    requests: Arc<Requests>,
    series: Arc<Series>,
    start: Instant,
    is_counted: bool,
}

impl Requests {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            total: registry.counters(&TOTAL),
            duration: registry.histograms(&DURATION, Buckets::seconds(&DURATION_BOUNDS)),
            sizes: registry.histograms(&SIZES, Buckets::units(&SIZE_BOUNDS)),
            long_running: registry.gauges(&LONG_RUNNING),
            in_flight: registry.gauges(&IN_FLIGHT),
            terminations: registry.counters(&TERMINATIONS),
            series: Interner::default(),
            readonly: Peak::default(),
            mutating: Peak::default(),
            epoch: Instant::now(),
        }
    }

    /// `None` for what is not served: clients could make up any number of labels.
    pub(crate) fn begin(self: &Arc<Self>, about: About<'_>, kinds: &Kinds) -> Option<Recording> {
        let labels = labels_of(&about);
        let series = match self.series.find(labels) {
            Some(series) => series,
            None if is_served(&about, kinds) => {
                self.series.get(labels, |labels| self.new_series(labels))
            }
            None => return None,
        };
        Some(self.record(series))
    }

    /// A path that is no resource; upstream counts its health checks.
    pub(crate) fn begin_path(self: &Arc<Self>, path: &str) -> Option<Recording> {
        let is_counted = matches!(path, "/healthz" | "/livez" | "/readyz");
        let labels = ["GET", "", "", "", "", path, "", ""];
        is_counted.then(|| self.record(self.series.get(labels, |labels| self.new_series(labels))))
    }

    fn record(self: &Arc<Self>, series: Arc<Series>) -> Recording {
        let start = Instant::now();
        match &series.long_running {
            Some(gauge) => gauge.add(1.0),
            None => self.peak(&series).enter(self.second(start)),
        }
        Recording { requests: self.clone(), series, start, is_counted: false }
    }

    fn new_series(&self, labels: [&str; 8]) -> Series {
        let [verb, _, group, version, resource, subresource, scope, component] = labels;
        let without_dry_run = [verb, group, version, resource, subresource, scope, component];
        let (is_read, is_long_running) =
            (matches!(verb, "GET" | "LIST"), matches!(verb, "WATCH" | "CONNECT"));
        Series {
            labels: labels.map(Box::from),
            counts: Default::default(),
            duration: self.duration.with(labels),
            sizes: is_read.then(|| self.sizes.with(without_dry_run)),
            long_running: is_long_running.then(|| self.long_running.with(without_dry_run)),
            is_mutating: !is_read && !is_long_running,
        }
    }

    fn count(&self, series: &Series, code: u16) {
        let counter = || {
            let [verb, dry_run, group, version, resource, subresource, scope, component] =
                series.labels.each_ref().map(|it| &**it);
            let code = code.to_string();
            let labels =
                [verb, dry_run, group, version, resource, subresource, scope, component, &code];
            self.total.with(labels)
        };
        match CODES.iter().position(|it| *it == code) {
            Some(index) => series.counts[index].get_or_init(counter).increment(),
            None => counter().increment(),
        }
    }

    fn peak(&self, series: &Series) -> &Peak {
        if series.is_mutating { &self.mutating } else { &self.readonly }
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_secs()
    }

    pub(super) fn show_in_flight(&self) {
        let second = self.second(Instant::now());
        for (kind, peak) in [("readOnly", &self.readonly), ("mutating", &self.mutating)] {
            self.in_flight.with([kind]).set(peak.at(second) as f64);
        }
    }
}

impl Recording {
    /// There was no room for it.
    pub(crate) fn turned_away(&self) {
        let [verb, _, group, version, resource, subresource, scope, component] =
            self.series.labels.each_ref().map(|it| &**it);
        let labels = [verb, group, version, resource, subresource, scope, component, "429"];
        self.requests.terminations.with(labels).increment();
    }

    /// The answer is made; `size` is unknown for one that is compressed as it is sent.
    pub(crate) fn finish(mut self, code: u16, size: Option<u64>) {
        self.count(code);
        if let (Some(sizes), Some(size)) = (&self.series.sizes, size) {
            sizes.observe_units(size);
        }
    }

    fn count(&mut self, code: u16) {
        self.is_counted = true;
        self.requests.count(&self.series, code);
        self.series.duration.observe(self.start.elapsed());
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let long_running = self.series.long_running.clone();
        match long_running {
            Some(gauge) => {
                gauge.add(-1.0);
                if !self.is_counted {
                    self.count(200);
                }
            }
            None => self.requests.peak(&self.series).leave(),
        }
    }
}

fn labels_of<'a>(about: &About<'a>) -> [&'a str; 8] {
    let subresource = about.subresource.unwrap_or_default();
    let verb = match about.verb {
        _ if matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy") => {
            "CONNECT"
        }
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch if about.is_apply => "APPLY",
        Verb::Patch => "PATCH",
        // Upstream tells them apart by their scope.
        Verb::Delete | Verb::DeleteCollection => "DELETE",
        Verb::Options => "OPTIONS",
    };
    let scope = match about {
        _ if about.name.is_some() || about.verb == Verb::Create => "resource",
        _ if about.namespace.is_some() => "namespace",
        _ => "cluster",
    };
    let GroupVersionResource { group, version, resource } = about.resource;
    let dry_run = if about.is_dry_run { "All" } else { "" };
    [verb, dry_run, group, version, resource, subresource, scope, COMPONENT]
}

fn is_served(about: &About<'_>, kinds: &Kinds) -> bool {
    let Some(kind) = kinds.find(about.resource) else { return false };
    about.subresource.is_none_or(|name| kind.subresources().iter().any(|it| it.name == name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apimachinery::GroupVersionResource;
    use client::Verb;
    use telemetry::Registry;

    use super::{About, Requests, labels_of};
    use crate::registry::Registry as Served;

    fn about<'a>(resource: &'a GroupVersionResource, verb: Verb) -> About<'a> {
        About {
            verb,
            resource,
            namespace: None,
            name: None,
            subresource: None,
            is_dry_run: false,
            is_apply: false,
        }
    }

    #[test]
    fn verbs_and_scopes_are_upstream_s() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let check = |about: About<'_>, verb: &str, scope: &str| {
            let labels = labels_of(&about);
            assert_eq!((labels[0], labels[6]), (verb, scope));
        };
        let of = |verb| about(&pods, verb);
        check(of(Verb::List), "LIST", "cluster");
        check(About { namespace: Some("a"), ..of(Verb::List) }, "LIST", "namespace");
        check(About { namespace: Some("a"), ..of(Verb::Create) }, "POST", "resource");
        check(About { name: Some("web"), ..of(Verb::Get) }, "GET", "resource");
        check(About { name: Some("web"), is_apply: true, ..of(Verb::Patch) }, "APPLY", "resource");
        check(About { namespace: Some("a"), ..of(Verb::DeleteCollection) }, "DELETE", "namespace");
        let log = About { name: Some("web"), subresource: Some("log"), ..of(Verb::Get) };
        check(log, "CONNECT", "resource");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_counted_by_what_came_of_it() {
        let (registry, served) = (Registry::default(), Served::new(api::kinds()));
        let (requests, kinds) = (Arc::new(Requests::new(&registry)), served.kinds());
        let pods = GroupVersionResource::new("", "v1", "pods");
        let begin = |about| requests.begin(about, &kinds);
        for code in [200, 404, 418] {
            begin(about(&pods, Verb::List)).unwrap().finish(code, Some(5_000));
        }
        // Given up.
        drop(begin(about(&pods, Verb::List)));
        let watch = begin(about(&pods, Verb::Watch)).unwrap();
        let listing = begin(about(&pods, Verb::List)).unwrap();
        requests.show_in_flight();
        let check = |expected: &[&str], unexpected: &str| {
            let page = registry.render();
            for line in expected {
                assert!(page.lines().any(|it| it == *line), "{line} is not in\n{page}");
            }
            assert!(!page.contains(unexpected), "{page}");
        };
        let of = |name: &str, verb: &str, code: &str, value: u32| {
            let code = if code.is_empty() { String::new() } else { format!("code=\"{code}\",") };
            let dry_run = if name.contains("long") { "" } else { "dry_run=\"\"," };
            format!(
                "{name}{{{code}component=\"apiserver\",{dry_run}group=\"\",resource=\"pods\",scope=\"cluster\",\
                 subresource=\"\",verb=\"{verb}\",version=\"v1\"}} {value}"
            )
        };
        let long_running = |count| of("apiserver_longrunning_requests", "WATCH", "", count);
        check(
            &[
                &of("apiserver_request_total", "LIST", "200", 1),
                &of("apiserver_request_total", "LIST", "404", 1),
                &of("apiserver_request_total", "LIST", "418", 1),
                &of("apiserver_request_duration_seconds_count", "LIST", "", 3),
                &long_running(1),
                "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
                "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0",
            ],
            &of("apiserver_request_total", "WATCH", "200", 1),
        );
        listing.turned_away();
        let ended = "apiserver_request_terminations_total{code=\"429\",component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1";
        check(&[ended], "POST");
        drop((watch, listing));
        check(&[&of("apiserver_request_total", "WATCH", "200", 1), &long_running(0)], "POST");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_served_is_not_counted() {
        let (registry, served) = (Registry::default(), Served::new(api::kinds()));
        let (requests, kinds) = (Arc::new(Requests::new(&registry)), served.kinds());
        let pods = GroupVersionResource::new("", "v1", "pods");
        let cats = GroupVersionResource::new("example.com", "v1", "cats");
        assert!(requests.begin(about(&cats, Verb::List), &kinds).is_none());
        let made_up = About { name: Some("a"), subresource: Some("x"), ..about(&pods, Verb::Get) };
        assert!(requests.begin(made_up, &kinds).is_none());
        assert!(requests.begin_path("/x").is_none());
        requests.begin_path("/readyz").unwrap().finish(200, None);
        assert!(registry.render().contains(r#"subresource="/readyz",verb="GET",version=""} 1"#));
    }
}
