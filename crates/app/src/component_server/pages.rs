//! `/configz`, `/flagz` and `/statusz`: what a component was started with, and since when it runs.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{ArgMatches, Command};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// The flags of one command with their values, given or by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlagValues(Vec<(String, Vec<String>)>);

impl FlagValues {
    pub(crate) fn read(command: &Command, matches: &ArgMatches) -> Self {
        let flags = command.get_arguments().filter_map(|it| {
            let values = matches.try_get_raw(it.get_id().as_str()).ok().flatten();
            let values = values.into_iter().flatten().map(|it| it.to_string_lossy().into_owned());
            Some((it.get_long()?.to_owned(), values.collect()))
        });
        let mut flags: Vec<_> = flags.collect();
        flags.sort();
        Self(flags)
    }

    pub(super) fn render(&self, component: &str) -> String {
        let mut text = format!("{component} flags\nFor people to read: the form may change.\n\n");
        for (flag, values) in &self.0 {
            let _ = writeln!(text, "{flag}={}", values.join(","));
        }
        text
    }

    /// `None`: not given, and without a default.
    fn value(&self, flag: &str) -> Option<Value> {
        let (_, values) =
            self.0.iter().find(|(name, values)| name == flag && !values.is_empty())?;
        if flag == "controllers" {
            let each = values.iter().flat_map(|it| it.split(','));
            return Some(each.collect::<Vec<_>>().into());
        }
        let text = values.join(",");
        let number = text.parse::<i64>().ok().map(Value::from);
        let fraction = || text.parse::<f64>().ok().map(Value::from);
        let boolean = || text.parse::<bool>().ok().map(Value::from);
        let time = || text.parse().ok().map(|it| Value::from(render_duration(it)));
        let known = number.or_else(fraction).or_else(boolean).or_else(time);
        Some(known.unwrap_or_else(|| text.clone().into()))
    }
}

/// As Go prints one: `1h0m0s`.
fn render_duration(duration: SignedDuration) -> String {
    let Ok(duration) = Duration::try_from(duration) else { return format!("{duration:?}") };
    if duration < Duration::from_secs(1) {
        return if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") };
    }
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    let part = Duration::new(seconds, duration.subsec_nanos()).as_secs_f64();
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{part}s"),
        (0, minutes) => format!("{minutes}m{part}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{part}s"),
    }
}

/// Where upstream's configuration has what a flag says.
pub(crate) type Places = &'static [(&'static str, &'static [&'static str])];

/// A configuration that upstream's component would have been told in a file.
pub(crate) struct Configuration {
    /// Under which it is shown.
    pub(crate) name: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) places: Places,
}

impl Configuration {
    pub(super) fn render(&self, flags: &FlagValues) -> Value {
        let mut config = json!({"kind": self.kind, "apiVersion": self.api_version});
        for (flag, path) in self.places {
            let Some(value) = flags.value(flag) else { continue };
            let place = path.iter().fold(&mut config, |it, key| &mut it[*key]);
            *place = value;
        }
        let mut groups = Map::new();
        groups.insert(self.name.to_owned(), config);
        Value::Object(groups)
    }
}

pub(super) fn statusz(component: &str, started: Timestamp, now: Timestamp) -> String {
    let up = now.duration_since(started).as_secs().max(0);
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    format!(
        "{component} status\nFor people to read: the form may change.\n\n\
         Started: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
         Binary version: {}\nEmulation version: 1.36\n\
         Paths: /configz /flagz /healthz /livez /metrics /metrics/slis /readyz /statusz\n",
        crate::control_plane::KUBERNETES_VERSION.trim_start_matches('v'),
    )
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};
    use serde_json::json;

    use super::{Configuration, FlagValues, render_duration, statusz};

    #[test]
    fn flags_are_shown_as_they_are_and_as_configuration() {
        let flag = |name: &'static str, default: &'static str| {
            Arg::new(name).long(name).default_value(default)
        };
        let command = Command::new("test")
            .arg(flag("leader-elect", "true"))
            .arg(flag("controllers", "*,-ttl"))
            .arg(flag("concurrent-job-syncs", "5"))
            .arg(flag("lease", "15s"));
        let given = ["test", "--concurrent-job-syncs", "7"];
        let matches = command.clone().try_get_matches_from(given).unwrap();
        let flags = FlagValues::read(&command, &matches);
        let page = flags.render("test");
        assert!(
            page.ends_with(
                "\nconcurrent-job-syncs=7\ncontrollers=*,-ttl\nleader-elect=true\nlease=15s\n"
            ),
            "{page}"
        );
        let configuration = Configuration {
            name: "test.config",
            api_version: "test.config/v1",
            kind: "Test",
            places: &[
                ("concurrent-job-syncs", &["JobController", "ConcurrentJobSyncs"]),
                ("controllers", &["Generic", "Controllers"]),
                ("leader-elect", &["Generic", "LeaderElection", "leaderElect"]),
                ("lease", &["Generic", "LeaderElection", "leaseDuration"]),
                ("unknown", &["Unknown"]),
            ],
        };
        let generic = json!({
            "Controllers": ["*", "-ttl"],
            "LeaderElection": { "leaderElect": true, "leaseDuration": "15s" },
        });
        let expected = json!({
            "kind": "Test", "apiVersion": "test.config/v1",
            "Generic": generic, "JobController": { "ConcurrentJobSyncs": 7 },
        });
        assert_eq!(configuration.render(&flags), json!({ "test.config": expected }));
    }

    #[test]
    fn durations_are_shown_as_go_prints_them() {
        for (text, expected) in [
            ("0s", "0s"),
            ("500ms", "500ms"),
            ("90s", "1m30s"),
            ("5m", "5m0s"),
            ("8760h", "8760h0m0s"),
            ("1.5s", "1.5s"),
        ] {
            assert_eq!(render_duration(text.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_status_says_since_when() {
        let at = |text: &str| text.parse().unwrap();
        let page = statusz("test", at("2026-01-01T00:00:00Z"), at("2026-01-01T01:02:03Z"));
        assert!(page.contains("\nUp: 1 hr 02 min 03 sec\n"), "{page}");
    }
}
