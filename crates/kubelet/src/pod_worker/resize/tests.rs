//! A pod, what its containers have and what it was given in; what is due out.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use node_api::ContainerId;
use serde_json::{Value, json};

use super::{is_in_progress, widest};
use crate::allocation::{ANNOTATION_SIZE, Allocation, Pending, Size};
use crate::pod_worker::operations::{Action, ResizePod, Resized};
use crate::pod_worker::step::{Life, Step, step};
use crate::pod_worker::view::View;
use crate::pod_worker::{operations, testing};
use crate::status;

/// `cpu memory`, limits that are requests, too.
fn resources(text: &str) -> Value {
    let (cpu, memory) = text.split_once(' ').unwrap();
    let all = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": all, "limits": all })
}

fn pod(containers: Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "u", "generation": 2 },
        "spec": { "restartPolicy": "OnFailure", "containers": containers },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn container(name: &str, size: &str, policy: Value) -> Value {
    json!({ "name": name, "image": "i", "resources": resources(size), "resizePolicy": policy })
}

/// Containers of these sizes run in a pod that has them; then it was given the others.
fn view(sizes: &[(&str, &str, &str)], policy: &Value) -> View {
    let all = |of: fn(&(&str, &str, &str)) -> String| -> Arc<Pod> {
        pod(sizes.iter().map(|it| container(it.0, &of(it), policy.clone())).collect())
    };
    let old = all(|it| it.1.to_owned());
    let mut view = testing::view(old.clone());
    view.memory.is_recorded = true;
    view.memory.volumes.paths = Some(Default::default());
    for (name, ..) in sizes {
        testing::add_run(&mut view, &format!("{name} running"));
        let run = view.runs.last_mut().unwrap();
        let containers = &old.spec.as_ref().unwrap().containers;
        let size = Size::of(&old, containers.iter().find(|it| it.name == *name).unwrap());
        run.config.resources = size.resources(&run.config.resources);
        run.config.annotations.insert(ANNOTATION_SIZE.to_owned(), size.render());
    }
    view.memory.cgroup = Some(widest(&view));
    view.pod = all(|it| it.2.to_owned());
    view.allocation = Arc::new(Allocation::of(&view.pod));
    view.granted = view.allocation.clone();
    view
}

fn due(view: &View) -> Step {
    step(&Life::Running, view)
}

/// `resize a 1>2`, `stop b`, `start b`, `told`; statuses are left out.
fn render(step: &Step) -> Vec<String> {
    let shown = step.actions.iter().filter_map(|it| match it {
        Action::ResizePod(ResizePod { pod, containers, .. }) => {
            let sizes = containers
                .iter()
                .map(|it| format!(" {} {}>{}", it.name, it.from.render(), it.to.render()));
            let memory = |it: &node_api::containers::Resources| it.memory_limit.unwrap_or(0);
            let of_pod = format!(" pod {}>{}", memory(&pod.0), memory(&pod.1));
            Some(format!("resize{of_pod}{}", sizes.collect::<String>()))
        }
        Action::StopContainer(it) => Some(format!("stop {}", it.name)),
        Action::StartContainer(it) => Some(format!("start {} #{}", it.name, it.attempt)),
        Action::TellResized(it) => Some(format!("tell {}", it.generation)),
        Action::RecordAllocation(it) => Some(format!("record {}", it.allocation.generation)),
        _ => None,
    });
    shown.collect()
}

fn condition(view: &View, type_: &str) -> Value {
    let status = json!(status::compute(view, &Life::Running));
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["type"] == type_).unwrap_or_default()
}

fn restart(resource: &str) -> Value {
    json!([{ "resourceName": resource, "restartPolicy": "RestartContainer" }])
}

#[test]
fn a_container_is_resized_as_it_runs_unless_it_asks_for_a_restart() {
    let grows = [("a", "1 10", "2 20")];
    let live = ["resize pod 10>20 a 1000,1000,10,10>2000,2000,20,20"];
    assert_eq!(render(&due(&view(&grows, &json!([])))), live);
    assert_eq!(render(&due(&view(&[("a", "1 10", "1 10")], &json!([])))), [""; 0]);
    for resource in ["cpu", "memory"] {
        let steps = render(&due(&view(&grows, &restart(resource))));
        assert_eq!(steps, ["resize pod 10>20", "stop a"], "the pod grows before the next run");
    }
    // Only what it asks a restart for is one.
    let processors = [("a", "1 10", "2 10")];
    assert_eq!(render(&due(&view(&processors, &restart("memory")))).len(), 1);
    assert_eq!(render(&due(&view(&processors, &restart("cpu")))), ["resize pod 10>10", "stop a"]);
}

#[test]
fn what_is_refused_is_tried_later_and_shown_until_then() {
    let mut view = view(&[("a", "1 20", "1 10")], &json!([]));
    let Some(Action::ResizePod(resize)) =
        due(&view).actions.into_iter().find(|it| matches!(it, Action::ResizePod(_)))
    else {
        panic!("nothing is due")
    };
    assert_eq!(condition(&view, "PodResizeInProgress")["observedGeneration"], 2);
    let kept = Resized { pod: resize.pod.0.clone(), ..Resized::default() };
    let failure = operations::Outcome::Failed((kept, "in use".to_owned()));
    operations::finish(&resize, failure, &mut view.memory, view.now);
    let step = due(&view);
    assert_eq!((render(&step), step.wake.is_some()), (Vec::new(), true));
    let shown = condition(&view, "PodResizeInProgress");
    assert_eq!((&shown["reason"], &shown["message"]), (&json!("Error"), &json!("in use")));
}

#[test]
fn a_run_that_ended_for_its_size_is_followed_by_another_at_once() {
    let mut view = view(&[("a", "1 20", "1 10")], &restart("memory"));
    let stop = due(&view).actions.into_iter().find(|it| matches!(it, Action::StopContainer(_)));
    // It shrinks: the pod has what it had for as long as the old run is there.
    assert_eq!(render(&due(&view)), ["stop a"]);
    stop.unwrap().any().begin(&mut view);
    view.memory.in_flight.clear();
    view.runs[0].state = testing::exited(0, view.now);
    view.memory.crashes.clear();
    let step = due(&view);
    assert_eq!(step.life, Life::Running, "its policy would let it end");
    assert_eq!(render(&step), ["resize pod 20>10", "start a #1"]);
    let start = step.actions.into_iter().find(|it| matches!(it, Action::StartContainer(_)));
    start.unwrap().any().begin(&mut view);
    assert!(view.memory.crashes.is_empty(), "nobody failed");
}

#[test]
fn nothing_starts_in_a_pod_that_has_to_grow_first() {
    let mut view = view(&[("a", "1 10", "2 20")], &json!([]));
    view.runs[0].state = testing::exited(1, view.now);
    assert_eq!(render(&due(&view)), ["resize pod 10>20"]);
    let Action::ResizePod(resize) = due(&view).actions.remove(0) else { panic!("no resize") };
    let done = Resized { pod: resize.pod.1.clone(), ..Resized::default() };
    operations::finish(&resize, operations::Outcome::Done(done), &mut view.memory, view.now);
    assert_eq!(render(&due(&view)), ["start a #1"]);
}

#[test]
fn what_was_agreed_to_is_on_disk_before_anything_changes_and_its_end_is_told() {
    let mut view = view(&[("a", "1 10", "1 10")], &json!([]));
    let bigger = pod(json!([container("a", "2 20", json!([]))]));
    view.granted = Arc::new(Allocation::of(&bigger));
    assert_eq!(render(&due(&view)), ["record 2"]);
    assert!(is_in_progress(&view));
    let Action::RecordAllocation(record) = due(&view).actions.remove(0) else {
        panic!("nothing is recorded")
    };
    operations::finish(&record, operations::Outcome::Done(()), &mut view.memory, view.now);
    let recorded = view.memory.recorded.take().unwrap();
    (view.pod, view.allocation) = (recorded.apply(&view.pod), recorded);
    let Action::ResizePod(resize) = due(&view).actions.remove(0) else { panic!("no resize") };
    assert_eq!(render(&due(&view)).len(), 1, "its end is not told before");
    let told = [(ContainerId::new("a-0"), resize.containers[0].to)].into();
    let done = Resized { pod: resize.pod.1.clone(), told, ..Resized::default() };
    operations::finish(&resize, operations::Outcome::Done(done), &mut view.memory, view.now);
    assert!(!is_in_progress(&view));
    assert_eq!(render(&due(&view)), ["tell 2"]);
    due(&view).actions.remove(0).any().begin(&mut view);
    view.memory.in_flight.clear();
    assert_eq!(render(&due(&view)), [""; 0]);
}

#[test]
fn a_kubelet_that_finds_a_pod_between_two_sizes_holds_nobody_back() {
    let mut view = view(&[("a", "1 20", "1 10"), ("b", "1 10", "1 30")], &json!([]));
    view.memory.cgroup = None;
    assert_eq!(widest(&view).memory_limit, Some(50));
    assert!(render(&due(&view)).is_empty(), "its cgroup comes first");
}

#[test]
fn a_status_shows_what_is_asked_for_given_and_in_force() {
    let mut view = view(&[("a", "1 10Mi", "2 20Mi")], &json!([]));
    let of =
        |view: &View| json!(status::compute(view, &Life::Running))["containerStatuses"][0].clone();
    let shown = of(&view);
    assert_eq!(shown["allocatedResources"], json!({ "cpu": "2", "memory": "20Mi" }));
    assert_eq!(shown["resources"], resources("1 10Mi"));
    let half = Size { cpu_request: 1500, cpu_limit: 1500, memory_request: 5, memory_limit: 5 };
    view.memory.actual.insert(ContainerId::new("a-0"), half);
    assert_eq!(of(&view)["resources"], resources("1500m 5"));
    view.pending =
        Some(Pending { reason: "Deferred", message: "no room".to_owned(), generation: 7 });
    let shown = condition(&view, "PodResizePending");
    let said =
        [&shown["status"], &shown["reason"], &shown["message"], &shown["observedGeneration"]];
    assert_eq!(said, [&json!("True"), &json!("Deferred"), &json!("no room"), &json!(7)]);
}

#[test]
fn a_pod_that_has_a_size_of_its_own_shows_it() {
    let mut view = view(&[("a", "1 10Mi", "1 10Mi")], &json!([]));
    let shown = json!(status::compute(&view, &Life::Running));
    assert_eq!((&shown["resources"], &shown["allocatedResources"]), (&Value::Null, &Value::Null));
    let sized = |size: &str| {
        let mut pod = Pod::clone(&pod(json!([container("a", "1 10Mi", json!([]))])));
        pod.spec.as_mut().unwrap().resources = serde_json::from_value(resources(size)).unwrap();
        Arc::new(pod)
    };
    view.pod = sized("2 20Mi");
    view.memory.cgroup = Some(widest(&view));
    view.pod = sized("3 30Mi");
    let shown = json!(status::compute(&view, &Life::Running));
    assert_eq!(shown["allocatedResources"], resources("3 30Mi")["requests"]);
    // The kernel knows no request of memory.
    let mut expected = resources("2 20Mi");
    expected["requests"]["memory"] = json!("30Mi");
    assert_eq!(shown["resources"], expected);
    view.allocation = Arc::new(Allocation::of(&view.pod));
    view.granted = view.allocation.clone();
    assert_eq!(render(&due(&view)), ["resize pod 20971520>31457280"]);
}

#[test]
fn below_what_the_kernel_can_tell_apart_the_pods_own_words_are_shown() {
    let mut view = view(&[("a", "1m 10Mi", "2m 10Mi")], &json!([]));
    let told =
        Size { cpu_request: 2, cpu_limit: 10, memory_request: 10 << 20, memory_limit: 10 << 20 };
    view.memory.actual.insert(ContainerId::new("a-0"), told);
    let status = json!(status::compute(&view, &Life::Running));
    assert_eq!(status["containerStatuses"][0]["resources"], resources("2m 10Mi"));
}
