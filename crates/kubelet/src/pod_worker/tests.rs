//! The pod's life against a model of the node: whatever happens, in whatever order, it holds what
//! it promises.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use node_api::SandboxId;
use node_api::containers::Container as Run;
use node_api::sandboxes::SandboxState;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::operations::Outcome::{Done, Failed};
use super::operations::{
    self, Action, NotStarted, Operation, Outcome, Published, Resized, StartContainer,
};
use super::step::{Life, step};
use super::view::{Role, Stop, View, exit, is_running};
use super::{resize, testing};
use crate::allocation::{ANNOTATION_SIZE, Allocation, Size};
use crate::probes::Health;

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// One of the operations under way ends, well or not.
    Finish(usize, bool),
    /// One of the running containers ends.
    Exit(usize, i32),
    Kill,
    Unhealthy(usize),
    Delete(u64),
    Remove,
    Wait(u64),
    /// The node agrees to another size of one container.
    Resize(usize, u16),
}

struct Model {
    view: View,
    life: Life,
    /// With the sandbox that was there when it was asked for.
    under_way: Vec<(Action, Option<SandboxId>)>,
    next: u64,
}

impl Model {
    fn new(spec: Value) -> Self {
        let pod = json!({ "metadata": { "name": "web", "namespace": "default", "uid": "u" }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let view = testing::empty(Arc::new(pod));
        let mut model = Self { view, life: Life::Starting, under_way: Vec::new(), next: 0 };
        model.advance();
        model
    }

    /// Steps until nothing changes; what is asked for is under way from then on.
    fn advance(&mut self) {
        for _ in 0..20 {
            let step = step(&self.life, &self.view);
            let is_changed = step.life != self.life;
            self.life = step.life;
            for action in step.actions {
                self.begin(action);
            }
            self.check();
            if !is_changed {
                return;
            }
        }
        panic!("no rest in {:?}", self.life);
    }

    fn begin(&mut self, action: Action) {
        let is_ending = matches!(self.life, Life::Terminating(_) | Life::Terminated(_));
        match &action {
            Action::StartContainer(StartContainer { name, .. }) => {
                assert!(!is_ending, "a start while the pod ends");
                assert!(!self.view.newest(name).is_some_and(is_running), "{name} starts twice");
                assert!(!self.view.memory.is_starting(), "two starts at once");
            }
            Action::CreateSandbox(_) => {
                assert!(!is_ending && self.view.sandbox().is_none(), "a second sandbox");
            }
            _ => {}
        }
        let n_under_way = self.view.memory.in_flight.len();
        action.clone().any().begin(&mut self.view);
        assert_ne!(self.view.memory.in_flight.len(), n_under_way, "{action:?} is under way");
        let sandbox = self.view.sandbox().map(|it| it.id.clone());
        self.under_way.push((action, sandbox));
    }

    fn check(&self) {
        for wanted in self.view.wanted() {
            let n_running = self.view.runs_of(wanted.name()).filter(|it| is_running(it)).count();
            assert!(n_running <= 1, "{} runs {n_running} times", wanted.name());
            let run = self.view.newest(wanted.name()).filter(|it| is_running(it));
            if let (Role::Main, Some(run)) = (wanted.role, run) {
                for init in self.view.wanted().iter().filter(|it| it.role == Role::Init) {
                    let mut runs = self.view.runs_of(init.name());
                    let is_done = runs.any(|it| {
                        it.sandbox == run.sandbox && exit(it).is_some_and(|it| it.code == 0)
                    });
                    assert!(is_done, "{} runs before {}", wanted.name(), init.name());
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Finish(index, is_good) if !self.under_way.is_empty() => {
                let (action, sandbox) = self.under_way.remove(index % self.under_way.len());
                self.finish(action, sandbox.as_ref(), is_good);
            }
            Event::Exit(index, code) => self.exit(index, code),
            Event::Kill => self.kill(),
            Event::Unhealthy(index) => {
                let failed = Some(crate::probes::Failed::Liveness);
                let n_known = self.view.health.len().max(1);
                if let Some(health) = self.view.health.values_mut().nth(index % n_known) {
                    health.failed = failed;
                }
            }
            Event::Delete(seconds) => {
                let is_removed = self.view.stop.is_some_and(|it| it.is_removed);
                self.view.stop = Some(Stop { grace: Duration::from_secs(seconds), is_removed });
            }
            Event::Remove => {
                let grace = self.view.stop.map_or(Duration::from_secs(30), |it| it.grace);
                self.view.stop = Some(Stop { grace, is_removed: true });
            }
            Event::Wait(seconds) => {
                self.view.now += SignedDuration::from_secs(i64::try_from(seconds).unwrap());
            }
            Event::Resize(index, millis) => self.resize(index, millis),
            Event::Finish(..) => {}
        }
        self.advance();
    }

    /// What a good end changes on the node, and what any end changes in the memory.
    fn finish(&mut self, action: Action, sandbox: Option<&SandboxId>, is_good: bool) {
        match action {
            Action::CreateSandbox(it) => {
                self.end_of(&it, is_good, |model| model.add_sandbox(it.attempt));
            }
            Action::DeletePod(it) => self.end_of(&it, is_good, |model| {
                let grace = model.view.stop.map_or(Duration::ZERO, |it| it.grace);
                model.view.stop = Some(Stop { grace, is_removed: true });
            }),
            Action::End(it) => self.end_of(&it, is_good, |_| {}),
            Action::EnsureCgroup(it) => self.end_of(&it, is_good, |_| {}),
            Action::RecordAllocation(it) => {
                self.end_of(&it, is_good, |_| {});
                if let Some(allocation) = self.view.memory.recorded.take() {
                    self.view.pod = allocation.apply(&self.view.pod);
                    self.view.allocation = allocation;
                }
            }
            Action::RemoveContainer(it) => {
                self.end_of(&it, is_good, |model| model.view.runs.retain(|run| run.id != it.0));
            }
            Action::RemoveSandbox(it) => self.end_of(&it, is_good, |model| {
                model.stop_sandbox(&it.0);
                model.view.runs.retain(|run| run.sandbox != it.0);
                model.view.sandboxes.retain(|sandbox| sandbox.id != it.0);
            }),
            Action::ResizePod(it) => {
                let told = it.containers.iter().map(|it| (it.id.clone(), it.to)).collect();
                let done = Resized { pod: it.pod.1.clone(), told, ..Resized::default() };
                let not = Resized { pod: it.pod.0.clone(), ..Resized::default() };
                let outcome = if is_good { Done(done) } else { Failed((not, "no".to_owned())) };
                self.note_end(&it, outcome);
            }
            Action::SetUpVolumes(it) => {
                let outcome = if is_good { Done(Published::default()) } else { Failed(()) };
                self.note_end(&it, outcome);
            }
            Action::StartContainer(it) => {
                // No container starts in a sandbox that died meanwhile.
                let is_alive = self.view.sandbox().map(|it| &it.id) == sandbox;
                let not = NotStarted::new("ErrImagePull", String::new());
                let outcome = if is_good && is_alive { Done(()) } else { Failed(not) };
                if matches!(outcome, Done(())) {
                    self.add_run(&it.name, it.attempt);
                }
                self.note_end(&it, outcome);
            }
            Action::StopContainer(it) => self.end_of(&it, is_good, |model| {
                let index = model.view.runs.iter().position(|run| run.id == it.id);
                model.end(index, 143);
            }),
            Action::StopSandbox(it) => {
                self.end_of(&it, is_good, |model| model.stop_sandbox(&it.0));
            }
            Action::TearDown(it) => self.end_of(&it, is_good, |_| {}),
            Action::TellBackOff(it) => self.end_of(&it, is_good, |_| {}),
            Action::TellDeadline(it) => self.end_of(&it, is_good, |_| {}),
            Action::TellPullBackOff(it) => self.end_of(&it, is_good, |_| {}),
            Action::TellResized(it) => self.end_of(&it, is_good, |_| {}),
            Action::WriteStatus(it) => {
                let status = Some((*it.0).clone());
                let pod = Arc::new(Pod { status, ..Pod::clone(&self.view.pod) });
                if is_good {
                    self.view.pod = pod.clone();
                }
                self.note_end(&it, if is_good { Done(Some(pod)) } else { Failed(()) });
            }
        }
    }

    fn resize(&mut self, index: usize, millis: u16) {
        let mut granted = Allocation::clone(&self.view.granted);
        let n_containers = granted.containers.len();
        let Some(one) = granted.containers.values_mut().nth(index % n_containers) else { return };
        let amounts = BTreeMap::from([("cpu".to_owned(), format!("{}m", u32::from(millis) + 1))]);
        one.requests = Some(amounts);
        granted.generation += 1;
        self.view.granted = Arc::new(granted);
    }

    /// Whether what the node has agreed to is what all have.
    fn has_its_size(&self) -> bool {
        !resize::is_in_progress(&self.view) && self.view.memory.resizing.is_none()
    }

    fn end_of(
        &mut self,
        operation: &impl Operation<Done = (), Failure = ()>,
        is_good: bool,
        change: impl FnOnce(&mut Self),
    ) {
        if is_good {
            change(self);
        }
        self.note_end(operation, if is_good { Done(()) } else { Failed(()) });
    }

    fn note_end<T: Operation>(&mut self, operation: &T, outcome: Outcome<T::Done, T::Failure>) {
        operations::finish(operation, outcome, &mut self.view.memory, self.view.now);
    }

    fn id(&mut self) -> String {
        self.next += 1;
        self.next.to_string()
    }

    fn add_sandbox(&mut self, attempt: u32) {
        let id = self.id();
        self.view.sandboxes.push(testing::sandbox(&id, attempt));
    }

    fn add_run(&mut self, name: &str, attempt: u32) {
        let Some(sandbox) = self.view.sandbox().map(|it| it.id.clone()) else { return };
        let mut run = testing::run(&self.id(), &sandbox, name, attempt, self.view.now);
        let wanted = self.view.wanted().into_iter().find(|it| it.name() == name).unwrap();
        let size = Size::of(&self.view.pod, &wanted.container);
        run.config.annotations.insert(ANNOTATION_SIZE.to_owned(), size.render());
        let health = Health { is_started: true, is_ready: true, failed: None };
        self.view.health.insert(run.id.clone(), health);
        self.view.runs.push(run);
    }

    fn end(&mut self, index: Option<usize>, code: i32) {
        let now = self.view.now;
        let Some(run) = index.and_then(|it| self.view.runs.get_mut(it)) else { return };
        if is_running(run) {
            run.state = testing::exited(code, now);
            let id = run.id.clone();
            self.view.health.remove(&id);
        }
    }

    fn exit(&mut self, index: usize, code: i32) {
        let running: Vec<usize> =
            (0..self.view.runs.len()).filter(|it| is_running(&self.view.runs[*it])).collect();
        if !running.is_empty() {
            self.end(Some(running[index % running.len()]), code);
        }
    }

    fn kill(&mut self) {
        if let Some(sandbox) = self.view.sandbox().map(|it| it.id.clone()) {
            self.stop_sandbox(&sandbox);
        }
    }

    fn stop_sandbox(&mut self, id: &SandboxId) {
        for index in 0..self.view.runs.len() {
            if self.view.runs[index].sandbox == *id {
                self.end(Some(index), 137);
            }
        }
        for sandbox in self.view.sandboxes.iter_mut().filter(|it| it.id == *id) {
            sandbox.state = SandboxState::NotReady;
        }
    }

    /// Everything goes well from now on, for long enough; these containers finish their work.
    fn settle(&mut self, finishing: &[&str], is_right: impl Fn(&Self) -> bool) {
        for _ in 0..500 {
            if is_right(self) {
                return;
            }
            let is_finishing =
                |it: &Run| is_running(it) && finishing.contains(&it.config.name.as_str());
            let index = self.view.runs.iter().position(is_finishing);
            if self.under_way.is_empty() && index.is_some() {
                self.end(index, 0);
                self.advance();
            } else if self.under_way.is_empty() {
                self.happen(Event::Wait(400));
            } else {
                self.happen(Event::Finish(0, true));
            }
        }
        panic!("it never comes right: {:?} {:?}", self.life, self.view.memory.in_flight);
    }
}

fn container(name: &str) -> Value {
    json!({ "name": name, "image": "i" })
}

fn spec(policy_of_pod: &str) -> Value {
    let policy = json!([{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }]);
    let policy = if policy_of_pod == "Never" { json!([]) } else { policy };
    let sidecar = json!({ "name": "sidecar", "image": "i", "restartPolicy": "Always", "resizePolicy": policy });
    json!({
        "restartPolicy": policy_of_pod,
        "terminationGracePeriodSeconds": 30,
        "initContainers": [container("init"), sidecar],
        "containers": [container("a"), container("b")],
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (any::<usize>(), prop::bool::weighted(0.85)).prop_map(|(index, is_good)| Event::Finish(index, is_good)),
        2 => (any::<usize>(), 0..2i32).prop_map(|(index, code)| Event::Exit(index, code)),
        1 => Just(Event::Kill),
        1 => any::<usize>().prop_map(Event::Unhealthy),
        2 => (0..400u64).prop_map(Event::Wait),
        1 => (any::<usize>(), any::<u16>()).prop_map(|(index, millis)| Event::Resize(index, millis)),
    ];
    prop::collection::vec(event, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_that_restarts_runs_in_the_end(events in events()) {
        let mut model = Model::new(spec("Always"));
        events.into_iter().for_each(|it| model.happen(it));
        model.settle(&["init"], |it| {
            let running = it.view.runs.iter().filter(|it| is_running(it)).count();
            let phase = it.view.status().and_then(|it| it.phase.clone());
            running == 3
                && it.under_way.is_empty()
                && phase.as_deref() == Some("Running")
                && it.has_its_size()
        });
    }

    #[test]
    fn a_deleted_pod_ends_and_leaves_nothing(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        before in events(),
        grace in 1..60u64,
        after in events(),
    ) {
        let mut model = Model::new(spec(policy));
        before.into_iter().for_each(|it| model.happen(it));
        model.happen(Event::Delete(grace));
        after.into_iter().for_each(|it| model.happen(it));
        model.settle(&[], |it| it.view.memory.is_ended);
        prop_assert!(model.view.runs.is_empty() && model.view.sandboxes.is_empty());
        prop_assert!(model.view.memory.is_torn_down);
        let phase = model.view.status().and_then(|it| it.phase.clone());
        prop_assert!(matches!(phase.as_deref(), Some("Failed" | "Succeeded")), "{phase:?}");
    }

    #[test]
    fn a_pod_that_vanishes_ends_and_leaves_nothing(before in events(), after in events()) {
        let mut model = Model::new(spec("Always"));
        before.into_iter().for_each(|it| model.happen(it));
        model.happen(Event::Remove);
        after.into_iter().for_each(|it| model.happen(it));
        model.settle(&[], |it| it.view.memory.is_ended);
        prop_assert!(model.view.runs.is_empty() && model.view.sandboxes.is_empty());
    }

    #[test]
    fn a_pod_that_runs_once_reaches_a_phase_and_keeps_it(events in events()) {
        let mut model = Model::new(spec("Never"));
        events.into_iter().for_each(|it| model.happen(it));
        model.settle(&["init", "a", "b"], |it| {
            let phase = it.view.status().and_then(|it| it.phase.as_deref());
            matches!(it.life, Life::Terminated(_)) && matches!(phase, Some("Failed" | "Succeeded"))
        });
        let phase = model.view.status().and_then(|it| it.phase.clone());
        model.happen(Event::Wait(1000));
        prop_assert_eq!(model.view.status().and_then(|it| it.phase.clone()), phase);
        prop_assert!(model.view.runs.iter().all(|it| !is_running(it)));
    }
}
