//! How long a change takes among many policies: `cargo run --release -p network --example policies
//! [POLICIES [PODS [OF THIS NODE]]]`.
//!
//! Works in a network namespace of its own, so nothing of the host changes. Needs root.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use network::policy::Enforcer;
use network::policy::compile::compile;
use network::policy::model::{NamedPort, Pod, Protocol};
use network::policy::state::State;
use serde_json::json;
use stdx::Family;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CHANGES: u32 = 500;
const PODS_PER_NAMESPACE: u32 = 50;

#[derive(Clone, Copy)]
struct Wanted {
    n_policies: u32,
    n_pods: u32,
    n_here: u32,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default| arguments.next().map_or(Ok(default), |it| it.parse());
    let wanted = Wanted { n_policies: next(10_000)?, n_pods: next(5_000)?, n_here: next(110)? };
    let namespace = NetworkNamespace::create()?;
    namespace.run(|| measure(wanted))?
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = std::time::Instant::now();
    let result = run();
    (result, start.elapsed())
}

fn namespace_of(pod: u32) -> u32 {
    pod / PODS_PER_NAMESPACE
}

fn pod_key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("team-{}", namespace_of(number)), format!("pod-{number}"))
}

/// Pods of this node are spread over all namespaces.
fn pod(number: u32, wanted: Wanted, role: &str) -> Pod {
    let every = (wanted.n_pods / wanted.n_here.max(1)).max(1);
    let is_here = number.is_multiple_of(every);
    let app = format!("app-{}", number % 10);
    let port = NamedPort { name: "http".into(), protocol: Protocol::Tcp, number: 8080 };
    Pod {
        uid: number.to_string().into(),
        labels: [("app", app.as_str()), ("role", role)].into_iter().collect(),
        node: if is_here { "here" } else { "elsewhere" }.into(),
        addresses: vec![IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))],
        ports: vec![port],
        ..Pod::default()
    }
}

/// About one app of one namespace: from another app, from a team by its name, from a range.
fn policy(state: &mut State, number: u32, n_namespaces: u32) {
    let namespace = format!("team-{}", number % n_namespaces);
    let name = format!("policy-{number}");
    let variant = number / n_namespaces;
    let friend = format!("team-{}", (number + variant) % n_namespaces);
    let object = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "podSelector": {"matchLabels": {"app": format!("app-{}", variant % 10)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": format!("app-{}", variant / 10 % 10)}}}],
                    "ports": [{"port": "http"}]},
                {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": friend}},
                    "podSelector": {"matchLabels": {"role": "client"}}}]},
            ],
            "egress": [{"to": [{"ipBlock": {"cidr": format!("10.{}.0.0/16", number % 200)}}]}],
        },
    });
    if let Ok(object) = serde_json::from_value(object) {
        state.set_policy(&ObjectKey::new(namespace, name), Some(compile(&object)));
    }
}

fn measure(wanted: Wanted) -> Result<(), Failure> {
    let Wanted { n_policies, n_pods, n_here } = wanted;
    println!("{n_policies} policies, {n_pods} pods, {n_here} of them here");
    let state = State::new("here", &[Family::V4]);
    let mut enforcer = Enforcer::open("0c0ffee0".parse()?, state)?;
    let n_namespaces = namespace_of(n_pods - 1) + 1;
    let ((), took) = timed(|| {
        let state = &mut enforcer.state;
        (0..n_policies).for_each(|it| policy(state, it, n_namespaces));
        (0..n_pods).for_each(|it| state.set_pod(&pod_key(it), Some(pod(it, wanted, "client"))));
    });
    println!("start: decide           {took:>12.1?}");
    let (result, took) = timed(|| enforcer.resync());
    result?;
    println!("start: kernel           {took:>12.1?}");
    let tables: Vec<_> = enforcer.state.tables().filter_map(|it| it.1).collect();
    if let [table] = tables[..] {
        let n_rules: usize = table.chains.values().map(|it| it.rules.len()).sum();
        let n_elements: usize = table.elements.values().map(|it| it.len()).sum();
        let (n_chains, n_sets) = (table.chains.len(), table.sets.len());
        println!("{n_chains} chains, {n_rules} rules, {n_sets} sets, {n_elements} elements");
    }
    let (result, took) = timed(|| enforcer.resync());
    result?;
    println!("compare, no change      {took:>12.1?}");
    let is_here = |it: &u32| &*pod(*it, wanted, "").node == "here";
    let some = |is_wanted: bool| (0..n_pods).filter(move |it| is_here(it) == is_wanted);
    for (what, is_here) in [("elsewhere", false), ("of this node", true)] {
        let pods: Vec<u32> = some(is_here).collect();
        let change = |enforcer: &mut Enforcer, make: &dyn Fn(u32) -> Option<Pod>| {
            let mut times = Vec::new();
            for round in 0..CHANGES {
                let number = pods[(round.wrapping_mul(7919) as usize) % pods.len()];
                for pod in [make(number), Some(pod(number, wanted, "client"))] {
                    let (result, took) = timed(|| {
                        enforcer.state.set_pod(&pod_key(number), pod);
                        enforcer.apply()
                    });
                    result?;
                    times.push(took);
                }
            }
            Ok::<_, Failure>(times)
        };
        let labels = change(&mut enforcer, &|it| Some(pod(it, wanted, "server")))?;
        show(&format!("label, pod {what}"), labels);
        show(&format!("gone, back, pod {what}"), change(&mut enforcer, &|_| None)?);
    }
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let number = round.wrapping_mul(7919) % n_policies;
        let key =
            ObjectKey::new(format!("team-{}", number % n_namespaces), format!("policy-{number}"));
        let (result, took) = timed(|| {
            enforcer.state.set_policy(&key, None);
            enforcer.apply()
        });
        result?;
        times.push(took);
        let (result, took) = timed(|| {
            policy(&mut enforcer.state, number, n_namespaces);
            enforcer.apply()
        });
        result?;
        times.push(took);
    }
    show("policy gone, back", times);
    Ok(())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what:<29} {:>9.1?} median, {:.1?} at 99 %", at(50), at(99));
}
