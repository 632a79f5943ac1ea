//! What the ConfigMap lacks. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::core::ConfigMap;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// Two servers of which one does not want it do not fight over it.
const BETWEEN_CREATIONS: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Wait(Duration),
    Create(Box<ConfigMap>),
    Update(Box<ConfigMap>),
}

/// `created`: when this server made it the last time.
pub(super) fn plan(
    stored: Option<&ConfigMap>,
    created: Option<Timestamp>,
    now: Timestamp,
) -> Action {
    let Some(stored) = stored else {
        let since = created.map(|it| now.duration_since(it));
        let pause = SignedDuration::try_from(BETWEEN_CREATIONS).unwrap_or(SignedDuration::MAX);
        if let Some(left) = since.map(|it| pause.saturating_sub(it)).filter(|it| it.is_positive()) {
            return Action::Wait(Duration::try_from(left).unwrap_or_default());
        }
        return Action::Create(Box::new(tracked_since(now)));
    };
    let since = stored.data.as_ref().and_then(|it| it.get(SINCE));
    if since.is_some_and(|it| is_day(it)) {
        return Action::Nothing;
    }
    let mut map = stored.clone();
    map.data.get_or_insert_default().insert(SINCE.to_owned(), day_of(now));
    Action::Update(Box::new(map))
}

pub(super) fn tracked_since(now: Timestamp) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        ..ObjectMeta::default()
    };
    let data = Some(BTreeMap::from([(SINCE.to_owned(), day_of(now))]));
    ConfigMap { metadata, data, ..ConfigMap::default() }
}

fn day_of(now: Timestamp) -> String {
    now.to_zoned(TimeZone::UTC).date().to_string()
}

/// `2026-01-31`, and no other form.
fn is_day(text: &str) -> bool {
    text.parse::<Date>().is_ok_and(|it| it.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T12:00:00Z".parse().unwrap()
    }

    fn check(since: Option<&str>, created: Option<i64>, expected: &str) {
        let stored = since.map(|it| ConfigMap {
            data: Some(BTreeMap::from([
                ("since".to_owned(), it.to_owned()),
                ("more".to_owned(), "kept".to_owned()),
            ])),
            ..ConfigMap::default()
        });
        let created = created.map(|it| now() - SignedDuration::from_secs(it));
        let said = match plan(stored.as_ref(), created, now()) {
            Action::Create(map) => format!("create {:?}", map.data.unwrap()),
            Action::Update(map) => format!("update {:?}", map.data.unwrap()),
            other => format!("{other:?}"),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_map_that_is_missing_is_made_once_in_half_an_hour() {
        check(None, None, r#"create {"since": "2026-01-31"}"#);
        check(None, Some(1), "Wait(1799s)");
        check(None, Some(1800), r#"create {"since": "2026-01-31"}"#);
    }

    #[test]
    fn a_day_that_cannot_be_read_is_today() {
        check(Some("2025-12-01"), None, "Nothing");
        let updated = r#"update {"more": "kept", "since": "2026-01-31"}"#;
        check(Some("soon"), None, updated);
        check(Some(""), Some(1), updated);
    }
}
