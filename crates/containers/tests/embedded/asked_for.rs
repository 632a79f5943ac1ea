//! Devices, cpusets, content of images and what is mounted below a volume, as the program sees them.

use node_api::containers::{ContainerConfig, Device, ImageMount, Mount};
use node_api::{ContainerId, ImageId};

use crate::bed::{Bed, Opened};

async fn run(bed: &Bed, node: &Opened, change: impl FnOnce(&mut ContainerConfig)) -> ContainerId {
    let sandbox = node.sandboxes().create(bed.sandbox("asks")).await.unwrap().id;
    let mut config = bed.container("main", "sleep 1000");
    change(&mut config);
    node.started(&sandbox, &config).await
}

pub(crate) async fn a_device_can_be_used_as_far_as_it_is_permitted() {
    let bed = Bed::new();
    let node = bed.open().await;
    // /dev/mem's sister: one that containers do not have by themselves.
    let device = |inside: &str, permissions: &str| Device {
        host_path: "/dev/kmsg".into(),
        container_path: inside.to_owned(),
        permissions: permissions.to_owned(),
    };
    let id = run(&bed, &node, |it| it.devices = vec![device("/dev/deep/log", "w")]).await;
    let script = "test -c /dev/deep/log && (: > /dev/deep/log) && ! (: < /dev/deep/log) 2>/dev/null && echo ok";
    assert_eq!(node.output(&id, script).await, "ok\n");
    let sandbox = node.sandboxes().create(bed.sandbox("missing")).await.unwrap().id;
    let missing = Device { host_path: "/dev/does-not-exist".into(), ..device("/dev/x", "r") };
    let config = ContainerConfig { devices: vec![missing], ..bed.container("main", "true") };
    let error = node.containers().create(&sandbox, config).await.unwrap_err();
    assert!(error.to_string().contains("/dev/does-not-exist"), "{error}");
    node.purge().await;
}

pub(crate) async fn every_handler_that_is_shown_runs_containers_and_no_other() {
    let bed = Bed::new();
    let node = bed.open().await;
    let handlers = node.sandboxes().status().borrow().handlers.clone();
    assert_eq!(handlers.keys().collect::<Vec<_>>(), ["", "xebec"]);
    for (number, name) in handlers.into_keys().enumerate() {
        let mut config = bed.sandbox(&format!("handled-{number}"));
        config.runtime_handler = name;
        let sandbox = node.sandboxes().create(config).await.unwrap().id;
        let id = node.started(&sandbox, &bed.container("main", "sleep 1000")).await;
        assert_eq!(node.output(&id, "echo here").await, "here\n");
    }
    let mut config = bed.sandbox("unhandled");
    config.runtime_handler = "kata".to_owned();
    let error = node.sandboxes().create(config).await.unwrap_err();
    assert_eq!(error.to_string(), "RuntimeHandler \"kata\" not supported");
    node.purge().await;
}

pub(crate) async fn cpus_are_those_that_were_given() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = run(&bed, &node, |it| it.resources.cpuset_cpus = Some("0".to_owned())).await;
    let shown = node.output(&id, "cat /proc/self/status").await;
    let line = shown.lines().find(|it| it.starts_with("Cpus_allowed_list:")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("0"));
    node.purge().await;
}

pub(crate) async fn an_images_content_can_be_read_and_not_written() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mount = |sub_path: &str, at: &str| Mount {
        image: Some(ImageMount { image: ImageId::new("sha256:x"), sub_path: sub_path.to_owned() }),
        container_path: at.to_owned(),
        ..Mount::default()
    };
    let id = run(&bed, &node, |it| {
        it.mounts = vec![mount("", "/content"), mount("bin", "/tools")];
    })
    .await;
    let script = "test -x /content/bin/busybox && test -x /tools/busybox && ! (: > /content/x) 2>/dev/null && echo ok";
    assert_eq!(node.output(&id, script).await, "ok\n");
    node.purge().await;
}

pub(crate) async fn recursively_read_only_is_what_is_mounted_below_too() {
    let bed = Bed::new();
    let node = bed.open().await;
    let volume = bed.directory.join("volume");
    std::fs::create_dir_all(volume.join("below")).unwrap();
    let options = [("size", "1m")];
    linux::mounts::mount_tmpfs(&volume.join("below"), &options, Default::default()).unwrap();
    let mount = |at: &str, recursive_read_only| Mount {
        host_path: volume.clone(),
        container_path: at.to_owned(),
        read_only: true,
        recursive_read_only,
        ..Mount::default()
    };
    let id =
        run(&bed, &node, |it| it.mounts = vec![mount("/all", true), mount("/top", false)]).await;
    let script = "! (: > /all/below/x) 2>/dev/null && ! (: > /top/x) 2>/dev/null && : > /top/below/x && echo ok";
    let shown = node.output(&id, script).await;
    node.purge().await;
    rustix::mount::unmount(volume.join("below"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(shown, "ok\n");
}

pub(crate) async fn what_a_container_wrote_is_counted() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = run(&bed, &node, |_| {}).await;
    let before = node.containers().stats(&id).await.unwrap();
    node.output(&id, "head -c 1048576 /dev/zero > /tmp/file").await;
    let after = node.containers().stats(&id).await.unwrap();
    let used = |it: &node_api::containers::ContainerStats| {
        it.writable_layer.as_ref().map_or(0, |it| it.used_bytes)
    };
    assert!(used(&after) >= used(&before) + (1 << 20), "{after:?}");
    assert!(after.usage.memory_rss > 0 && after.usage.memory_usage > 0, "{after:?}");
    let sandbox = node.containers().get(&id).unwrap().sandbox;
    let of_sandbox = node.sandboxes().stats(&sandbox).await.unwrap();
    assert!(of_sandbox.n_processes >= 1 && of_sandbox.usage.memory_rss > 0, "{of_sandbox:?}");
    node.purge().await;
}
