//! From results to health: pure.

use k8s_openapi::api::core::v1::{Container, Probe};

use super::Health;

/// What is known before the first result.
pub(super) fn initial(container: &Container, was: Option<Health>) -> Health {
    let was_started = was.is_some_and(|it| it.is_started);
    let was_ready = was.is_some_and(|it| it.is_ready);
    let is_started = container.startup_probe.is_none() || was_started;
    Health {
        is_started,
        is_ready: is_started && (container.readiness_probe.is_none() || was_ready),
        failed: None,
    }
}

/// How often one probe gave the same result in a row, and what it takes to believe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streak {
    successes_needed: u32,
    failures_needed: u32,
    last: Option<bool>,
    length: u32,
}

impl Streak {
    pub(super) fn new(probe: &Probe) -> Self {
        let at_least_one = |it: Option<i32>, default| {
            it.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0).unwrap_or(default)
        };
        Self {
            successes_needed: at_least_one(probe.success_threshold, 1),
            failures_needed: at_least_one(probe.failure_threshold, 3),
            last: None,
            length: 0,
        }
    }

    /// Takes one result in; says what it proves, once it proves something.
    pub(super) fn step(&mut self, succeeded: bool) -> Option<bool> {
        self.length = if self.last == Some(succeeded) { self.length.saturating_add(1) } else { 1 };
        self.last = Some(succeeded);
        let needed = if succeeded { self.successes_needed } else { self.failures_needed };
        (self.length >= needed).then_some(succeeded)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Probe;

    use super::Streak;

    /// Results as `s` and `f`; what they prove as `S`, `F` and `.` for nothing.
    #[test]
    fn results_are_believed_after_a_while() {
        let check = |success, failure, results: &str, expected: &str| {
            let probe = Probe {
                success_threshold: success,
                failure_threshold: failure,
                ..Probe::default()
            };
            let mut streak = Streak::new(&probe);
            let proved = results.chars().map(|it| match streak.step(it == 's') {
                Some(true) => 'S',
                Some(false) => 'F',
                None => '.',
            });
            assert_eq!(proved.collect::<String>(), expected, "{results}");
        };
        check(None, None, "sffsfff", "S..S..F");
        check(Some(2), Some(1), "sfssf", ".F.SF");
        check(Some(1), Some(2), "ffff", ".FFF");
        check(Some(0), Some(-1), "sfff", "S..F");
    }
}
