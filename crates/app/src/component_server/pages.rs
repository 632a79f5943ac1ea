//! `/configz`, `/flagz` and `/statusz`: what a component was started with, and since when it runs.

use std::fmt::Write as _;

use clap::{ArgMatches, Command};
use jiff::Timestamp;
use serde_json::{Map, Value};

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

    fn value(&self, flag: &str) -> Option<Value> {
        let (_, values) = self.0.iter().find(|(name, _)| name == flag)?;
        if flag == "controllers" {
            let each = values.iter().flat_map(|it| it.split(','));
            return Some(each.collect::<Vec<_>>().into());
        }
        let text = values.join(",");
        let number = text.parse::<i64>().ok().map(Value::from);
        let boolean = || text.parse::<bool>().ok().map(Value::from);
        Some(number.or_else(boolean).unwrap_or_else(|| text.clone().into()))
    }
}

/// Where upstream's configuration has what a flag says.
pub(crate) type Places = &'static [(&'static str, &'static [&'static str])];

/// A configuration under its group's name.
pub(super) fn configz(group: &str, places: Places, flags: &FlagValues) -> Value {
    let mut config = Value::Object(Map::new());
    for (flag, path) in places {
        let Some(value) = flags.value(flag) else { continue };
        let place = path.iter().fold(&mut config, |it, key| &mut it[*key]);
        *place = value;
    }
    let mut groups = Map::new();
    groups.insert(group.to_owned(), config);
    Value::Object(groups)
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

    use super::{FlagValues, configz, statusz};

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
        let config = configz(
            "test.config",
            &[
                ("concurrent-job-syncs", &["JobController", "ConcurrentJobSyncs"]),
                ("controllers", &["Generic", "Controllers"]),
                ("leader-elect", &["Generic", "LeaderElection", "LeaderElect"]),
                ("lease", &["Generic", "LeaderElection", "LeaseDuration"]),
                ("unknown", &["Unknown"]),
            ],
            &flags,
        );
        let generic = json!({
            "Controllers": ["*", "-ttl"],
            "LeaderElection": { "LeaderElect": true, "LeaseDuration": "15s" },
        });
        let jobs = json!({ "ConcurrentJobSyncs": 7 });
        assert_eq!(config, json!({ "test.config": { "Generic": generic, "JobController": jobs } }));
    }

    #[test]
    fn a_status_says_since_when() {
        let at = |text: &str| text.parse().unwrap();
        let page = statusz("test", at("2026-01-01T00:00:00Z"), at("2026-01-01T01:02:03Z"));
        assert!(page.contains("\nUp: 1 hr 02 min 03 sec\n"), "{page}");
    }
}
