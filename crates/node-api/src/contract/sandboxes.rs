//! Promises of [`Sandboxes`].

use super::waiting::{until, within};
use super::{Fixture, Program};
use crate::containers::{ContainerState, IdMapping, IdMappings};
use crate::network::{HostPort, Protocol};
use crate::sandboxes::{NetworkNamespace, Sandbox, SandboxState, conditions};
use crate::{Containers, Error, SandboxId, Sandboxes};

/// Everything. `host_port` is one that nobody uses; `None` if the implementation has no network.
pub async fn all(
    sandboxes: &dyn Sandboxes,
    containers: &dyn Containers,
    fixture: &dyn Fixture,
    host_port: Option<u16>,
) {
    a_sandbox_is_listed_as_it_was_made(sandboxes, fixture).await;
    sandboxes_are_listed_in_order(sandboxes, fixture).await;
    the_same_sandbox_is_made_once(sandboxes, fixture).await;
    stopping_ends_what_runs(sandboxes, containers, fixture).await;
    removing_forgets_everything(sandboxes, containers, fixture).await;
    what_is_gone_can_be_stopped_and_removed(sandboxes).await;
    the_network_of_the_host_has_no_addresses_of_its_own(sandboxes, fixture).await;
    the_runtime_has_a_name_and_is_ready(sandboxes);
    an_unknown_handler_is_refused(sandboxes, fixture).await;
    a_user_namespace_is_made_or_refused_by_name(sandboxes, fixture).await;
    if let Some(port) = host_port {
        a_failed_sandbox_leaves_nothing(sandboxes, fixture, port).await;
    }
}

pub fn the_runtime_has_a_name_and_is_ready(sandboxes: &dyn Sandboxes) {
    let version = sandboxes.version();
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    assert!(!version.name.is_empty() && version.name.chars().all(is_plain), "{version:?}");
    assert!(!version.version.is_empty(), "{version:?}");
    let (status, network) = (sandboxes.status(), sandboxes.network());
    let conditions = conditions(&status.borrow(), &network.borrow());
    assert!(conditions.iter().all(|it| it.is_true), "{conditions:?}");
}

pub async fn an_unknown_handler_is_refused(sandboxes: &dyn Sandboxes, fixture: &dyn Fixture) {
    let mut config = fixture.sandbox("handled");
    config.runtime_handler = "nobody-has-this".to_owned();
    let error = sandboxes.create(config.clone()).await.expect_err("there is no such handler");
    assert!(stdx::error_chain(&error).contains("nobody-has-this"), "{error:?}");
    assert!(sandboxes.list().iter().all(|it| it.config.pod != config.pod));
}

pub async fn a_user_namespace_is_made_or_refused_by_name(
    sandboxes: &dyn Sandboxes,
    fixture: &dyn Fixture,
) {
    let mapping = vec![IdMapping { host: 1 << 20, container: 0, length: 1 << 16 }];
    let mut config = fixture.sandbox("mapped");
    config.user_namespace = Some(IdMappings { uids: mapping.clone(), gids: mapping });
    match sandboxes.create(config.clone()).await {
        Ok(made) => remove(sandboxes, &made.id).await,
        Err(Error::Unsupported { what }) => assert!(what.contains("user namespace"), "{what}"),
        Err(error) => panic!("neither done nor refused: {error:?}"),
    }
    assert!(sandboxes.list().iter().all(|it| it.config.pod != config.pod));
}

fn find(sandboxes: &dyn Sandboxes, id: &SandboxId) -> Option<Sandbox> {
    sandboxes.list().into_iter().find(|it| it.id == *id)
}

async fn remove(sandboxes: &dyn Sandboxes, id: &SandboxId) {
    within("remove", sandboxes.remove(id)).await.expect("a sandbox can be removed");
    assert_eq!(find(sandboxes, id), None, "a removed sandbox is still listed");
}

pub async fn a_sandbox_is_listed_as_it_was_made(sandboxes: &dyn Sandboxes, fixture: &dyn Fixture) {
    let mut config = fixture.sandbox("listed");
    config.annotations.insert("kept".to_owned(), "as it was".to_owned());
    let made = sandboxes.create(config.clone()).await.expect("create");
    assert_eq!(made.config, config);
    assert_eq!(made.state, SandboxState::Ready);
    assert_eq!(made.id.as_str().len(), 64, "{}", made.id);
    assert!(made.id.as_str().chars().all(|it| it.is_ascii_hexdigit()), "{}", made.id);
    assert_eq!(find(sandboxes, &made.id).as_ref(), Some(&made));
    remove(sandboxes, &made.id).await;
}

pub async fn sandboxes_are_listed_in_order(sandboxes: &dyn Sandboxes, fixture: &dyn Fixture) {
    let mut made = Vec::new();
    for name in ["second", "first", "third"] {
        made.push(sandboxes.create(fixture.sandbox(name)).await.expect("create").id);
    }
    let listed: Vec<SandboxId> =
        sandboxes.list().into_iter().map(|it| it.id).filter(|it| made.contains(it)).collect();
    assert_eq!(listed, made);
    for id in made {
        remove(sandboxes, &id).await;
    }
}

pub async fn the_same_sandbox_is_made_once(sandboxes: &dyn Sandboxes, fixture: &dyn Fixture) {
    let config = fixture.sandbox("once");
    let made = sandboxes.create(config.clone()).await.expect("create");
    if let Ok(again) = sandboxes.create(config.clone()).await {
        assert_eq!(again.id, made.id, "one attempt has two sandboxes");
    }
    let of_pod = sandboxes.list().into_iter().filter(|it| it.config.pod == config.pod).count();
    assert_eq!(of_pod, 1);
    remove(sandboxes, &made.id).await;
}

pub async fn stopping_ends_what_runs(
    sandboxes: &dyn Sandboxes,
    containers: &dyn Containers,
    fixture: &dyn Fixture,
) {
    let sandbox = sandboxes.create(fixture.sandbox("stopped")).await.expect("create").id;
    let mut events = sandboxes.events();
    let config = fixture.container("deaf", Program::IgnoresStop);
    let container = containers.create(&sandbox, config).await.expect("create container");
    containers.start(&container).await.expect("start");
    within("stop", sandboxes.stop(&sandbox)).await.expect("stop");
    assert_eq!(find(sandboxes, &sandbox).map(|it| it.state), Some(SandboxState::NotReady));
    let exit = until("the end of the container", &mut events, || {
        match containers.get(&container).map(|it| it.state) {
            Some(ContainerState::Exited(exit)) => Some(exit),
            Some(_) => None,
            None => panic!("a stopped sandbox lost its containers"),
        }
    });
    assert_eq!(exit.await.code, 137);
    let another = fixture.container("late", Program::RunsForever);
    let late = containers.create(&sandbox, another).await;
    assert!(late.is_err(), "a stopped sandbox takes no containers");
    within("stop again", sandboxes.stop(&sandbox)).await.expect("stopping twice succeeds");
    remove(sandboxes, &sandbox).await;
}

pub async fn removing_forgets_everything(
    sandboxes: &dyn Sandboxes,
    containers: &dyn Containers,
    fixture: &dyn Fixture,
) {
    let sandbox = sandboxes.create(fixture.sandbox("removed")).await.expect("create").id;
    let config = fixture.container("main", Program::RunsForever);
    let container = containers.create(&sandbox, config).await.expect("create container");
    containers.start(&container).await.expect("start");
    remove(sandboxes, &sandbox).await;
    assert_eq!(containers.get(&container), None);
    assert_eq!(containers.list(Some(&sandbox)), []);
    remove(sandboxes, &sandbox).await;
}

pub async fn what_is_gone_can_be_stopped_and_removed(sandboxes: &dyn Sandboxes) {
    let gone = SandboxId::new("0".repeat(64));
    sandboxes.stop(&gone).await.expect("stopping what is gone succeeds");
    sandboxes.remove(&gone).await.expect("removing what is gone succeeds");
}

pub async fn the_network_of_the_host_has_no_addresses_of_its_own(
    sandboxes: &dyn Sandboxes,
    fixture: &dyn Fixture,
) {
    let mut config = fixture.sandbox("host-network");
    config.network = NetworkNamespace::Host;
    let sandbox = sandboxes.create(config).await.expect("create");
    assert!(sandbox.addresses.is_empty(), "{:?}", sandbox.addresses);
    remove(sandboxes, &sandbox.id).await;
}

pub async fn a_failed_sandbox_leaves_nothing(
    sandboxes: &dyn Sandboxes,
    fixture: &dyn Fixture,
    port: u16,
) {
    let with_port = |name| {
        let mut config = fixture.sandbox(name);
        config.host_ports.push(HostPort {
            protocol: Protocol::Tcp,
            host_address: None,
            host_port: port,
            container_port: 80,
        });
        config
    };
    let first = sandboxes.create(with_port("first")).await.expect("create").id;
    let config = with_port("second");
    let error = sandboxes.create(config.clone()).await.expect_err("the port is taken");
    assert!(matches!(error, Error::HostPortTaken { .. }), "{error:?}");
    assert!(sandboxes.list().iter().all(|it| it.config.pod != config.pod));
    remove(sandboxes, &first).await;
    let second = sandboxes.create(config).await.expect("the port is free again").id;
    remove(sandboxes, &second).await;
}
