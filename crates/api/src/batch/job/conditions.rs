//! What a Job's conditions say of it.

use k8s_openapi::api::batch::v1::JobStatus;

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
/// It will fail, once its pods are gone.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// It will be complete, once its pods are gone.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const SUSPENDED: &str = "Suspended";

pub fn is_true(status: &JobStatus, type_: &str) -> bool {
    has(status, type_, "True")
}

pub(super) fn has(status: &JobStatus, type_: &str, value: &str) -> bool {
    status.conditions.iter().flatten().any(|it| it.type_ == type_ && it.status == value)
}

pub fn is_finished(status: &JobStatus) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}
