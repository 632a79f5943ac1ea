//! How long the kernel takes for many Services: `cargo run --release -p service-proxy --example
//! scale [SERVICES [ENDPOINTS [MODE [IPv6]]]]`.
//!
//! Works in a network namespace of its own, so nothing of the host changes. Needs root.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use service_proxy::backends::{self, Backend, Mode, Networks};
use service_proxy::service_port::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};
use stdx::Family;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CHANGES: u32 = 1000;

#[derive(Clone, Copy)]
struct Wanted {
    n_services: u32,
    n_endpoints: u32,
    mode: &'static Mode,
    family: Family,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let n_services = arguments.next().map_or(Ok(10_000), |it| it.parse())?;
    let n_endpoints = arguments.next().map_or(Ok(10), |it| it.parse())?;
    let mode = backends::mode(arguments.next().as_deref().unwrap_or("nftables"))?;
    let family = if arguments.next().is_some() { Family::V6 } else { Family::V4 };
    let namespace = NetworkNamespace::create()?;
    namespace.run(|| measure(Wanted { n_services, n_endpoints, mode, family }))?
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
fn port(number: u32, wanted: Wanted, skipped: Option<u32>) -> ServicePort {
    let address = |base: u32, offset| match wanted.family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(base + offset)),
        Family::V6 => {
            IpAddr::V6(Ipv6Addr::from(0xfd00 << 112 | u128::from(base) << 32 | u128::from(offset)))
        }
    };
    let n_endpoints = wanted.n_endpoints;
    let endpoints = (0..n_endpoints).filter(|it| Some(*it) != skipped).map(|it| Endpoint {
        address: address(0x0a00_0000, number * n_endpoints + it),
        port: 8080,
    });
    ServicePort {
        name: String::new(),
        cluster_ip: address(0x0a60_0000, number + 1),
        protocol: Protocol::Tcp,
        port: 80,
        node_port: None,
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: None,
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: Endpoints { cluster: endpoints.collect(), ..Endpoints::default() },
    }
}

fn open(mode: &Mode) -> Result<Box<dyn Backend>, Failure> {
    let networks = Networks {
        cluster: vec!["10.0.0.0/8".parse()?, "fd00:0:a00::/48".parse()?],
        services: vec!["10.96.0.0/12".parse()?, "fd00::/16".parse()?],
        node_ports: None,
        worker: None,
    };
    Ok((mode.open)("0c0ffee0".parse()?, &networks)?)
}

fn measure(wanted: Wanted) -> Result<(), Failure> {
    let Wanted { n_services, n_endpoints, mode, family } = wanted;
    println!("{n_services} Services with {n_endpoints} endpoints each, {mode:?}, {family}");
    let mut backend = open(mode)?;
    let set_all = |backend: &mut dyn Backend| {
        for number in 0..n_services {
            backend.set(&name(number), vec![port(number, wanted, None)]);
        }
    };
    let ((), took) = timed(|| set_all(&mut *backend));
    println!("full sync: decide     {took:>12.1?}");
    let (result, took) = timed(|| backend.resync());
    result?;
    println!("full sync: kernel     {took:>12.1?}");
    let (result, took) = timed(|| backend.resync());
    result?;
    println!("compare, no change    {took:>12.1?}");

    let mut restarted = open(mode)?;
    let (result, took) = timed(|| {
        restarted.adopt()?;
        set_all(&mut *restarted);
        restarted.resync()
    });
    result?;
    println!("restart, no change    {took:>12.1?}");
    let (removals, additions) = change(&mut *restarted, wanted)?;
    show("one endpoint less", removals);
    show("one endpoint more", additions);
    Ok(())
}

/// One endpoint goes and comes back, of one Service after the other.
fn change(
    backend: &mut dyn Backend,
    wanted: Wanted,
) -> Result<(Vec<Duration>, Vec<Duration>), Failure> {
    let (mut removals, mut additions) = (Vec::new(), Vec::new());
    for round in 0..CHANGES {
        let number = round.wrapping_mul(7919) % wanted.n_services;
        let skipped = Some(round % wanted.n_endpoints);
        for (skipped, times) in [(skipped, &mut removals), (None, &mut additions)] {
            let ports = vec![port(number, wanted, skipped)];
            let (result, took) = timed(|| {
                backend.set(&name(number), ports);
                backend.apply()
            });
            result?;
            times.push(took);
        }
    }
    Ok((removals, additions))
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what:<21} {:>12.1?} median, {:.1?} at 99 %", at(50), at(99));
}
