//! Windows' privileged containers.

use k8s_openapi::api::core::v1::WindowsSecurityContextOptions;

use super::Subject;
use super::text::{Setters, Violation};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let is_host =
        |it: &WindowsSecurityContextOptions| it.host_process.is_some_and(|is_host| is_host);
    let of_pod = pod.security().and_then(|it| it.windows_options.as_ref());
    let setters = Setters {
        is_pod: of_pod.is_some_and(is_host),
        containers: pod.containers_where(|it| it.windows_options.as_ref().is_some_and(is_host)),
    };
    (!setters.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters.shown()
        ),
    })
}
