//! Log lines on standard error; quiet by default, so that the progress display is what a person sees.

use tracing_subscriber::filter::LevelFilter;

/// `level` is the number of kubectl's and upstream's `-v`: 0 warnings, 1-2 information, 3-5 debug, above trace.
pub(crate) fn start(level: u8) {
    let level = match level {
        0 => LevelFilter::WARN,
        1 | 2 => LevelFilter::INFO,
        3..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(is_terminal)
        .with_writer(std::io::stderr)
        .init();
}
