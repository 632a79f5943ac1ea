//! A line for people: when, how bad, where, what, and the values that belong to it.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::request;

pub(super) struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (metadata, now) = (event.metadata(), jiff::Timestamp::now());
        let (color, plain) = match *metadata.level() {
            _ if !writer.has_ansi_escapes() => ("", ""),
            Level::ERROR => ("\x1b[31m", "\x1b[0m"),
            Level::WARN => ("\x1b[33m", "\x1b[0m"),
            Level::INFO => ("\x1b[32m", "\x1b[0m"),
            Level::DEBUG => ("\x1b[34m", "\x1b[0m"),
            Level::TRACE => ("\x1b[35m", "\x1b[0m"),
        };
        let level = metadata.level();
        write!(writer, "{now:.6} {color}{level:>5}{plain} {}: ", metadata.target())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        if let Some(id) = request::present() {
            write!(writer, " audit-ID={:?}", id.to_string())?;
        }
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::super::testing::audited;
    use super::Text;

    #[tokio::test]
    async fn a_line_has_its_values_and_its_request() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(lines.clone())
            .event_format(Text)
            .finish();
        audited(subscriber).await;
        let text = lines.text();
        let (first, second) = text.split_once('\n').expect("two lines");
        let (when, rest) = first.split_once(' ').expect("a time");
        assert!(when.parse::<jiff::Timestamp>().is_ok(), "{when}");
        let expected = " WARN telemetry::logs::testing: refused pod=\"web \\\"0\\\"\" attempt=3 \
                        audit-ID=\"4f1c\"";
        assert_eq!(rest, expected);
        assert!(!second.contains("audit-ID"), "{second}");
    }
}
