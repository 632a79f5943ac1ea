//! How long the kernel takes for many Services: `cargo run --release -p service-proxy --example
//! scale [SERVICES [ENDPOINTS]]`.
//!
//! Works in a network namespace of its own, so nothing of the host changes. Needs root.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use service_proxy::backends::nftables::{Backend, Networks};
use service_proxy::service_port::{
    Endpoint, Endpoints, Network, Protocol, ServicePort, TrafficPolicy,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CHANGES: u32 = 1000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse());
    let n_services = arguments.next().transpose()?.unwrap_or(10_000);
    let n_endpoints = arguments.next().transpose()?.unwrap_or(10);
    let namespace = NetworkNamespace::create()?;
    namespace.run(|| measure(n_services, n_endpoints))?
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = std::time::Instant::now();
    let result = run();
    (result, start.elapsed())
}

fn name(number: u32) -> ObjectKey {
    ObjectKey::new("default", format!("service-{number}"))
}

/// Endpoints of a Service, without the one at `skipped`.
fn port(number: u32, n_endpoints: u32, skipped: Option<u32>) -> ServicePort {
    let address = |base: u32, offset| Ipv4Addr::from(base + offset);
    let endpoints = (0..n_endpoints).filter(|it| Some(*it) != skipped).map(|it| Endpoint {
        address: address(0x0a00_0000, number * n_endpoints + it),
        port: 8080,
    });
    ServicePort {
        cluster_ip: address(0x0a60_0000, number + 1),
        protocol: Protocol::Tcp,
        port: 80,
        node_port: None,
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: BTreeSet::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        endpoints: Endpoints { cluster: endpoints.collect(), local: BTreeSet::new() },
    }
}

fn open() -> Result<Backend, Failure> {
    let network =
        |address: [u8; 4], prefix_length| Network { address: address.into(), prefix_length };
    let networks =
        Networks { cluster: network([10, 0, 0, 0], 8), services: network([10, 96, 0, 0], 12) };
    Ok(Backend::open("0c0ffee0".parse()?, networks)?)
}

fn measure(n_services: u32, n_endpoints: u32) -> Result<(), Failure> {
    println!("{n_services} Services with {n_endpoints} endpoints each");
    let mut backend = open()?;
    let set_all = |backend: &mut Backend| {
        for number in 0..n_services {
            backend.set(&name(number), vec![port(number, n_endpoints, None)]);
        }
    };
    let ((), took) = timed(|| set_all(&mut backend));
    println!("full sync: decide     {took:>12.1?}");
    let (result, took) = timed(|| backend.resync());
    result?;
    println!("full sync: kernel     {took:>12.1?}");
    let (result, took) = timed(|| backend.resync());
    result?;
    println!("compare, no change    {took:>12.1?}");

    let mut restarted = open()?;
    let (result, took) = timed(|| {
        restarted.adopt()?;
        set_all(&mut restarted);
        restarted.resync()
    });
    result?;
    println!("restart, no change    {took:>12.1?}");

    let (mut removals, mut additions) = (Vec::new(), Vec::new());
    for round in 0..CHANGES {
        let number = round.wrapping_mul(7919) % n_services;
        for (skipped, times) in [(Some(round % n_endpoints), &mut removals), (None, &mut additions)]
        {
            let ports = vec![port(number, n_endpoints, skipped)];
            let (result, took) = timed(|| {
                restarted.set(&name(number), ports);
                restarted.apply()
            });
            result?;
            times.push(took);
        }
    }
    show("one endpoint less", removals);
    show("one endpoint more", additions);
    Ok(())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what:<21} {:>12.1?} median, {:.1?} at 99 %", at(50), at(99));
}
