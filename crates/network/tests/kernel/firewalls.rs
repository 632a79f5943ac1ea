//! Firewalls as others set them up: pods' packets pass all the same, nobody else's do, and nothing of
//! it stays.

use linux::network_namespace::NetworkNamespace;
use network::NONE;

use crate::places::{Families, Node, Pod, ask, bring_up_loopback, receive, shell, udp};
use crate::switch::Switch;

/// A program that is there, and what to do with it.
struct Firewall {
    name: &'static str,
    needs: &'static [&'static str],
    set_up: &'static str,
}

const DOCKER: Firewall = Firewall {
    name: "Docker",
    needs: &["iptables-nft", "ip6tables-nft"],
    set_up: "for it in iptables-nft ip6tables-nft; do
        $it -P FORWARD DROP
        $it -N DOCKER-USER; $it -A FORWARD -j DOCKER-USER; $it -A DOCKER-USER -j RETURN
        $it -N DOCKER-FORWARD; $it -A FORWARD -j DOCKER-FORWARD
        $it -A DOCKER-FORWARD -i docker0 -j ACCEPT; $it -A DOCKER-FORWARD -o docker0 -j DROP
    done",
};

/// Which answers: its default is to drop.
const UFW: Firewall = Firewall {
    name: "ufw",
    needs: &["iptables-nft", "ip6tables-nft"],
    set_up: "for it in iptables-nft ip6tables-nft; do
        $it -P FORWARD DROP
        for chain in before after reject; do $it -N ufw-$chain-forward; $it -A FORWARD -j ufw-$chain-forward; done
        $it -A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
        $it -A ufw-reject-forward -j REJECT
    done",
};

const RED_HAT: Firewall = Firewall {
    name: "iptables-services",
    needs: &["iptables-nft", "ip6tables-nft"],
    set_up: "iptables-nft -A FORWARD -j REJECT --reject-with icmp-host-prohibited
        ip6tables-nft -A FORWARD -j REJECT --reject-with icmp6-adm-prohibited",
};

const LEGACY: Firewall = Firewall {
    name: "Docker with iptables-legacy",
    needs: &["iptables-legacy", "ip6tables-legacy"],
    set_up: "for it in iptables-legacy ip6tables-legacy; do
        $it -P FORWARD DROP
        $it -N DOCKER-USER; $it -A FORWARD -j DOCKER-USER; $it -A DOCKER-USER -j RETURN
    done",
};

const FIREWALLD: Firewall = Firewall {
    name: "firewalld",
    needs: &["nft"],
    set_up: "nft -f - <<'E'
table inet firewalld {
    chain filter_FORWARD {
        type filter hook forward priority filter + 10; policy accept;
        ct state established,related accept
        ct status dnat accept
        iifname \"lo\" accept
        ct state invalid drop
        jump filter_FORWARD_dispatch
        reject with icmpx admin-prohibited
    }
    chain filter_FORWARD_dispatch {
        iifname \"uplink\" jump filter_FWD_public
        iifname \"uplink\" reject with icmpx admin-prohibited
        jump filter_FWD_public
        reject with icmpx admin-prohibited
    }
    chain filter_FWD_public {
        meta l4proto { icmp, ipv6-icmp } accept
    }
}
E",
};

const ALL: [&Firewall; 5] = [&DOCKER, &UFW, &RED_HAT, &LEGACY, &FIREWALLD];

impl Firewall {
    /// Says so loudly, if a program or the kernel's part of it is not there.
    fn is_here(&self) -> bool {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let has =
            |program: &&&str| std::env::split_paths(&paths).any(|it| it.join(program).exists());
        if let Some(missing) = self.needs.iter().find(|it| !has(it)) {
            println!("SKIPPED: {}: {missing} is not there", self.name);
            return false;
        }
        let trial = NetworkNamespace::create().unwrap();
        if let Err(why) = shell(&trial, self.set_up) {
            println!("SKIPPED: {}: {why}", self.name);
            return false;
        }
        true
    }

    fn start(&self, place: &NetworkNamespace) {
        shell(place, self.set_up).unwrap();
    }
}

/// All rules that there are, without what was counted.
fn rules(place: &NetworkNamespace) -> String {
    let of_legacy = "for it in ip ip6; do
        grep -q filter /proc/thread-self/net/${it}_tables_names 2>/dev/null && ${it}tables-legacy-save -t filter || true
    done";
    let nft = shell(place, "nft list ruleset").unwrap_or_default();
    let all = format!("{nft}{}", shell(place, of_legacy).unwrap());
    let without_counters = |line: &str| match line.split_once("counter packets ") {
        Some((start, rest)) => {
            let words: Vec<_> = rest.split(' ').skip(3).collect();
            format!("{start}{}\n", words.join(" "))
        }
        None => format!("{}\n", line.split(" [").next().unwrap()),
    };
    all.lines().filter(|it| !it.starts_with('#')).map(without_counters).collect()
}

/// In each family, what is sent now is the next thing that is heard.
fn check_next(from: &Pod, to: &Pod, text: &str) {
    for (own, other) in from.addresses.iter().zip(&to.addresses) {
        let server = udp(&to.namespace, &format!("{}", std::net::SocketAddr::new(*other, 7000)));
        let client = udp(&from.namespace, &std::net::SocketAddr::new(*own, 0).to_string());
        client.send_to(text.as_bytes(), server.local_addr().unwrap()).unwrap();
        assert_eq!(receive(&server).unwrap().0, text, "{other}");
    }
}

/// Where a firewall lets none pass, sending may be refused.
fn send(from: &Pod, to: std::net::SocketAddr, text: &str) {
    let own = from.addresses.iter().find(|it| it.is_ipv4() == to.is_ipv4()).unwrap();
    let client = udp(&from.namespace, &std::net::SocketAddr::new(*own, 0).to_string());
    let _ = client.send_to(text.as_bytes(), to);
}

#[test]
fn pods_pass_where_others_drop_what_is_forwarded_and_nothing_of_it_stays() {
    for firewall in ALL.into_iter().filter(|it| it.is_here()) {
        println!("{}", firewall.name);
        let Some(mut node) = Node::start_with(Families::Both) else { return };
        let world = node.connect_world();
        let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
        let servers: Vec<_> = b
            .addresses
            .iter()
            .map(|it| udp(&b.namespace, &std::net::SocketAddr::new(*it, 6000).to_string()))
            .collect();
        firewall.start(&node.namespace);
        let to = |it: &std::net::UdpSocket| it.local_addr().unwrap();
        servers.iter().for_each(|it| send(&a, to(it), "dropped"));
        let before = rules(&node.namespace);

        node.open();
        for server in &servers {
            send(&a, to(server), "passed");
            assert_eq!(receive(server).unwrap().0, "passed", "{}", firewall.name);
        }
        let _server = crate::places::Server::start(&world, "0.0.0.0:80");
        let seen = ask(&a.namespace, &format!("{}:80", crate::places::WORLD)).unwrap();
        assert_eq!(seen, crate::places::NODE);
        assert_ne!(rules(&node.namespace), before);
        assert!(rules(&node.namespace).contains("xebec-00c0ffee: packets from pods pass"));

        // Another start changes nothing, and a firewall's own programs still work.
        let opened = rules(&node.namespace);
        node.open();
        assert_eq!(rules(&node.namespace), opened);
        for program in firewall.needs.iter().filter(|it| **it != "nft") {
            let listed = shell(&node.namespace, &format!("{program} -S FORWARD")).unwrap();
            assert_eq!(listed.matches("xebec-00c0ffee: packets").count(), 2, "{listed}");
        }
        assert_eq!(node.network().purge().len(), 0);
        assert_eq!(rules(&node.namespace), without_ours(&before), "{}", firewall.name);
    }
}

/// The tables of the network, which goes, too.
fn without_ours(rules: &str) -> String {
    let (mut kept, mut is_ours) = (String::new(), false);
    for line in rules.lines() {
        is_ours |= line.starts_with("table") && line.contains(" xebec-");
        if !is_ours {
            kept += &format!("{line}\n");
        }
        is_ours &= line != "}";
    }
    kept
}

#[test]
fn who_is_no_pod_does_not_pass() {
    for firewall in ALL.into_iter().filter(|it| it.is_here()) {
        let Some(mut node) = Node::start_with(Families::V4) else { return };
        let world = node.connect_world();
        let strangers = NetworkNamespace::create().unwrap();
        bring_up_loopback(&strangers);
        // A container of somebody else, on a link of its own.
        let link = "ip link add stranger type veth peer name eth0 netns $NS; ip addr add 10.77.0.1/24 dev stranger;
            ip link set stranger up";
        let file = std::fs::File::open(strangers.path()).unwrap();
        let pid = std::process::id();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        let link = link.replace("$NS", &format!("/proc/{pid}/fd/{descriptor}"));
        shell(&node.namespace, &link).unwrap();
        shell(&strangers, "ip addr add 10.77.0.2/24 dev eth0; ip link set eth0 up; ip route add default via 10.77.0.1")
            .unwrap();
        firewall.start(&node.namespace);
        node.open();
        let pod = node.attach("a", &[]);
        let server = udp(&world, "0.0.0.0:6000");
        let to = format!("{}:6000", crate::places::WORLD);
        let _ = udp(&strangers, "10.77.0.2:0").send_to(b"a stranger", &to);
        udp(&pod.namespace, &format!("{}:0", pod.address)).send_to(b"a pod", &to).unwrap();
        assert_eq!(receive(&server).unwrap().0, "a pod", "{}", firewall.name);
    }
}

/// What an administrator forbids before a firewall's last word stays forbidden.
#[test]
fn a_rule_of_an_administrator_holds_for_pods_too() {
    if !DOCKER.is_here() {
        return;
    }
    let Some(mut node) = Node::start_with(Families::V4) else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    DOCKER.start(&node.namespace);
    shell(&node.namespace, "iptables-nft -I DOCKER-USER -p udp --dport 6001 -j DROP").unwrap();
    node.open();
    let [closed, open] = [6001, 6002].map(|it| udp(&b.namespace, &format!("{}:{it}", b.address)));
    send(&a, closed.local_addr().unwrap(), "dropped");
    send(&a, open.local_addr().unwrap(), "passed");
    assert_eq!(receive(&open).unwrap().0, "passed");
    closed.set_nonblocking(true).unwrap();
    assert_eq!(receive(&closed).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_firewall_that_starts_later_and_one_that_forgets_us_are_noticed() {
    for firewall in [&DOCKER, &RED_HAT, &FIREWALLD].into_iter().filter(|it| it.is_here()) {
        let Some(switch) = Switch::start() else { return };
        let node = switch.add_node(1, NONE);
        let (a, b) = (node.attach("a"), node.attach("b"));
        let _following = node.follow();
        let passes = || rules(&node.namespace).contains("packets to pods pass");
        let wait = |what: &str| {
            let is_there = (0..2000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                passes()
            });
            assert!(is_there, "{} {what}: {}", firewall.name, rules(&node.namespace));
        };
        assert!(!passes());
        firewall.start(&node.namespace);
        wait("started later");
        check_next(&a, &b, "first");
        // As `iptables -D` would, or a firewall that loads its rules anew.
        let delete = "nft -a list ruleset | awk '/^table/ { t = $2 \" \" $3 } /chain/ { c = $2 } \
             /xebec-00c0ffee: packets/ { print \"delete rule \" t \" \" c \" handle \" $NF }' | nft -f -";
        shell(&node.namespace, delete).unwrap();
        wait("forgot us");
        check_next(&a, &b, "second");
    }
}

#[test]
fn when_nobody_drops_any_more_the_rules_go() {
    if !DOCKER.is_here() {
        return;
    }
    let Some(mut node) = Node::start_with(Families::V4) else { return };
    DOCKER.start(&node.namespace);
    node.open();
    assert!(rules(&node.namespace).contains("packets to pods pass"));
    shell(&node.namespace, "iptables-nft -P FORWARD ACCEPT; ip6tables-nft -P FORWARD ACCEPT")
        .unwrap();
    node.open();
    assert!(!rules(&node.namespace).contains("packets to pods pass"));
}
