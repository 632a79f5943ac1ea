//! A command in the container: 0 is success.

use std::time::Duration;

use node_api::{ContainerId, Containers, Error};

use super::action::Outcome;

/// How much of what it says is shown.
pub(crate) const OUTPUT_MAX: usize = 10 * 1024;

pub(super) async fn run(
    containers: &dyn Containers,
    id: &ContainerId,
    command: Vec<String>,
    timeout: Duration,
) -> Outcome {
    let line = command.join(" ");
    match containers.exec_output(id, command, timeout, OUTPUT_MAX).await {
        Ok(output) if output.code == 0 => Outcome::Success,
        Ok(output) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            Outcome::Failure(text)
        }
        Err(Error::TimedOut(after)) => {
            Outcome::Failure(format!("command timed out: {line:?} timed out after {after:?}"))
        }
        // A program that is not there fails as one that does not succeed.
        Err(Error::Refused(problem)) => Outcome::Failure(problem),
        Err(err) => Outcome::Unknown(stdx::error_chain(&err)),
    }
}
