//! Promises of [`Containers`].

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::waiting::{until, within};
use super::{Command, Fixture, Program};
use crate::containers::{
    Apparmor, ContainerConfig, ContainerState, CpuQuota, Device, ExecRequest, Exit, ImageMount,
    Mount, Resources, Security, Streams,
};
use crate::{ContainerId, Containers, Error, SandboxId, Sandboxes};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);
/// Bytes of output to keep.
const LIMIT: usize = 4096;

/// The implementation under test with one sandbox to test in.
struct Bench<'a> {
    sandboxes: &'a dyn Sandboxes,
    containers: &'a dyn Containers,
    fixture: &'a dyn Fixture,
    sandbox: SandboxId,
}

pub async fn all(sandboxes: &dyn Sandboxes, containers: &dyn Containers, fixture: &dyn Fixture) {
    let sandbox = sandboxes.create(fixture.sandbox("containers")).await.expect("create").id;
    let bench = Bench { sandboxes, containers, fixture, sandbox };
    bench.a_container_goes_from_created_to_running_to_exited().await;
    bench.an_exit_code_is_told().await;
    bench.containers_are_listed_in_order().await;
    bench.the_same_container_is_made_once().await;
    bench.what_cannot_start_says_why().await;
    bench.a_deaf_container_is_killed_after_its_grace().await;
    bench.removing_kills_and_forgets().await;
    bench.what_is_unknown_is_named().await;
    bench.output_is_collected().await;
    bench.a_command_that_takes_too_long_is_killed().await;
    bench.commands_have_streams().await;
    bench.commands_need_a_running_container().await;
    bench.limits_can_change().await;
    bench.a_container_tells_what_it_uses().await;
    bench.a_checkpoint_is_made_or_refused_by_name().await;
    bench.what_is_asked_for_is_done_or_refused_by_name().await;
    bench.a_target_must_run_and_takes_others_with_it().await;
    sandboxes.remove(&bench.sandbox).await.expect("remove");
}

impl Bench<'_> {
    async fn create(&self, name: &str, program: Program) -> ContainerId {
        let config = self.fixture.container(name, program);
        self.containers.create(&self.sandbox, config).await.expect("create")
    }

    async fn run(&self, name: &str, program: Program) -> ContainerId {
        let id = self.create(name, program).await;
        within("start", self.containers.start(&id)).await.expect("start");
        id
    }

    fn state(&self, id: &ContainerId) -> ContainerState {
        self.containers.get(id).expect("the container is known").state
    }

    fn exit(&self, id: &ContainerId) -> Option<Exit> {
        match self.state(id) {
            ContainerState::Exited(exit) => Some(exit),
            ContainerState::Created | ContainerState::Running { .. } => None,
        }
    }

    async fn remove(&self, id: &ContainerId) {
        within("remove", self.containers.remove(id)).await.expect("remove");
        assert_eq!(self.containers.get(id), None, "a removed container is still known");
    }

    async fn a_container_goes_from_created_to_running_to_exited(&self) {
        let config = self.fixture.container("life", Program::RunsForever);
        let id = self.containers.create(&self.sandbox, config.clone()).await.expect("create");
        let container = self.containers.get(&id).expect("known");
        assert_eq!(container.config, config);
        assert_eq!(container.sandbox, self.sandbox);
        assert_eq!(container.state, ContainerState::Created);
        assert_eq!(id.as_str().len(), 64, "{id}");
        self.containers.start(&id).await.expect("start");
        let ContainerState::Running { started } = self.state(&id) else {
            panic!("started, but {:?}", self.state(&id))
        };
        within("stop", self.containers.stop(&id, LONG)).await.expect("stop");
        let exit = self.exit(&id).expect("stop returns when it has exited");
        assert_eq!(exit.started, Some(started));
        assert!(exit.finished >= started);
        assert!(!exit.oom_killed);
        within("stop again", self.containers.stop(&id, LONG)).await.expect("stopping twice");
        self.remove(&id).await;
    }

    async fn an_exit_code_is_told(&self) {
        let mut events = self.sandboxes.events();
        let id = self.run("exits", Program::Exits(7)).await;
        let exit = until("the exit", &mut events, || self.exit(&id)).await;
        assert_eq!((exit.code, exit.signal), (7, None));
        self.remove(&id).await;
    }

    async fn containers_are_listed_in_order(&self) {
        let mut made = Vec::new();
        for name in ["b", "a", "c"] {
            made.push(self.create(name, Program::RunsForever).await);
        }
        let ids = |it: Vec<crate::containers::Container>| -> Vec<ContainerId> {
            it.into_iter().map(|it| it.id).collect()
        };
        assert_eq!(ids(self.containers.list(Some(&self.sandbox))), made);
        let everywhere = ids(self.containers.list(None));
        assert!(made.iter().all(|it| everywhere.contains(it)));
        for id in made {
            self.remove(&id).await;
        }
    }

    async fn the_same_container_is_made_once(&self) {
        let id = self.create("once", Program::RunsForever).await;
        let config = self.fixture.container("once", Program::RunsForever);
        if let Ok(again) = self.containers.create(&self.sandbox, config).await {
            assert_eq!(again, id, "one attempt has two containers");
        }
        assert_eq!(self.containers.list(Some(&self.sandbox)).len(), 1);
        self.remove(&id).await;
    }

    async fn what_cannot_start_says_why(&self) {
        let id = self.create("missing", Program::CannotStart).await;
        let error = self.containers.start(&id).await.expect_err("there is no such program");
        let Error::Refused(why) = error else { panic!("not refused: {error:?}") };
        assert!(!why.is_empty());
        let exit = self.exit(&id).expect("it counts as exited");
        assert_eq!((exit.code, exit.started), (128, None));
        assert_eq!(exit.message, Some(why));
        self.remove(&id).await;
    }

    async fn a_deaf_container_is_killed_after_its_grace(&self) {
        let id = self.run("deaf", Program::IgnoresStop).await;
        within("stop", self.containers.stop(&id, SHORT)).await.expect("stop");
        let exit = self.exit(&id).expect("exited");
        assert_eq!(exit.code, 137);
        // Some runtimes tell no more than a code.
        assert!(matches!(exit.signal, None | Some(9)), "{exit:?}");
        self.remove(&id).await;
    }

    async fn removing_kills_and_forgets(&self) {
        let id = self.run("killed", Program::IgnoresStop).await;
        self.remove(&id).await;
        self.remove(&id).await;
        within("stop", self.containers.stop(&id, LONG)).await.expect("stopping what is gone");
    }

    async fn what_is_unknown_is_named(&self) {
        let container = ContainerId::new("0".repeat(64));
        let sandbox = SandboxId::new("0".repeat(64));
        let error = self.containers.start(&container).await.expect_err("unknown");
        assert!(matches!(error, Error::NoContainer(_)), "{error:?}");
        let config = self.fixture.container("lost", Program::RunsForever);
        let error = self.containers.create(&sandbox, config).await.expect_err("unknown");
        assert!(matches!(error, Error::NoSandbox(_)), "{error:?}");
        assert_eq!(self.containers.get(&container), None);
        assert_eq!(self.containers.list(Some(&sandbox)), []);
    }

    async fn output_is_collected(&self) {
        let id = self.run("says", Program::RunsForever).await;
        let says = self.fixture.command(Command::Says);
        let run = |limit| self.containers.exec_output(&id, says.clone(), LONG, limit);
        let output = run(LIMIT).await.expect("exec_output");
        assert_eq!(output.code, 3);
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out"[..], &b"err"[..]));
        let output = run(2).await.expect("exec_output");
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"ou"[..], &b"er"[..]));
        self.remove(&id).await;
    }

    async fn a_command_that_takes_too_long_is_killed(&self) {
        let id = self.run("slow", Program::RunsForever).await;
        let command = self.fixture.command(Command::RunsForever);
        let output = self.containers.exec_output(&id, command, SHORT, LIMIT);
        let error = within("exec_output", output).await.expect_err("too slow");
        assert!(matches!(error, Error::TimedOut(it) if it == SHORT), "{error:?}");
        assert!(self.exit(&id).is_none(), "the container goes on");
        self.remove(&id).await;
    }

    async fn commands_have_streams(&self) {
        let id = self.run("echoes", Program::RunsForever).await;
        let request = ExecRequest {
            command: self.fixture.command(Command::Echoes),
            stdin: true,
            stdout: true,
            ..ExecRequest::default()
        };
        let streams = self.containers.exec(&id, request).await.expect("exec");
        let Streams { stdin, stdout, stderr, resize, exit } = streams;
        assert!(stderr.is_none() && resize.is_none(), "only what was asked for");
        let (mut stdin, mut stdout) = (stdin.expect("stdin"), stdout.expect("stdout"));
        stdin.write_all(b"there and back").await.expect("write");
        stdin.shutdown().await.expect("end the input");
        drop(stdin);
        let mut text = String::new();
        within("reading", stdout.read_to_string(&mut text)).await.expect("read");
        assert_eq!(text, "there and back");
        assert_eq!(within("the exit", exit).await.expect("an exit code"), 0);
        self.remove(&id).await;
    }

    async fn commands_need_a_running_container(&self) {
        let id = self.create("idle", Program::RunsForever).await;
        let says = self.fixture.command(Command::Says);
        let output = self.containers.exec_output(&id, says, LONG, LIMIT).await;
        let error = output.expect_err("not started yet");
        assert!(matches!(error, Error::NotRunning(_)), "{error:?}");
        self.remove(&id).await;
    }

    async fn a_target_must_run_and_takes_others_with_it(&self) {
        let target = self.create("target", Program::RunsForever).await;
        let config = ContainerConfig {
            target: Some(target.clone()),
            ..self.fixture.container("beside", Program::IgnoresStop)
        };
        let refusal = async |config: &ContainerConfig| {
            let refused = self.containers.create(&self.sandbox, config.clone()).await;
            refused.expect_err("a target that does not run").to_string()
        };
        let text = refusal(&config).await;
        let expected = format!("{:?} is not running - in state CONTAINER_CREATED", target.as_str());
        assert!(text.contains(&expected), "{text}");
        let nobody = Some(ContainerId::new("0".repeat(64)));
        let text = refusal(&ContainerConfig { target: nobody, ..config.clone() }).await;
        assert!(text.contains("does not exist"), "{text}");
        within("start", self.containers.start(&target)).await.expect("start");
        let beside = self.containers.create(&self.sandbox, config).await.expect("create");
        within("start", self.containers.start(&beside)).await.expect("start");
        let mut events = self.sandboxes.events();
        self.containers.stop(&target, LONG).await.expect("stop");
        until("it ends with its target", &mut events, || self.exit(&beside)).await;
        self.remove(&beside).await;
        self.remove(&target).await;
    }

    async fn a_container_tells_what_it_uses(&self) {
        let id = self.run("measured", Program::RunsForever).await;
        let stats = self.containers.stats(&id).await.expect("stats");
        assert!(stats.at >= self.containers.get(&id).expect("known").created);
        let of_sandbox = self.sandboxes.stats(&self.sandbox).await.expect("stats");
        assert!(of_sandbox.at >= stats.at);
        self.remove(&id).await;
        let error = self.containers.stats(&id).await.expect_err("it is gone");
        assert!(matches!(error, Error::NoContainer(_)), "{error:?}");
        let nobody = SandboxId::new("0".repeat(64));
        let error = self.sandboxes.stats(&nobody).await.expect_err("unknown");
        assert!(matches!(error, Error::NoSandbox(_)), "{error:?}");
    }

    async fn a_checkpoint_is_made_or_refused_by_name(&self) {
        let id = self.run("still", Program::RunsForever).await;
        let written = self.containers.checkpoint(&id, Path::new("/nowhere/checkpoint.tar")).await;
        let error = written.expect_err("there is no such directory");
        assert!(matches!(&error, Error::Unsupported { what } if what.contains("checkpoint")));
        self.remove(&id).await;
    }

    /// What a runtime cannot do it must not leave out in silence.
    async fn what_is_asked_for_is_done_or_refused_by_name(&self) {
        let plain = |name| self.fixture.container(name, Program::RunsForever);
        let resources = |change: fn(&mut Resources)| {
            let mut config = plain("limits");
            change(&mut config.resources);
            config
        };
        let device = Device {
            host_path: "/dev/null".into(),
            container_path: "/dev/contract".to_owned(),
            permissions: "rwm".to_owned(),
        };
        let mount = Mount {
            host_path: "/".into(),
            container_path: "/contract".to_owned(),
            read_only: true,
            recursive_read_only: true,
            ..Mount::default()
        };
        let image = plain("image").image;
        let of_image = Mount {
            image: Some(ImageMount { image, sub_path: String::new() }),
            container_path: "/contract".to_owned(),
            ..Mount::default()
        };
        let apparmor = Apparmor::Localhost("no-such-profile".to_owned());
        let security = Security { apparmor, ..plain("confined").security };
        for (config, named) in [
            (ContainerConfig { cdi_devices: vec!["a.b/c=0".to_owned()], ..plain("cdi") }, "CDI"),
            (ContainerConfig { devices: vec![device], ..plain("device") }, "device"),
            (ContainerConfig { mounts: vec![mount], ..plain("recursive") }, "read-only"),
            (ContainerConfig { mounts: vec![of_image], ..plain("image") }, "image"),
            (ContainerConfig { security, ..plain("confined") }, "AppArmor"),
            (resources(|it| it.cpuset_cpus = Some("0".to_owned())), "cpuset"),
            (resources(|it| it.hugepage_limits = [("2MB".to_owned(), 0)].into()), "hugepage"),
            (
                resources(|it| {
                    it.memory_limit = Some(64 << 20);
                    it.memory_swap_limit = Some(64 << 20);
                }),
                "swap",
            ),
        ] {
            self.is_done_or_refused(config, named).await;
        }
    }

    async fn is_done_or_refused(&self, config: ContainerConfig, named: &str) {
        let id = match self.containers.create(&self.sandbox, config.clone()).await {
            Ok(id) => id,
            Err(Error::Unsupported { what }) => {
                assert!(what.contains(named), "refused {named} as {what:?}");
                return;
            }
            Err(error) => panic!("{named} is neither done nor refused: {error:?}"),
        };
        within("start", self.containers.start(&id)).await.expect("start");
        assert_eq!(self.containers.get(&id).expect("known").config, config);
        self.remove(&id).await;
    }

    async fn limits_can_change(&self) {
        let id = self.run("limited", Program::RunsForever).await;
        let before = self.containers.get(&id).expect("known").config.resources;
        let quota = |millis| {
            let period = Duration::from_millis(100);
            Some(CpuQuota { quota: Duration::from_millis(millis), period })
        };
        // Up, down, and to what no kernel holds as it is: no whole number of pages.
        for (cpu_shares, cpu_quota, memory_limit) in [
            (512, quota(50), 512 << 20),
            (1024, quota(150), 768 << 20),
            (102, quota(10), 256 << 20),
            (103, None, 300_000_001),
        ] {
            let resources = Resources {
                cpu_shares: Some(cpu_shares),
                cpu_quota,
                memory_limit: Some(memory_limit),
                ..before.clone()
            };
            let changed = self.containers.update_resources(&id, resources.clone()).await;
            changed.expect("update_resources");
            assert_eq!(self.containers.get(&id).expect("known").config.resources, resources);
            let actual = self.containers.resources(&id).await.expect("resources");
            assert_eq!(actual, resources, "what is in force is read back");
        }
        assert!(matches!(self.state(&id), ContainerState::Running { .. }), "and it runs on");
        self.containers.usage(&id).await.expect("usage");
        self.remove(&id).await;
        let error = self.containers.resources(&id).await.expect_err("it is gone");
        assert!(matches!(error, Error::NoContainer(_)), "{error:?}");
    }
}
