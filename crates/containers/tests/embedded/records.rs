//! Records of earlier versions are taken over; what cannot be read is left alone and named.

use std::fs;
use std::path::PathBuf;

use containers::Config;
use node_api::containers::ContainerState;
use node_api::sandboxes::SandboxState;
use node_api::{ContainerId, SandboxId};
use serde_json::Value;

use crate::bed::{Bed, PATIENCE, eventually};
use crate::leftovers;

fn sandbox_directory(bed: &Bed, sandbox: &SandboxId) -> PathBuf {
    bed.directory.join("containers/sandboxes").join(sandbox.as_str())
}

fn container_directory(bed: &Bed, sandbox: &SandboxId, id: &ContainerId) -> PathBuf {
    sandbox_directory(bed, sandbox).join("containers").join(id.as_str())
}

/// As the first version wrote it: no version, and no records beside.
fn make_first_format(path: &PathBuf) {
    let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(record.as_object_mut().unwrap().remove("version"), Some(2.into()));
    fs::write(path, record.to_string()).unwrap();
}

pub(crate) async fn pods_of_the_first_format_are_adopted_and_go_on() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("old")).await.unwrap();
    let running = first.started(&sandbox.id, &bed.container("running", "sleep 1000")).await;
    let exited = first.started(&sandbox.id, &bed.container("exited", "exit 3")).await;
    first.exit(&exited).await;
    let before = first.containers().list(None);
    first.forget().await;
    make_first_format(&sandbox_directory(&bed, &sandbox.id).join("sandbox.json"));
    fs::remove_file(sandbox_directory(&bed, &sandbox.id).join("holder.json")).unwrap();
    for id in [&running, &exited] {
        let directory = container_directory(&bed, &sandbox.id, id);
        make_first_format(&directory.join("container.json"));
        fs::remove_file(directory.join("started.json")).unwrap();
    }
    make_first_format(&container_directory(&bed, &sandbox.id, &exited).join("exit.json"));

    let second = bed.open().await;
    assert_eq!(second.sandboxes().list(), std::slice::from_ref(&sandbox));
    assert_eq!(second.containers().list(None), before);
    assert_eq!(second.node.unreadable(), []);
    assert_eq!(second.output(&running, "echo in").await, "in\n");
    second.containers().remove(&running).await.unwrap();
    let again = second.started(&sandbox.id, &bed.container("running", "exit 5")).await;
    assert_eq!(second.exit(&again).await.code, 5);
    second.sandboxes().remove(&sandbox.id).await.unwrap();
    assert_eq!(leftovers::processes(sandbox.id.as_str()), [0; 0]);
    second.purge().await;
}

pub(crate) async fn an_unreadable_sandbox_goes_on_and_is_named() {
    let bed = Bed::new();
    let first = bed.open().await;
    let [config, other] = ["damaged", "sound"].map(|it| bed.sandbox(it));
    let damaged = first.sandboxes().create(config.clone()).await.unwrap().id;
    let id = first.started(&damaged, &bed.container("main", "sleep 1000")).await;
    let sound = first.sandboxes().create(other).await.unwrap().id;
    first.forget().await;
    let path = sandbox_directory(&bed, &damaged).join("sandbox.json");
    let whole = fs::read_to_string(&path).unwrap();

    for (record, is_owner_known) in [
        (whole.replace(r#""version":2"#, r#""version":9,"needs":9"#), true),
        (whole.replace(r#""hostname":"#, r#""host":"#), true),
        (whole[..whole.len() / 2].to_owned(), false),
        (String::new(), false),
    ] {
        fs::write(&path, &record).unwrap();
        let node = bed.open().await;
        let listed: Vec<_> = node.sandboxes().list().into_iter().map(|it| it.id).collect();
        assert_eq!(listed, std::slice::from_ref(&sound), "the others are adopted");
        let unreadable = node.node.unreadable();
        let [report] = unreadable.as_slice() else { panic!("{unreadable:?}") };
        assert_eq!((&report.sandbox, &report.container), (&damaged, &None));
        assert!(report.why.contains("sandbox.json"), "{report:?}");
        assert_eq!(report.pod.is_some(), is_owner_known, "{report:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), record, "it is as it was");
        assert!(bed.network.attached.lock().unwrap().contains_key(&damaged), "its address is kept");
        if is_owner_known {
            let refused = node.sandboxes().create(config.clone()).await.unwrap_err();
            assert!(refused.to_string().contains("runs and cannot be read"), "{refused}");
        }
        let refused = node_api::Cgroups::remove(&node.node.cgroups(), &config.cgroup).await;
        assert!(refused.unwrap_err().to_string().contains("left alone"));
        node.forget().await;
    }

    fs::write(&path, whole).unwrap();
    let node = bed.open().await;
    assert_eq!(node.node.unreadable(), []);
    assert!(matches!(node.containers().get(&id).unwrap().state, ContainerState::Running { .. }));
    assert_eq!(node.output(&id, "echo unharmed").await, "unharmed\n");
    node.purge().await;
}

pub(crate) async fn an_unreadable_container_goes_on_and_nothing_starts_beside_it() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("half")).await.unwrap().id;
    let running = first.started(&sandbox, &bed.container("running", "sleep 1000")).await;
    let exited = first.started(&sandbox, &bed.container("exited", "exit 3")).await;
    first.exit(&exited).await;
    first.forget().await;
    let path = container_directory(&bed, &sandbox, &running).join("container.json");
    let whole = fs::read_to_string(&path).unwrap();

    for record in [None, Some("{"), Some(r#"{"version":3,"needs":3}"#)] {
        match record {
            Some(record) => fs::write(&path, record).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let node = bed.open().await;
        assert_eq!(node.sandboxes().list()[0].state, SandboxState::Ready);
        let listed: Vec<_> = node.containers().list(None).into_iter().map(|it| it.id).collect();
        assert_eq!(listed, std::slice::from_ref(&exited));
        let unreadable = node.node.unreadable();
        let [report] = unreadable.as_slice() else { panic!("{unreadable:?}") };
        assert_eq!((&report.sandbox, &report.container), (&sandbox, &Some(running.clone())));
        let again = node.containers().create(&sandbox, bed.container("running", "true")).await;
        let refused = again.unwrap_err().to_string();
        assert!(refused.contains("runs and cannot be read"), "{refused}");
        node.forget().await;
    }

    fs::write(&path, whole).unwrap();
    let node = bed.open().await;
    assert_eq!(node.output(&running, "echo unharmed").await, "unharmed\n");
    node.purge().await;
}

pub(crate) async fn a_damaged_exit_does_not_run_a_container_twice() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("ended")).await.unwrap().id;
    let id = first.started(&sandbox, &bed.container("main", "exit 3")).await;
    first.exit(&id).await;
    first.forget().await;
    leftovers::kill_holder(&bed, &sandbox);
    eventually("the holder's end", || leftovers::processes(sandbox.as_str()).is_empty()).await;
    fs::write(container_directory(&bed, &sandbox, &id).join("exit.json"), "{").unwrap();
    let second = bed.open().await;
    let ContainerState::Exited(exit) = second.containers().get(&id).unwrap().state else {
        panic!("it has exited")
    };
    assert_eq!(exit.code, 255);
    assert!(exit.message.unwrap().contains("cannot be read"));
    second.purge().await;
}

pub(crate) async fn purge_removes_also_what_cannot_be_read() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("damaged")).await.unwrap().id;
    first.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    first.forget().await;
    fs::write(sandbox_directory(&bed, &sandbox).join("sandbox.json"), "").unwrap();
    let second = bed.open().await;
    second.purge().await;
    assert_eq!(leftovers::processes(sandbox.as_str()), [0; 0]);
    assert_eq!(leftovers::cgroups(&bed.cgroup_root), [""; 0]);
    assert!(!bed.directory.join("containers").exists());
}

/// A holder lives as long as its pod; what it starts is set up by the program that asks for it.
pub(crate) async fn set_up_is_the_present_programs() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("old")).await.unwrap().id;
    let id = first.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    first.forget().await;

    // A program that cannot set up: if the holder did it by itself, nobody would notice.
    let config = Config { program: "/bin/busybox".into(), ..bed.config() };
    let second = bed.open_with(config).await;
    let command = vec!["/bin/true".to_owned()];
    let refused = second.containers().exec_output(&id, command, PATIENCE, 10).await.unwrap_err();
    assert!(refused.to_string().contains("it ended without a word"), "{refused}");
    second.forget().await;

    let third = bed.open().await;
    assert_eq!(third.output(&id, "echo set up again").await, "set up again\n");
    let again = third.started(&sandbox, &bed.container("other", "exit 6")).await;
    assert_eq!(third.exit(&again).await.code, 6);
    third.purge().await;
}
