//! A line for machines, with the keys of upstream's `--logging-format=json`: `ts` in milliseconds,
//! `caller`, `msg`, `v`, then the values. An error has no `v`.

use std::fmt;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::request;

pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Map::new();
        let millis = jiff::Timestamp::now().as_nanosecond() as f64 / 1e6;
        line.insert("ts".to_owned(), json!(millis));
        let file = metadata.file().unwrap_or_default();
        let file = file.rsplit_once("crates/").map_or(file, |it| it.1);
        let caller = format!("{file}:{}", metadata.line().unwrap_or_default());
        line.insert("caller".to_owned(), json!(caller));
        line.insert("msg".to_owned(), json!(""));
        if let Some(verbosity) = verbosity(*metadata.level()) {
            line.insert("v".to_owned(), json!(verbosity));
        }
        event.record(&mut Values(&mut line));
        if let Some(id) = request::present() {
            line.insert("audit-ID".to_owned(), json!(id.to_string()));
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The first `-v` that shows the line.
fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => None,
        Level::WARN => Some(0),
        Level::INFO => Some(1),
        Level::DEBUG => Some(3),
        Level::TRACE => Some(6),
    }
}

struct Values<'a>(&'a mut Map<String, Value>);

impl Values<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let key = match field.name() {
            "message" => "msg",
            "error" => "err",
            name => name,
        };
        self.0.insert(key.to_owned(), value);
    }
}

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::lines::Lines;
    use super::super::testing::audited;
    use super::Json;

    #[tokio::test]
    async fn a_line_is_an_object_with_upstream_s_keys() {
        let lines = Lines::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(lines.clone()).event_format(Json).finish();
        audited(subscriber).await;
        let text = lines.text();
        let mut lines = text.lines().map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
        let mut refused = lines.next().expect("a line");
        let (ts, caller) = (refused["ts"].take(), refused["caller"].take());
        assert!(ts.as_f64().is_some_and(|it| it > 1.7e12), "{ts}");
        assert!(
            caller.as_str().is_some_and(|it| it.starts_with("telemetry/src/logs/")),
            "{caller}"
        );
        let expected = json!({
            "ts": null, "caller": null, "msg": "refused", "v": 0, "pod": "web \"0\"", "attempt": 3,
            "audit-ID": "4f1c",
        });
        assert_eq!(refused, expected);
        let broken = lines.next().expect("a line");
        assert_eq!((&broken["msg"], &broken["err"]), (&json!("broken"), &json!("no disk")));
        assert!(broken.get("v").is_none() && broken.get("audit-ID").is_none(), "{broken}");
    }
}
