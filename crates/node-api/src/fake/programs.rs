//! What scripted containers and commands do.

use std::time::Duration;

use bytes::Bytes;

pub(super) const SIGKILL: i32 = 9;
pub(super) const SIGTERM: i32 = 15;

/// What one run of a container does.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) refusal: Option<String>,
    /// When it ends by itself, counted from its start.
    pub(super) end: Option<(Duration, End)>,
    /// How it answers the stop signal; `None`: not at all.
    pub(super) on_stop: Option<(Duration, End)>,
    pub(super) output: Bytes,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) oom_killed: bool,
}

impl End {
    pub(super) fn exit(code: i32) -> Self {
        Self { code, signal: None, oom_killed: false }
    }

    pub(super) fn signal(signal: i32) -> Self {
        Self { code: 128 + signal, signal: Some(signal), oom_killed: false }
    }
}

impl Program {
    /// Runs until a signal ends it.
    pub fn forever() -> Self {
        Self {
            refusal: None,
            end: None,
            on_stop: Some((Duration::ZERO, End::signal(SIGTERM))),
            output: Bytes::new(),
        }
    }

    /// Ends by itself.
    pub fn exits(after: Duration, code: i32) -> Self {
        Self { end: Some((after, End::exit(code))), ..Self::forever() }
    }

    /// Is killed for want of memory.
    pub fn oom_killed(after: Duration) -> Self {
        let end = End { oom_killed: true, ..End::signal(SIGKILL) };
        Self { end: Some((after, end)), ..Self::forever() }
    }

    /// Cannot be started, for this reason.
    pub fn refused(message: &str) -> Self {
        Self { refusal: Some(message.to_owned()), ..Self::forever() }
    }

    /// Takes its time to end when asked to.
    #[must_use]
    pub fn stops_after(self, delay: Duration, code: i32) -> Self {
        Self { on_stop: Some((delay, End::exit(code))), ..self }
    }

    /// Only SIGKILL ends it.
    #[must_use]
    pub fn ignores_stop(self) -> Self {
        Self { on_stop: None, ..self }
    }

    /// What a client that attaches reads.
    #[must_use]
    pub fn prints(self, output: impl Into<Bytes>) -> Self {
        Self { output: output.into(), ..self }
    }
}

/// What one command in a container does.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    pub(super) code: i32,
    pub(super) stdout: Bytes,
    pub(super) stderr: Bytes,
    /// `None`: it never ends.
    pub(super) takes: Option<Duration>,
    pub(super) echoes: bool,
    pub(super) refusal: Option<String>,
}

impl Exec {
    /// Ends at once, in silence.
    pub fn exits(code: i32) -> Self {
        Self { code, takes: Some(Duration::ZERO), ..Self::default() }
    }

    pub fn forever() -> Self {
        Self::default()
    }

    /// Writes what it reads until its input ends.
    pub fn echoes() -> Self {
        Self { echoes: true, ..Self::default() }
    }

    /// There is no such program.
    pub fn refused(message: &str) -> Self {
        Self { refusal: Some(message.to_owned()), ..Self::default() }
    }

    #[must_use]
    pub fn takes(self, time: Duration) -> Self {
        Self { takes: Some(time), ..self }
    }

    #[must_use]
    pub fn stdout(self, text: impl Into<Bytes>) -> Self {
        Self { stdout: text.into(), ..self }
    }

    #[must_use]
    pub fn stderr(self, text: impl Into<Bytes>) -> Self {
        Self { stderr: text.into(), ..self }
    }
}
