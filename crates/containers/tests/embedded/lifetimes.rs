//! From create to exit.

use std::fs;
use std::time::Duration;

use futures_util::StreamExt as _;
use node_api::containers::ContainerState;
use node_api::sandboxes::{NetworkNamespace, PidNamespace, SandboxState};
use node_api::{Error, Event};

use crate::bed::{Bed, PATIENCE, eventually};

pub(crate) async fn output_is_logged_and_the_exit_code_told() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("web")).await.unwrap();
    assert_eq!(sandbox.addresses.len(), 1);
    let config = bed.container("main", "echo out; echo err >&2; printf rest; exit 3");
    let id = node.started(&sandbox.id, &config).await;
    let exit = node.exit(&id).await;
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (3, None, false));
    assert!(exit.started.unwrap() <= exit.finished);
    let log = fs::read_to_string(&config.log_path).unwrap();
    let mut entries: Vec<&str> = log.lines().map(|it| it.split_once(' ').unwrap().1).collect();
    entries.sort_unstable();
    assert_eq!(entries, ["stderr F err", "stdout F out", "stdout P rest"]);
    node.purge().await;
}

pub(crate) async fn a_log_has_everything_that_was_written() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("loud")).await.unwrap().id;
    let config = bed.container("main", "seq 1 200000");
    let id = node.started(&sandbox, &config).await;
    assert_eq!(node.exit(&id).await.code, 0);
    let expected: String = (1..=200_000).map(|it| format!("{it}\n")).collect();
    assert!(bed.log(&config) == expected, "the log is not what was written");
    node.purge().await;
}

pub(crate) async fn logs_are_rotated() {
    let bed = Bed::new();
    let mut config = bed.config();
    (config.log_size_max, config.log_files_max) = (64 * 1024, 3);
    let node = bed.open_with(config).await;
    let sandbox = node.sandboxes().create(bed.sandbox("loud")).await.unwrap().id;
    let config = bed.container("main", "seq 1 20000");
    let id = node.started(&sandbox, &config).await;
    assert_eq!(node.exit(&id).await.code, 0);
    let mut files: Vec<_> = fs::read_dir(config.log_path.parent().unwrap())
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    // 0.log sorts first and is the newest.
    files.rotate_left(1);
    let text: String =
        files.iter().map(|it| crate::bed::shown(&fs::read_to_string(it).unwrap())).collect();
    let numbers: Vec<u32> = text.lines().map(|it| it.parse().unwrap()).collect();
    assert_eq!(numbers.last(), Some(&20_000));
    assert!(numbers.windows(2).all(|it| it[0] + 1 == it[1]), "a gap between files");
    node.purge().await;
}

pub(crate) async fn a_signal_ends_a_container() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("polite")).await.unwrap().id;
    let script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let config = bed.container("main", script);
    let id = node.started(&sandbox, &config).await;
    eventually("the trap", || bed.log(&config).contains("ready")).await;
    node.containers().stop(&id, PATIENCE).await.unwrap();
    assert_eq!(node.exit(&id).await.code, 7);
    assert_eq!(bed.log(&config), "ready\nbye\n");

    let mut config =
        bed.container("other", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done");
    config.stop_signal = Some("SIGUSR1".to_owned());
    let id = node.started(&sandbox, &config).await;
    eventually("the trap", || bed.log(&config).contains("ready")).await;
    node.containers().stop(&id, PATIENCE).await.unwrap();
    assert_eq!(node.exit(&id).await.code, 9);
    node.purge().await;
}

pub(crate) async fn what_ignores_its_stop_signal_is_killed() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("deaf")).await.unwrap().id;
    let config = bed.container("main", "trap '' TERM; echo ready; while :; do sleep 1; done");
    let id = node.started(&sandbox, &config).await;
    eventually("the trap", || bed.log(&config).contains("ready")).await;
    node.containers().stop(&id, Duration::from_millis(100)).await.unwrap();
    let exit = node.exit(&id).await;
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    node.purge().await;
}

pub(crate) async fn a_program_that_does_not_exist_is_named() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("wrong")).await.unwrap().id;
    let mut config = bed.container("main", "");
    config.command = vec!["/bin/no-such-program".to_owned()];
    let id = node.containers().create(&sandbox, config).await.unwrap();
    let err = node.containers().start(&id).await.unwrap_err();
    let Error::Refused(why) = err else { panic!("{err:?}") };
    assert!(why.contains("no-such-program"), "{why}");
    let exit = node.exit(&id).await;
    assert_eq!((exit.code, exit.started), (128, None));
    assert_eq!(exit.message, Some(why));
    node.purge().await;
}

pub(crate) async fn containers_share_the_sandbox() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mut config = bed.sandbox("shared");
    config.sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "99".to_owned());
    let sandbox = node.sandboxes().create(config).await.unwrap().id;
    let one = node.started(&sandbox, &bed.container("one", "sleep 1000")).await;
    let two = node.started(&sandbox, &bed.container("two", "sleep 1000")).await;
    assert_eq!(node.output(&one, "hostname").await, "shared\n");
    // What a holder does to stay small does not reach its containers.
    for process in ["1", "self"] {
        let status = node.output(&one, &format!("cat /proc/{process}/status")).await;
        assert!(!status.contains("THP_enabled:\t0"), "{status}");
    }
    let sysctl = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start";
    assert_eq!(node.output(&one, sysctl).await, "99\n");
    assert_eq!(node.output(&one, "echo hello > /dev/shm/x; cat /etc/hostname").await, "shared\n");
    assert_eq!(node.output(&two, "cat /dev/shm/x").await, "hello\n");
    for name in ["net", "ipc", "uts"] {
        let link = format!("readlink /proc/self/ns/{name}");
        assert_eq!(node.output(&one, &link).await, node.output(&two, &link).await);
    }
    for name in ["pid", "mnt"] {
        let link = format!("readlink /proc/self/ns/{name}");
        assert_ne!(node.output(&one, &link).await, node.output(&two, &link).await);
    }
    assert_eq!(node.output(&one, "test -e /bin/new || echo no; echo > /bin/new").await, "no\n");
    assert_eq!(node.output(&two, "test -e /bin/new || echo no").await, "no\n");
    node.purge().await;
}

pub(crate) async fn a_pod_can_share_its_pids() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mut config = bed.sandbox("family");
    config.pid = PidNamespace::Pod;
    let sandbox = node.sandboxes().create(config).await.unwrap().id;
    let one = node.started(&sandbox, &bed.container("one", "sleep 1234 & wait")).await;
    let two = node.started(&sandbox, &bed.container("two", "sleep 1000")).await;
    eventually_output(&node, &two, "ps", "sleep 1234").await;
    assert_eq!(
        node.output(&one, "readlink /proc/self/ns/pid").await,
        node.output(&two, "readlink /proc/self/ns/pid").await
    );
    // What a container has started ends with it, though its first process is not the namespace's.
    node.containers().stop(&one, Duration::ZERO).await.unwrap();
    assert_eq!(node.exit(&one).await.code, 137);
    assert!(!node.output(&two, "ps").await.contains("sleep 1234"));
    assert!(matches!(node.containers().get(&two).unwrap().state, ContainerState::Running { .. }));
    // Orphans are reaped.
    node.output(&two, "sh -c 'sleep 0.01 & exec true'").await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while node.output(&two, "ps").await.contains("[sleep]") {
        assert!(tokio::time::Instant::now() < deadline, "a zombie stays");
    }
    node.purge().await;
}

async fn eventually_output(
    node: &crate::bed::Opened,
    id: &node_api::ContainerId,
    script: &str,
    text: &str,
) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !node.output(id, script).await.contains(text) {
        assert!(tokio::time::Instant::now() < deadline, "{script} never shows {text}");
    }
}

/// Its children have copies of its memory, for a moment within sight of a container that may trace
/// them.
pub(crate) async fn a_holder_does_not_remember_what_containers_were_given() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("discreet")).await.unwrap().id;
    let mut config = bed.container("main", "sleep 1000");
    let secret = format!("sesame-{}", crate::bed::unique());
    config.env.push(("WORD".to_owned(), secret.clone()));
    let id = node.started(&sandbox, &config).await;
    assert!(node.output(&id, "echo $WORD").await.contains(&secret));
    let holder = crate::leftovers::holder(&bed, &sandbox);
    let maps = fs::read_to_string(format!("/proc/{holder}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{holder}/mem")).unwrap();
    let mut n_bytes = 0;
    for line in maps.lines().filter(|it| it.contains(" rw")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
        // Page by page: an allocator reserves much more than there is.
        for at in (start..end).step_by(4096) {
            let mut page = [0; 4096 + 64];
            let n = std::os::unix::fs::FileExt::read_at(&memory, &mut page, at).unwrap_or(0);
            n_bytes += n;
            let found = page[..n].windows(secret.len()).any(|it| it == secret.as_bytes());
            assert!(!found, "in {line}");
        }
    }
    assert!(n_bytes > 0);
    node.purge().await;
}

pub(crate) async fn the_hosts_pids_can_be_shared() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mut config = bed.sandbox("open");
    (config.pid, config.network) = (PidNamespace::Host, NetworkNamespace::Host);
    let sandbox = node.sandboxes().create(config).await.unwrap();
    assert!(sandbox.addresses.is_empty());
    let id = node.started(&sandbox.id, &bed.container("main", "sleep 4321 & echo $!; wait")).await;
    let own = fs::read_link("/proc/self/ns/pid").unwrap();
    assert_eq!(node.output(&id, "readlink /proc/self/ns/pid").await.trim(), own.to_str().unwrap());
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(node.output(&id, "readlink /proc/self/ns/net").await.trim(), own.to_str().unwrap());
    let log = bed.log(&node.containers().get(&id).unwrap().config);
    let child: u32 = log.trim().parse().unwrap();
    let is_there =
        || fs::read_to_string(format!("/proc/{child}/cmdline")).is_ok_and(|it| it.contains("4321"));
    // While a program begins it has no command line.
    eventually("what it started", is_there).await;
    node.containers().stop(&id, Duration::ZERO).await.unwrap();
    eventually("the end of what it started", || !is_there()).await;
    node.purge().await;
}

pub(crate) async fn a_sandbox_that_cannot_be_made_leaves_nothing() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mut config = bed.sandbox("wrong");
    config.sysctls.insert("net.no.such.sysctl".to_owned(), "1".to_owned());
    let err = node.sandboxes().create(config).await.unwrap_err();
    assert!(err.to_string().contains("net.no.such.sysctl"), "{err}");
    *bed.network.refuses.lock().unwrap() = true;
    let err = node.sandboxes().create(bed.sandbox("lonely")).await.unwrap_err();
    assert!(matches!(err, Error::AddressesExhausted { .. }), "{err:?}");
    assert_eq!(node.sandboxes().list(), []);
    let sandboxes = bed.directory.join("containers/sandboxes");
    assert_eq!(fs::read_dir(sandboxes).unwrap().count(), 0);
    *bed.network.refuses.lock().unwrap() = false;
    node.purge().await;
}

pub(crate) async fn a_killed_holder_takes_its_containers_along() {
    let bed = Bed::new();
    let node = bed.open().await;
    let mut events = node.sandboxes().events();
    let sandbox = node.sandboxes().create(bed.sandbox("fragile")).await.unwrap();
    let id = node.started(&sandbox.id, &bed.container("main", "sleep 1000")).await;
    let parent = node.output(&id, "cat /proc/1/status").await;
    assert!(parent.contains("PPid:\t0"), "{parent}");
    crate::leftovers::kill_holder(&bed, &sandbox.id);
    let is_end = |it: &Event| matches!(it, Event::Sandbox { sandbox: id, .. } if *id == sandbox.id);
    loop {
        let next = tokio::time::timeout(PATIENCE, events.next()).await;
        if is_end(&next.expect("an event").expect("events go on")) {
            break;
        }
    }
    let listed = node.sandboxes().list();
    assert_eq!(listed[0].state, SandboxState::NotReady);
    let exit = node.exit(&id).await;
    assert_eq!(exit.code, 255);
    assert!(exit.message.unwrap().contains("holder died"));
    node.purge().await;
}
