//! Events and moments in, refusals out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use api::core::Event;
use apimachinery::User;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stdx::Clock;

use super::EventRateLimit;
use crate::attributes::Operation;
use crate::configuration::{Configuration, Error};
use crate::plugins::fixture::{Case, Objects, decode};

/// Stands still until it is moved.
struct Still(Mutex<Timestamp>);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

impl Still {
    fn pass(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

fn plugin(limits: &Value) -> Result<(EventRateLimit, Arc<Still>), Error> {
    let settings = json!({
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": limits,
    });
    let text = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "EventRateLimit", "path": "limits.yaml"}],
    });
    let files = Configuration::load(Path::new("/etc/admission.yaml"), move |path| {
        let is_list = path == Path::new("/etc/admission.yaml");
        Ok(if is_list { text.to_string() } else { settings.to_string() })
    })?;
    let clock = Arc::new(Still(Mutex::new(Timestamp::UNIX_EPOCH)));
    Ok((EventRateLimit::new(&files, clock.clone())?, clock))
}

/// An event about `object` that `user` writes.
fn write(plugin: &EventRateLimit, user: &str, object: &str) -> Result<(), String> {
    let user = User::new(user, &[]);
    let metadata = json!({"name": "web", "namespace": "ns"});
    let event: Event = decode(&json!({
        "metadata": metadata,
        "source": {"component": "kubelet", "host": "n"},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": object},
    }));
    let case = Case::of(Operation::Create, "/events", &user);
    let outcome = case.validate(plugin, Objects::default(), &event);
    outcome.map_err(|err| {
        assert_eq!(err.code(), 429);
        err.message().to_owned()
    })
}

#[test]
fn events_come_as_fast_as_they_may() {
    let limits = json!([{"type": "Server", "qps": 2, "burst": 3}]);
    let (plugin, clock) = plugin(&limits).unwrap();
    for _ in 0..3 {
        assert!(write(&plugin, "a", "p").is_ok());
    }
    assert_eq!(write(&plugin, "b", "q").unwrap_err(), "limit reached on type Server for key ");
    clock.pass(1);
    assert!(write(&plugin, "a", "p").is_ok() && write(&plugin, "a", "p").is_ok());
    assert!(write(&plugin, "a", "p").is_err());
    // No more is saved than the burst.
    clock.pass(1_000);
    assert_eq!((0..9).filter(|_| write(&plugin, "a", "p").is_ok()).count(), 3);
}

#[test]
fn each_key_has_an_allowance_of_its_own() {
    let limits = json!([
        {"type": "User", "qps": 1, "burst": 1},
        {"type": "SourceAndObject", "qps": 1, "burst": 2},
        {"type": "Namespace", "qps": 1, "burst": 9},
    ]);
    let (plugin, _) = plugin(&limits).unwrap();
    assert!(write(&plugin, "a", "p").is_ok() && write(&plugin, "b", "p").is_ok());
    assert_eq!(
        write(&plugin, "a", "p").unwrap_err(),
        "[limit reached on type User for key a, limit reached on type SourceAndObject for key kubeletnPodnsp]"
    );
    assert_eq!(write(&plugin, "a", "q").unwrap_err(), "limit reached on type User for key a");
}

#[test]
fn who_was_not_seen_for_long_is_forgotten() {
    let limits = json!([{"type": "User", "qps": 1, "burst": 1, "cacheSize": 2}]);
    let (plugin, _) = plugin(&limits).unwrap();
    assert!(write(&plugin, "a", "p").is_ok() && write(&plugin, "b", "p").is_ok());
    assert!(write(&plugin, "a", "p").is_err());
    assert!(write(&plugin, "c", "p").is_ok(), "in place of b");
    assert!(write(&plugin, "a", "p").is_err());
    assert!(write(&plugin, "b", "p").is_ok());
}

#[test]
fn limits_that_are_none_are_refused() {
    let check = |limits: Value, expected: &str| {
        let err = plugin(&limits).err().map(|it| stdx::error_chain(&it).to_string());
        let err = err.unwrap_or_default();
        assert!(err.contains(expected) && err.contains("/etc/limits.yaml, line 1"), "{err}");
    };
    check(json!([]), "must not be empty");
    check(json!([{"type": "Servant", "qps": 1, "burst": 1}]), "Servant");
    check(json!([{"type": "Server", "qps": 0, "burst": 1}]), "0: must be positive");
    check(json!([{"type": "Server", "qps": 1, "burst": -1}]), "-1: must be positive");
    check(json!([{"type": "User", "qps": 1, "burst": 1, "cacheSize": -1}]), "line 1");
    let clock: stdx::SharedClock = Arc::new(stdx::SystemClock);
    let err = EventRateLimit::new(&Configuration::default(), clock).err().unwrap().to_string();
    assert!(err.contains("EventRateLimit needs a configuration"), "{err}");
}
