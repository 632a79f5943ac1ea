//! What was called, and which calls fail or take time.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use crate::Error;

type MakeError = Arc<dyn Fn() -> Error + Send + Sync>;

#[derive(Default)]
pub(super) struct Calls {
    made: Vec<String>,
    faults: Vec<Fault>,
    delays: Vec<(String, Duration)>,
}

struct Fault {
    call: String,
    times: usize,
    error: MakeError,
}

impl Calls {
    pub(super) fn fail(&mut self, call: &str, times: usize, error: MakeError) {
        self.faults.push(Fault { call: call.to_owned(), times, error });
    }

    pub(super) fn delay(&mut self, call: &str, delay: Duration) {
        self.delays.retain(|(it, _)| it != call);
        self.delays.push((call.to_owned(), delay));
    }

    pub(super) fn made(&self) -> &[String] {
        &self.made
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.made)
    }

    /// How long the call takes.
    fn record(&mut self, call: &str) -> Duration {
        self.made.push(call.to_owned());
        self.delays
            .iter()
            .find(|(it, _)| call.starts_with(it))
            .map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    fn fault(&mut self, call: &str) -> Option<MakeError> {
        let matches = |it: &&mut Fault| it.times > 0 && call.starts_with(&it.call);
        let fault = self.faults.iter_mut().find(matches)?;
        fault.times -= 1;
        Some(fault.error.clone())
    }
}

impl Node {
    /// The first line of every call that changes something.
    pub(super) async fn enter(&self, call: String) -> Result<(), Error> {
        let delay = self.state().calls.record(&call);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let fault = self.state().calls.fault(&call);
        match fault {
            Some(error) => Err(error()),
            None => Ok(()),
        }
    }
}
