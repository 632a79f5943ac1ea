//! Whether the node runs short of disk. Nothing here measures it: pods are kept to what is
//! allocatable when they are admitted, and to their limits by the kernel.

use super::{Condition, Observed, Source};

pub(super) struct DiskPressure;

impl Source for DiskPressure {
    fn name(&self) -> &'static str {
        "DiskPressure"
    }

    fn condition(&self, _observed: &Observed) -> Condition {
        Condition {
            is_true: false,
            reason: "KubeletHasNoDiskPressure",
            message: "kubelet has no disk pressure".into(),
        }
    }
}
