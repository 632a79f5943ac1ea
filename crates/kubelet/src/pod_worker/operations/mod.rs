//! What a step may ask for: one folder per operation on a pod, with its action, what it works on,
//! its outcome and its retry. Nobody here decides what is next.
//!
//! A new one is a folder and a line in `Action`; the compiler asks for its arm in `Action::any`.

mod create_sandbox;
mod delete_pod;
mod end;
mod ensure_cgroup;
mod operation;
mod record_allocation;
mod remove_container;
mod remove_sandbox;
mod resize_pod;
mod scene;
mod set_up_volumes;
mod start_container;
mod stop_container;
mod stop_sandbox;
mod tear_down;
mod tell_back_off;
mod tell_deadline;
mod tell_pull_back_off;
mod tell_resized;
mod write_status;

pub(crate) use create_sandbox::CreateSandbox;
pub(crate) use delete_pod::DeletePod;
pub(crate) use end::End;
pub(crate) use ensure_cgroup::EnsureCgroup;
#[cfg(test)]
pub(crate) use operation::finish;
pub(crate) use operation::{AnyOperation, Delays, Ended, On, Op, Operation, Outcome};
pub(crate) use record_allocation::RecordAllocation;
pub(crate) use remove_container::RemoveContainer;
pub(crate) use remove_sandbox::RemoveSandbox;
#[cfg(test)]
pub(crate) use resize_pod::Resized;
pub(crate) use resize_pod::{Change, ResizePod};
pub(crate) use scene::Scene;
#[cfg(test)]
pub(crate) use set_up_volumes::Published;
pub(crate) use set_up_volumes::SetUpVolumes;
#[cfg(test)]
pub(crate) use start_container::NotStarted;
pub(crate) use start_container::StartContainer;
pub(crate) use stop_container::{StopContainer, Why, is_stopping};
pub(crate) use stop_sandbox::StopSandbox;
pub(crate) use tear_down::TearDown;
pub(crate) use tell_back_off::TellBackOff;
pub(crate) use tell_deadline::TellDeadline;
pub(crate) use tell_pull_back_off::TellPullBackOff;
pub(crate) use tell_resized::TellResized;
pub(crate) use write_status::WriteStatus;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    CreateSandbox(CreateSandbox),
    DeletePod(DeletePod),
    End(End),
    EnsureCgroup(EnsureCgroup),
    RecordAllocation(RecordAllocation),
    RemoveContainer(RemoveContainer),
    RemoveSandbox(RemoveSandbox),
    ResizePod(ResizePod),
    SetUpVolumes(SetUpVolumes),
    StartContainer(StartContainer),
    StopContainer(StopContainer),
    StopSandbox(StopSandbox),
    TearDown(TearDown),
    TellBackOff(TellBackOff),
    TellDeadline(TellDeadline),
    TellPullBackOff(TellPullBackOff),
    TellResized(TellResized),
    WriteStatus(WriteStatus),
}

impl Action {
    pub(crate) fn any(self) -> Box<dyn AnyOperation> {
        match self {
            Self::CreateSandbox(it) => Box::new(it),
            Self::DeletePod(it) => Box::new(it),
            Self::End(it) => Box::new(it),
            Self::EnsureCgroup(it) => Box::new(it),
            Self::RecordAllocation(it) => Box::new(it),
            Self::RemoveContainer(it) => Box::new(it),
            Self::RemoveSandbox(it) => Box::new(it),
            Self::ResizePod(it) => Box::new(it),
            Self::SetUpVolumes(it) => Box::new(it),
            Self::StartContainer(it) => Box::new(it),
            Self::StopContainer(it) => Box::new(it),
            Self::StopSandbox(it) => Box::new(it),
            Self::TearDown(it) => Box::new(it),
            Self::TellBackOff(it) => Box::new(it),
            Self::TellDeadline(it) => Box::new(it),
            Self::TellPullBackOff(it) => Box::new(it),
            Self::TellResized(it) => Box::new(it),
            Self::WriteStatus(it) => Box::new(it),
        }
    }
}
