//! Nodes that tell each other by BGP where their pods are, or tell a router: bird, of Debian.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lifecycle::Tasks;
use network::{Bgp, ROUTED};

use crate::places::Families;
use crate::switch::{Member, Side, Switch, check, serve};

const PASSWORD: &str = "between routers";

fn routes_of(member: &Member) -> BTreeSet<String> {
    let routes = member.routes().routes().unwrap();
    let ours = routes.iter().filter(|it| it.protocol == 120 && it.gateway.is_some());
    ours.map(|it| format!("{} via {}", it.destination, it.gateway.unwrap())).collect()
}

fn ways_to(others: &[u8]) -> BTreeSet<String> {
    let both = |n: &u8| {
        [
            format!("10.244.{n}.0/24 via 192.0.2.{n}"),
            format!("fd00:10:244:{n}::/64 via 2001:db8::{n}"),
        ]
    };
    others.iter().flat_map(both).collect()
}

/// All follow, and know of each other.
fn meet(members: &[&Member]) -> Vec<Tasks> {
    let following = members.iter().map(|it| it.follow()).collect();
    members.iter().for_each(|it| it.set_peers(members));
    following
}

#[test]
fn nodes_hear_of_each_others_pods_in_both_families() {
    let Some(switch) = Switch::start() else { return };
    let nodes = [1, 2, 3].map(|it| switch.add_node(it, ROUTED));
    let _following = meet(&nodes.each_ref());
    nodes.iter().for_each(Member::wait_for_all);
    assert_eq!(routes_of(&nodes[0]), ways_to(&[2, 3]));
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    for from in &pods {
        pods.iter().for_each(|to| check(from, to));
    }
    // A Node that is gone is spoken with no more.
    nodes[0].set_peers(&[&nodes[1]]);
    nodes[0].wait_for_all();
    assert_eq!(routes_of(&nodes[0]), ways_to(&[2]));
}

#[test]
fn a_node_that_dies_and_comes_back_is_missed_by_nobody() {
    let Some(switch) = Switch::start() else { return };
    let [mut one, two] = [1, 2].map(|it| switch.add_node(it, ROUTED));
    let mut following = meet(&[&one, &two]);
    [&one, &two].into_iter().for_each(Member::wait_for_all);
    let (a, b) = (one.attach("a"), two.attach("b"));
    [&a, &b].into_iter().for_each(serve);
    for _ in 0..3 {
        one.runtime.block_on(async {
            following[0].cancel();
            following[0].ended().await;
        });
        check(&a, &b);
        check(&b, &a);
        one.open();
        assert_eq!(routes_of(&one), ways_to(&[2]));
        following[0] = one.follow();
        one.set_peers(&[&one, &two]);
        check(&a, &b);
        check(&b, &a);
        one.wait_for_all();
        assert_eq!(routes_of(&two), ways_to(&[1]));
    }
}

#[test]
fn who_does_not_know_the_password_is_not_heard() {
    let Some(switch) = Switch::start() else { return };
    let [mut one, mut two] = [1, 2].map(|it| switch.add_node(it, ROUTED));
    let bgp = Bgp { password: Some(PASSWORD.to_owned()), ..Bgp::default() };
    one.speak(bgp.clone());
    two.speak(bgp);
    let _following = meet(&[&one, &two]);
    [&one, &two].into_iter().for_each(Member::wait_for_all);
    let mut stranger = switch.add_node(3, ROUTED);
    stranger.speak(Bgp { password: Some("another one".to_owned()), ..Bgp::default() });
    let _follows = stranger.follow();
    [&one, &two, &stranger].into_iter().for_each(|it| it.set_peers(&[&one, &two, &stranger]));
    let mut left_out = one.network().left_out();
    let told = one.runtime.block_on(left_out.wait_for(|it| it.iter().any(|it| !it.is_early)));
    let told: Vec<_> = told.unwrap().iter().map(|it| (it.node.clone(), it.why.clone())).collect();
    assert!(told.iter().all(|it| it.0 == "node-3"), "{told:?}");
    assert!(told[0].1.contains("there is no session of BGP with it"), "{told:?}");
    assert_eq!(routes_of(&one), ways_to(&[2]));
}

/// A router of Debian's.
struct Bird {
    child: Child,
    directory: tempfile::TempDir,
}

impl Drop for Bird {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join("bird")).find(|it| it.exists())
}

impl Bird {
    /// In the world's namespace, with these neighbors, each in AS 64512.
    fn start(switch: &Switch, neighbors: &[&str], password: &str) -> Option<Self> {
        let Some(program) = program() else {
            println!("SKIPPED: bird is not there (Debian's bird2)");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let mut configuration = String::from(
            "router id 192.0.2.100;\nprotocol device {}\n\
             protocol kernel { ipv4 { export all; import none; }; }\n\
             protocol kernel { ipv6 { export all; import none; }; }\n",
        );
        for (n, neighbor) in neighbors.iter().enumerate() {
            configuration += &format!(
                "protocol bgp node{n} {{ local as 65001; neighbor {neighbor} as 64512; password \"{password}\";\n\
                 connect delay time 1; graceful restart on;\n\
                 ipv4 {{ import all; export all; next hop self; }};\n\
                 ipv6 {{ import all; export all; next hop self; }}; }}\n"
            );
        }
        let file = directory.path().join("bird.conf");
        std::fs::File::create(&file).unwrap().write_all(configuration.as_bytes()).unwrap();
        let run = || spawn(&program, &file, &directory.path().join("bird.ctl"));
        let child = switch.world.run(run).unwrap();
        Some(Self { child, directory })
    }
}

/// Libraries of packages that were unpacked are beside their programs.
fn spawn(program: &Path, configuration: &Path, control: &Path) -> Child {
    let libraries = program.parent().unwrap().join("../lib/x86_64-linux-gnu");
    Command::new(program)
        .args(["-f", "-c"])
        .arg(configuration)
        .arg("-s")
        .arg(control)
        .env("LD_LIBRARY_PATH", libraries)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_router_between_the_nodes_hears_and_tells_both() {
    let Some(switch) = Switch::start() else { return };
    let near = switch.add(1, Side::Near, Families::Both, ROUTED, false);
    let far = switch.add(2, Side::Far, Families::Both, ROUTED, false);
    let Some(bird) = Bird::start(&switch, &["192.0.2.1", "198.51.100.2"], PASSWORD) else {
        return;
    };
    let mut members = [near, far];
    for (member, router) in members.iter_mut().zip(["192.0.2.100", "198.51.100.100"]) {
        member.speak(Bgp {
            peers: vec![(65_001, router.parse().unwrap())],
            password: Some(PASSWORD.to_owned()),
            ..Bgp::default()
        });
    }
    let _following = meet(&members.each_ref());
    members.iter().for_each(Member::wait_for_all);
    let pods = members.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    check(&pods[0], &pods[1]);
    check(&pods[1], &pods[0]);
    assert!(bird.directory.path().join("bird.ctl").exists());
}
