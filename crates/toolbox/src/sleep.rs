//! `sleep`: waits, and ends at once when told to.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::stop::Stop;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Seconds, such as 5 or 0.5, or `infinity`
    #[arg(default_value = "infinity")]
    seconds: String,
}

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let mut stop = Stop::listen()?;
    let wait = async {
        match duration(&flags.seconds)? {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = stop.wait() => Ok(()),
        done = wait => done,
    }
}

/// `None` is for good.
fn duration(text: &str) -> Result<Option<Duration>> {
    if text == "infinity" {
        return Ok(None);
    }
    match text.trim_end_matches('s').parse().map(Duration::try_from_secs_f64) {
        Ok(Ok(duration)) => Ok(Some(duration)),
        _ => bail!("sleep: {text:?} is not a number of seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn seconds_are_read_and_nonsense_is_refused() {
        let check = |text: &str, expected: &str| {
            let actual = duration(text).map_or_else(|err| err.to_string(), |it| format!("{it:?}"));
            assert_eq!(actual, expected);
        };
        check("5", "Some(5s)");
        check("0.5s", "Some(500ms)");
        check("infinity", "None");
        check("-1", "sleep: \"-1\" is not a number of seconds");
        check("soon", "sleep: \"soon\" is not a number of seconds");
    }
}
