//! Handshakes that come to nothing: said in the log, with the client and the reason, since the
//! client's side mostly shows an alert of one word. Whoever fails often does not fill the log.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many lines at once, and one more after each interval.
const LINES_MAX: u32 = 20;
const INTERVAL: Duration = Duration::from_secs(3);
/// Of a reason: some list everything that would have been fine.
const REASON_MAX: usize = 300;

/// Of one listener.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Quota>);

impl Refusals {
    pub(super) fn note(&self, client: SocketAddr, err: &io::Error) {
        // Scans and health checks of load balancers, which never meant to speak.
        if is_hang_up(err) {
            tracing::debug!(%client, error = %err, "a handshake was broken off");
            return;
        }
        let may_log = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        let reason = reason(err);
        match may_log {
            // As upstream's servers say it.
            Some(0) => tracing::warn!("TLS handshake error from {client}: {reason}"),
            Some(left_out) => {
                tracing::warn!(left_out, "TLS handshake error from {client}: {reason}");
            }
            None => tracing::debug!("TLS handshake error from {client}: {reason}"),
        }
    }
}

fn is_hang_up(err: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(err.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn reason(err: &io::Error) -> String {
    err.to_string().chars().take(REASON_MAX).collect()
}

/// How many lines may still be written.
#[derive(Default)]
struct Quota {
    used: u32,
    /// When the last of them became free again.
    since: Option<Instant>,
    /// Lines that were not written since the last one that was.
    left_out: u64,
}

impl Quota {
    /// Whether a line may be written, and how many were not before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let n_free = now.duration_since(since).as_millis() / INTERVAL.as_millis();
        let n_free = u32::try_from(n_free).unwrap_or(u32::MAX);
        if n_free >= self.used {
            (self.used, self.since) = (0, Some(now));
        } else {
            self.used -= n_free;
            self.since = Some(since + INTERVAL * n_free);
        }
        if self.used >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.used += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::time::Instant;

    use super::{INTERVAL, LINES_MAX, Quota, is_hang_up, reason};

    #[test]
    fn whoever_fails_often_does_not_fill_the_log() {
        let (mut quota, start) = (Quota::default(), Instant::now());
        for _ in 0..LINES_MAX {
            assert_eq!(quota.take(start), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(quota.take(start + INTERVAL / 2), None);
        }
        assert_eq!(quota.take(start + INTERVAL), Some(1000));
        assert_eq!(quota.take(start + INTERVAL), None);
        // After a long silence there are as many as at first, and no more.
        let later = start + INTERVAL * 1000;
        assert_eq!(quota.take(later), Some(1));
        let n_lines = (0..100).filter(|_| quota.take(later).is_some()).count();
        assert_eq!(n_lines, LINES_MAX as usize - 1);
    }

    #[test]
    fn reasons_are_said_and_hanging_up_is_none() {
        let refused = rustls::CertificateError::UnknownIssuer;
        let refused = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::from(refused));
        assert_eq!(reason(&refused), "invalid peer certificate: UnknownIssuer");
        assert!(!is_hang_up(&refused));
        assert!(is_hang_up(&io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof")));
        assert_eq!(reason(&io::Error::other("x".repeat(10_000))).len(), 300);
    }
}
