//! The life of one container as its holder sees it: starting, running, exited, and never back.
//! Pure.

use jiff::Timestamp;
use linux::process::Status;

use crate::protocol::{Life, Refusal};
use crate::records::Exit;

/// As runc and containerd report a container whose program could not be executed.
const CODE_COULD_NOT_START: i32 = 128;

pub(crate) enum Step {
    Executed,
    /// The program was not executed, for this reason.
    Failed(String),
    Ended {
        status: Status,
        oom_killed: bool,
    },
}

/// What `life` becomes. A step that does not fit changes nothing.
pub(crate) fn step(life: Life, step: Step, now: Timestamp) -> Life {
    match (life, step) {
        (Life::Starting, Step::Executed) => Life::Running { started: now },
        (Life::Starting, Step::Failed(message)) => Life::Exited(Exit {
            code: CODE_COULD_NOT_START,
            signal: None,
            oom_killed: false,
            started: None,
            finished: now,
            message: Some(message),
        }),
        (life @ (Life::Starting | Life::Running { .. }), Step::Ended { status, oom_killed }) => {
            let started = match life {
                Life::Running { started } => Some(started),
                Life::Starting | Life::Exited(_) => None,
            };
            Life::Exited(exit(status, oom_killed, started, now))
        }
        (life, _) => life,
    }
}

fn exit(status: Status, oom_killed: bool, started: Option<Timestamp>, finished: Timestamp) -> Exit {
    // A set-up that was killed had no chance to say why.
    let message = started.is_none().then(|| format!("set-up was ended by {status:?}"));
    Exit { code: status.code(), signal: status.signal(), oom_killed, started, finished, message }
}

/// Whether signals, commands and attached clients make sense now.
pub(crate) fn running(life: &Life) -> Result<(), Refusal> {
    match life {
        Life::Running { .. } => Ok(()),
        Life::Starting | Life::Exited(_) => Err(Refusal::NotRunning),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Life, Status, Step, running, step};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn steps(steps: Vec<Step>) -> String {
        let mut life = Life::Starting;
        for (n, it) in steps.into_iter().enumerate() {
            life = step(life, it, at(i64::try_from(n).unwrap() + 1));
        }
        match life {
            Life::Starting => "starting".into(),
            Life::Running { started } => format!("running since {}", started.as_second()),
            Life::Exited(it) => format!(
                "exited {} signal {:?} oom {} {:?}-{} {:?}",
                it.code,
                it.signal,
                it.oom_killed,
                it.started.map(Timestamp::as_second),
                it.finished.as_second(),
                it.message
            ),
        }
    }

    fn ended(status: Status) -> Step {
        Step::Ended { status, oom_killed: false }
    }

    #[test]
    fn a_container_starts_runs_and_exits_once() {
        assert_eq!(steps(vec![]), "starting");
        assert_eq!(steps(vec![Step::Executed]), "running since 1");
        assert_eq!(
            steps(vec![Step::Executed, ended(Status::Exited(3))]),
            "exited 3 signal None oom false Some(1)-2 None"
        );
        assert_eq!(
            steps(vec![Step::Executed, ended(Status::Signaled(15)), ended(Status::Exited(0))]),
            "exited 143 signal Some(15) oom false Some(1)-2 None"
        );
        assert_eq!(
            steps(vec![
                Step::Executed,
                Step::Ended { status: Status::Signaled(9), oom_killed: true },
                Step::Executed
            ]),
            "exited 137 signal Some(9) oom true Some(1)-2 None"
        );
    }

    #[test]
    fn what_could_not_be_started_says_why() {
        assert_eq!(
            steps(vec![Step::Failed("no such file".into()), ended(Status::Exited(1))]),
            "exited 128 signal None oom false None-1 Some(\"no such file\")"
        );
        assert_eq!(
            steps(vec![ended(Status::Signaled(9))]),
            "exited 137 signal Some(9) oom false None-1 Some(\"set-up was ended by Signaled(9)\")"
        );
    }

    #[test]
    fn only_a_running_container_takes_signals() {
        assert!(running(&Life::Starting).is_err());
        assert!(running(&Life::Running { started: at(0) }).is_ok());
        assert!(running(&step(Life::Starting, Step::Failed(String::new()), at(0))).is_err());
    }
}
