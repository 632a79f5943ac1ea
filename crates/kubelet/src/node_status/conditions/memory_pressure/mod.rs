//! Whether the node runs short of memory. Nothing here measures it: pods are kept to what is
//! allocatable when they are admitted, and to their limits by the kernel.

use super::{Condition, Observed, Source};

pub(super) struct MemoryPressure;

impl Source for MemoryPressure {
    fn name(&self) -> &'static str {
        "MemoryPressure"
    }

    fn condition(&self, _observed: &Observed) -> Condition {
        Condition {
            is_true: false,
            reason: "KubeletHasSufficientMemory",
            message: "kubelet has sufficient memory available".into(),
        }
    }
}
