//! Log lines on standard error: upstream's verbosity, as text for people or as JSON for machines. A
//! line that a request causes has the request's audit id, whichever module wrote it.

mod json;
mod lines;
mod request;
#[cfg(test)]
mod testing;
mod text;

use tracing_subscriber::filter::LevelFilter;

pub use lines::Lines;
pub use request::{AuditId, with_audit_id};

/// Upstream's `--logging-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// What `-v` shows: upstream's numbers stand for what a line is about, ours for how much it
/// matters.
///
/// 0 warnings and errors; 1 and 2 what changes a cluster or a component's state; 3 to 5 each
/// request and each decision; from 6 on everything.
fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::WARN,
        1 | 2 => LevelFilter::INFO,
        3..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Called once, at the start of the process.
pub fn start(verbosity: u8, format: Format) {
    // A line that cannot be written is lost. To complain of it on standard error, as is the default, is
    // to panic: that is where it could not be written.
    let builder = tracing_subscriber::fmt()
        .with_max_level(level(verbosity))
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match format {
        Format::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(is_terminal).event_format(text::Text).init();
        }
        Format::Json => builder.with_ansi(false).event_format(json::Json).init(),
    }
}
