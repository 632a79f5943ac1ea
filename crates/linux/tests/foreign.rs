//! Tables of others, as `nft` and `iptables` make them: what is told of their rules, and rules that
//! are put among them.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::process::Command;

use linux::netlink::nftables::{
    Change, Ending, ForeignRule, HookPoint, Nftables, Policy, Rule, TableFamily, TableId, Verdict,
};
use linux::network_namespace::NetworkNamespace;
use stdx::Family;

/// In a network namespace where these commands were given, if their programs are there.
fn after(commands: &str, run: impl FnOnce(&mut Nftables) + Send) {
    let namespace = match NetworkNamespace::create() {
        Ok(namespace) => namespace,
        Err(err) => return eprintln!("SKIPPED: {err}: {}", err.source),
    };
    let given = namespace.run(|| shell(commands)).unwrap();
    if let Err(why) = given {
        return eprintln!("SKIPPED: {why}");
    }
    let any = TableId::new(TableFamily::Ip, "any");
    namespace.run(|| run(&mut Nftables::open(any).unwrap())).unwrap();
}

fn shell(commands: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-euc", commands]).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn show(rule: &ForeignRule) -> String {
    let to_whom = if rule.is_for_all { "all" } else { "some" };
    let ending = match &rule.ending {
        None => "go on".to_owned(),
        Some(Ending::Reject) => "reject".to_owned(),
        Some(Ending::Other) => "other".to_owned(),
        Some(Ending::Verdict(verdict)) => match verdict {
            Verdict::Accept => "accept".to_owned(),
            Verdict::Drop => "drop".to_owned(),
            Verdict::Return => "return".to_owned(),
            Verdict::Jump(chain) => format!("jump {chain}"),
            Verdict::Goto(chain) => format!("goto {chain}"),
        },
    };
    let comment = rule.comment.split(" #").next().unwrap();
    format!("{to_whom} {ending} {comment}").trim_end().to_owned()
}

const IPTABLES: &str = "
    iptables-nft -P FORWARD DROP
    iptables-nft -N X
    iptables-nft -A FORWARD -s 10.0.0.0/8 -m comment --comment 'some words' -j ACCEPT
    iptables-nft -A FORWARD -m conntrack --ctstate NEW -j X
    iptables-nft -A FORWARD -m comment --comment all -j X
    iptables-nft -A FORWARD -j LOG
    iptables-nft -A FORWARD -g X
    iptables-nft -A FORWARD -j REJECT
    iptables-nft -A X -j DROP
";

#[test]
fn rules_of_iptables_are_understood_as_far_as_it_matters() {
    after(IPTABLES, |socket| {
        let chains = socket.foreign_chains().unwrap();
        let forward = chains.iter().find(|it| it.name == "FORWARD").unwrap();
        let hook = forward.hook.unwrap();
        assert_eq!((hook.point, hook.policy), (HookPoint::Forward, Policy::Drop));
        assert_eq!(chains.iter().find(|it| it.name == "X").unwrap().hook, None);
        let table = TableId::new(TableFamily::Ip, "filter");
        assert_eq!(forward.table, table);
        let shown = |socket: &mut Nftables, chain: &str| -> Vec<_> {
            socket.foreign_rules(&table, chain).unwrap().iter().map(show).collect()
        };
        let expected = [
            "some accept some words",
            "some jump X",
            "all jump X all",
            "all go on",
            "all goto X",
            "all reject",
        ];
        assert_eq!(shown(socket, "FORWARD"), expected);
        assert_eq!(shown(socket, "X"), ["all drop"]);
        assert_eq!(shown(socket, "none such"), [""; 0]);
    });
}

#[test]
fn what_we_put_among_rules_of_iptables_it_shows_and_takes_out_again() {
    after(IPTABLES, |socket| {
        let table = TableId::new(TableFamily::Ip, "filter");
        let rules = socket.foreign_rules(&table, "FORWARD").unwrap();
        let pods = "10.244.0.0/16".parse().unwrap();
        let rule: Rule = Rule::draft(Family::V4, "from pods").source_in(pods).accept();
        let chain = || "FORWARD".to_owned();
        let before = rules.last().unwrap().handle;
        let insert = Change::InsertRule { chain: chain(), before, rule: rule.clone() };
        let append = Change::AddRule { chain: chain(), rule };
        socket.apply_to(&table, &[insert, append]).unwrap();
        let rules = socket.foreign_rules(&table, "FORWARD").unwrap();
        let shown: Vec<_> = rules.iter().map(show).collect();
        let expected =
            ["all goto X", "some accept from pods", "all reject", "some accept from pods"];
        assert_eq!(shown[4..], expected);
        let listed = shell("iptables-nft -S FORWARD").unwrap();
        assert_eq!(listed.matches("-A FORWARD -s 10.244.0.0/16 -m comment").count(), 2, "{listed}");
        // Saved and restored, the comment is kept in another way.
        let restored = "iptables-nft-save | iptables-nft-restore; iptables-nft -D FORWARD 8";
        shell(restored).unwrap();
        let rules = socket.foreign_rules(&table, "FORWARD").unwrap();
        assert_eq!(show(&rules[5]), expected[1]);
        let delete = Change::DeleteRule { chain: chain(), handle: rules[5].handle };
        socket.apply_to(&table, &[delete]).unwrap();
        assert_eq!(socket.foreign_rules(&table, "FORWARD").unwrap().len(), 6);
    });
}

const NFT: &str = "nft -f - <<'E'
table inet firewalld {
    chain filter_FORWARD {
        type filter hook forward priority filter + 10; policy accept;
        ct state established,related accept
        meta l4proto { tcp, udp } counter accept
        ct state vmap { established: accept, invalid: drop }
        limit rate 5/second accept
        log prefix \"all\" jump after
        reject with icmpx admin-prohibited
    }
    chain after {
    }
}
E";

#[test]
fn rules_of_nft_are_understood_as_far_as_it_matters() {
    after(NFT, |socket| {
        let table = TableId::new(TableFamily::Inet, "firewalld");
        let tables = socket.foreign_tables().unwrap();
        assert!(tables.iter().any(|it| it.id == table && !it.is_owned), "{tables:?}");
        let rules = socket.foreign_rules(&table, "filter_FORWARD").unwrap();
        let shown: Vec<_> = rules.iter().map(show).collect();
        let expected = [
            "some accept",
            "some accept",
            "some go on",
            "some accept",
            "all jump after",
            "all reject",
        ];
        assert_eq!(shown, expected);
        // A rule of ours for one family of the two.
        let before = rules[5].handle;
        let pods = "fd00:10:244::/56".parse().unwrap();
        let rule = Rule::draft(Family::V6, "to pods").is_of_family().destination_in(pods).accept();
        let insert = Change::InsertRule { chain: "filter_FORWARD".into(), before, rule };
        socket.apply_to(&table, &[insert]).unwrap();
        let listed = shell("nft list chain inet firewalld filter_FORWARD").unwrap();
        assert!(listed.contains("ip6 daddr fd00:10:244::/56 accept comment \"to pods"), "{listed}");
    });
}
