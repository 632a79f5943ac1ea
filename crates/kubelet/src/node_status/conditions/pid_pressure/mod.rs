//! Whether the node runs short of process ids. Nothing here measures it: pods are kept to what is
//! allocatable when they are admitted, and to their limits by the kernel.

use super::{Condition, Observed, Source};

pub(super) struct PidPressure;

impl Source for PidPressure {
    fn name(&self) -> &'static str {
        "PIDPressure"
    }

    fn condition(&self, _observed: &Observed) -> Condition {
        Condition {
            is_true: false,
            reason: "KubeletHasSufficientPID",
            message: "kubelet has sufficient PID available".into(),
        }
    }
}
