//! The calls of CRI v1 that are made.

use grpc::Method;

use crate::messages::*;

macro_rules! methods {
    ($service:literal: $($name:ident = $path:literal $question:ident -> $answer:ident;)*) => {
        $(pub(crate) const $name: Method<$question, $answer> =
            Method::new(concat!("/runtime.v1.", $service, "/", $path));)*
    };
}

methods! { "RuntimeService":
    VERSION = "Version" VersionRequest -> VersionResponse;
    STATUS = "Status" Empty -> StatusResponse;
    RUN_POD_SANDBOX = "RunPodSandbox" RunPodSandboxRequest -> RunPodSandboxResponse;
    STOP_POD_SANDBOX = "StopPodSandbox" PodSandboxRequest -> Empty;
    REMOVE_POD_SANDBOX = "RemovePodSandbox" PodSandboxRequest -> Empty;
    POD_SANDBOX_STATUS = "PodSandboxStatus" PodSandboxRequest -> PodSandboxStatusResponse;
    LIST_POD_SANDBOX = "ListPodSandbox" ListPodSandboxRequest -> ListPodSandboxResponse;
    POD_SANDBOX_STATS = "PodSandboxStats" PodSandboxRequest -> PodSandboxStatsResponse;
    CREATE_CONTAINER = "CreateContainer" CreateContainerRequest -> CreateContainerResponse;
    START_CONTAINER = "StartContainer" ContainerRequest -> Empty;
    STOP_CONTAINER = "StopContainer" StopContainerRequest -> Empty;
    REMOVE_CONTAINER = "RemoveContainer" ContainerRequest -> Empty;
    LIST_CONTAINERS = "ListContainers" ListContainersRequest -> ListContainersResponse;
    CONTAINER_STATUS = "ContainerStatus" ContainerRequest -> ContainerStatusResponse;
    UPDATE_CONTAINER_RESOURCES =
        "UpdateContainerResources" UpdateContainerResourcesRequest -> Empty;
    REOPEN_CONTAINER_LOG = "ReopenContainerLog" ContainerRequest -> Empty;
    EXEC_SYNC = "ExecSync" ExecSyncRequest -> ExecSyncResponse;
    EXEC = "Exec" ExecRequest -> UrlResponse;
    ATTACH = "Attach" AttachRequest -> UrlResponse;
    PORT_FORWARD = "PortForward" PortForwardRequest -> UrlResponse;
    CONTAINER_STATS = "ContainerStats" ContainerRequest -> ContainerStatsResponse;
    GET_CONTAINER_EVENTS = "GetContainerEvents" Empty -> ContainerEventResponse;
}

methods! { "ImageService":
    LIST_IMAGES = "ListImages" Empty -> ListImagesResponse;
    IMAGE_STATUS = "ImageStatus" ImageRequest -> ImageStatusResponse;
    PULL_IMAGE = "PullImage" PullImageRequest -> PullImageResponse;
    REMOVE_IMAGE = "RemoveImage" ImageRequest -> Empty;
    IMAGE_FS_INFO = "ImageFsInfo" Empty -> ImageFsInfoResponse;
}
