//! How long a lease lasts, and where it is kept: upstream's `--leader-elect-*`.

use std::time::Duration;

/// The terms of an election; all candidates should have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long the others wait after the last renewal that they saw.
    pub lease_duration: Duration,
    /// A leader that cannot renew for so long stops.
    pub renew_deadline: Duration,
    /// Between renewals, and between attempts.
    pub retry_period: Duration,
    pub namespace: String,
    /// The component's own name, unless somebody says otherwise.
    pub name: Option<String>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            namespace: "kube-system".to_owned(),
            name: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    #[error("--leader-elect-lease-duration must be at least a second")]
    Lease,
    #[error("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline")]
    Renew,
    #[error(
        "--leader-elect-renew-deadline must be greater than 1.2 times --leader-elect-retry-period"
    )]
    Retry,
    #[error("--leader-elect-retry-period must be greater than zero")]
    NoRetry,
}

impl Terms {
    pub(super) fn lease_name<'a>(&'a self, component: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(component)
    }

    /// Only so is there never a second leader: one that cannot renew stops before its lease is over.
    ///
    /// # Errors
    /// The first of upstream's rules that does not hold.
    pub fn validate(&self) -> Result<(), TermsError> {
        if self.lease_duration.as_secs() == 0 {
            return Err(TermsError::Lease);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(TermsError::Renew);
        }
        if self.retry_period.is_zero() {
            return Err(TermsError::NoRetry);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(1.2) {
            return Err(TermsError::Retry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Terms, TermsError};

    #[test]
    fn a_leader_stops_before_its_lease_is_over() {
        let check = |[lease, renew, retry]: [f64; 3], expected: Option<TermsError>| {
            let terms = Terms {
                lease_duration: Duration::from_secs_f64(lease),
                renew_deadline: Duration::from_secs_f64(renew),
                retry_period: Duration::from_secs_f64(retry),
                ..Terms::default()
            };
            assert_eq!(terms.validate().err(), expected, "{lease} {renew} {retry}");
        };
        check([15.0, 10.0, 2.0], None);
        check([0.5, 0.3, 0.1], Some(TermsError::Lease));
        check([15.0, 15.0, 2.0], Some(TermsError::Renew));
        check([15.0, 10.0, 0.0], Some(TermsError::NoRetry));
        check([15.0, 12.0, 10.0], Some(TermsError::Retry));
        check([60.0, 2.5, 2.0], None);
    }
}
