//! What a person sees while a cluster starts: a line that moves on a terminal, plain lines
//! elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows each step when it becomes true.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: tokio::time::Instant,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let bar = std::io::stdout().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(
                ProgressStyle::with_template("{spinner} {msg}")
                    .expect("the template is a constant"),
            );
            bar.enable_steady_tick(Duration::from_millis(80));
            bar
        });
        Self { bar, started: tokio::time::Instant::now() }
    }

    /// What is being waited for now.
    pub(crate) fn waiting(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// A step has become true.
    pub(crate) fn done(&self, what: &str) {
        let line = format!("✓ {what} ({} ms)", self.started.elapsed().as_millis());
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say(&line),
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Columns three spaces apart, as kubectl has them; the last one is as long as it is.
pub(crate) fn align<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A closed standard output is no reason to stop a cluster.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

pub(crate) fn say_error(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
