//! Where in a chain of others packets of pods have to be let pass, and what has to be done for it.
//! Pure.
//!
//! Not first, but right before the word that is the last for all others: what an administrator
//! forbids before that stays forbidden.

use std::collections::BTreeMap;

use linux::netlink::nftables::{Ending, ForeignRule, Verdict};

/// Deeper no chain is looked into.
const DEPTH_MAX: usize = 16;

/// A chain by which packets come, with those that it sends all of them on to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) name: String,
    /// What comes to its end is dropped.
    pub(crate) is_closed: bool,
    pub(crate) chains: BTreeMap<String, Vec<ForeignRule>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The rule with this handle.
    Before(u64),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The rule with this handle.
    Delete(u64),
    /// Of the rules that should be there, the one with this number.
    Add(usize, Place),
}

/// What becomes of all packets that come to a rule, or to the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Refused,
    /// Accepted, or in the hands of somebody else.
    Taken,
    /// Those that are left come to the end of the chain.
    AtEnd,
    /// Those that are left come to the next rule.
    Next,
}

impl Passage {
    pub(crate) fn rules(&self) -> &[ForeignRule] {
        self.rules_of(&self.name)
    }

    fn rules_of(&self, chain: &str) -> &[ForeignRule] {
        self.chains.get(chain).map(Vec::as_slice).unwrap_or_default()
    }

    /// `None`: it refuses nobody whom it does not know.
    pub(crate) fn place(&self) -> Option<Place> {
        for rule in self.rules() {
            match self.fate(rule, DEPTH_MAX) {
                Fate::Next => {}
                Fate::Taken => return None,
                Fate::Refused => return Some(Place::Before(rule.handle)),
                Fate::AtEnd => return self.is_closed.then_some(Place::Before(rule.handle)),
            }
        }
        self.is_closed.then_some(Place::End)
    }

    fn fate(&self, rule: &ForeignRule, depth: usize) -> Fate {
        let Some(ending) = rule.ending.as_ref().filter(|_| rule.is_for_all) else {
            return Fate::Next;
        };
        match ending {
            Ending::Reject | Ending::Verdict(Verdict::Drop) => Fate::Refused,
            Ending::Other | Ending::Verdict(Verdict::Accept) => Fate::Taken,
            Ending::Verdict(Verdict::Return) => Fate::AtEnd,
            Ending::Verdict(Verdict::Jump(chain)) => match self.fate_in(chain, depth) {
                Fate::AtEnd => Fate::Next,
                fate => fate,
            },
            Ending::Verdict(Verdict::Goto(chain)) => self.fate_in(chain, depth),
        }
    }

    fn fate_in(&self, chain: &str, depth: usize) -> Fate {
        let Some(depth) = depth.checked_sub(1) else { return Fate::AtEnd };
        let fates = self.rules_of(chain).iter().map(|it| self.fate(it, depth));
        fates.into_iter().find(|it| *it != Fate::Next).unwrap_or(Fate::AtEnd)
    }

    /// The chains that all packets may be sent on to, and that are not known yet.
    pub(crate) fn unknown(&self) -> Option<String> {
        let rules = self.chains.values().flatten().filter(|it| it.is_for_all);
        let mut targets = rules.filter_map(|it| match &it.ending {
            Some(Ending::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain))) => Some(chain),
            _ => None,
        });
        targets.find(|it| !self.chains.contains_key(*it)).cloned()
    }

    /// `wanted`: the comments of the rules that should be at the place, in their order.
    pub(crate) fn steps(&self, wanted: &[String], is_ours: impl Fn(&str) -> bool) -> Vec<Step> {
        let ours: Vec<_> = self.rules().iter().filter(|it| is_ours(&it.comment)).collect();
        let place = self.place();
        let wanted = if place.is_some() { wanted } else { &[] };
        let is_before = |rule: &ForeignRule| match place {
            Some(Place::Before(handle)) => {
                let at = |handle| self.rules().iter().position(|it| it.handle == handle);
                at(rule.handle) < at(handle)
            }
            Some(Place::End) | None => true,
        };
        let comments = ours.iter().map(|it| &it.comment);
        if comments.eq(wanted) && ours.iter().all(|it| is_before(it)) {
            return Vec::new();
        }
        let delete = ours.iter().map(|it| Step::Delete(it.handle));
        let add = place.into_iter().flat_map(|it| (0..wanted.len()).map(move |n| Step::Add(n, it)));
        delete.chain(add).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule as `HANDLE ending`, with `?` before the ending if it asks something of packets, or
    /// `HANDLE #comment` for one of ours.
    fn rule(text: &str) -> ForeignRule {
        let (handle, words) = text.split_once(' ').unwrap();
        let handle = handle.parse().unwrap();
        if words.starts_with('#') {
            let ending = Some(Ending::Verdict(Verdict::Accept));
            return ForeignRule { handle, comment: words.into(), is_for_all: false, ending };
        }
        let is_for_all = !words.starts_with('?');
        let ending = match words.trim_start_matches('?').split_once(' ') {
            Some(("jump", chain)) => Some(Ending::Verdict(Verdict::Jump(chain.into()))),
            Some(("goto", chain)) => Some(Ending::Verdict(Verdict::Goto(chain.into()))),
            None if words.ends_with("accept") => Some(Ending::Verdict(Verdict::Accept)),
            None if words.ends_with("drop") => Some(Ending::Verdict(Verdict::Drop)),
            None if words.ends_with("return") => Some(Ending::Verdict(Verdict::Return)),
            None if words.ends_with("reject") => Some(Ending::Reject),
            _ => None,
        };
        ForeignRule { handle, comment: String::new(), is_for_all, ending }
    }

    fn passage(is_closed: bool, chains: &[(&str, &[&str])]) -> Passage {
        let chains = chains
            .iter()
            .map(|(name, rules)| ((*name).to_owned(), rules.iter().map(|it| rule(it)).collect()));
        Passage { name: "FORWARD".into(), is_closed, chains: chains.collect() }
    }

    fn check(is_closed: bool, chains: &[(&str, &[&str])], expected: &[&str]) {
        let passage = passage(is_closed, chains);
        let wanted = ["#from".to_owned(), "#to".to_owned()];
        let steps = passage.steps(&wanted, |it| it.starts_with('#'));
        let shown = |it: &Step| match it {
            Step::Delete(handle) => format!("delete {handle}"),
            Step::Add(n, Place::End) => format!("{} at the end", wanted[*n]),
            Step::Add(n, Place::Before(handle)) => format!("{} before {handle}", wanted[*n]),
        };
        assert_eq!(steps.iter().map(shown).collect::<Vec<_>>(), expected, "{chains:?}");
    }

    const AT_END: [&str; 2] = ["#from at the end", "#to at the end"];

    #[test]
    fn a_chain_that_refuses_nobody_is_left_alone() {
        check(false, &[("FORWARD", &[])], &[]);
        check(false, &[("FORWARD", &["1 ?drop", "2 jump A"]), ("A", &["3 ?reject"])], &[]);
        check(true, &[("FORWARD", &["1 ?drop", "2 accept"])], &[]);
        check(false, &[("FORWARD", &["1 accept", "2 drop"])], &[]);
        check(false, &[("FORWARD", &["1 jump A", "2 drop"]), ("A", &["3 accept"])], &[]);
    }

    /// Docker's, and ufw's.
    #[test]
    fn where_the_policy_is_the_last_word_pods_pass_before_it() {
        check(true, &[("FORWARD", &[])], &AT_END);
        let docker = ["1 jump DOCKER-USER", "2 jump DOCKER-FORWARD"];
        let chains =
            [("FORWARD", &docker[..]), ("DOCKER-USER", &[]), ("DOCKER-FORWARD", &["3 ?drop"])];
        check(true, &chains, &AT_END);
        check(true, &[("FORWARD", &["1 return", "2 accept"])], &["#from before 1", "#to before 1"]);
    }

    /// Red Hat's, firewalld's, and ufw's if it is to answer.
    #[test]
    fn where_a_rule_is_the_last_word_pods_pass_before_it() {
        let before = |it: u32| [format!("#from before {it}"), format!("#to before {it}")];
        let check_before = |is_closed, chains: &[(&str, &[&str])], place| {
            let expected = before(place);
            check(is_closed, chains, &[&expected[0], &expected[1]]);
        };
        check_before(false, &[("FORWARD", &["1 ?accept", "2 reject"])], 2);
        let jumps = ("FORWARD", &["1 ?accept", "2 jump A", "3 drop"][..]);
        check_before(false, &[jumps, ("A", &["4 ?accept"])], 3);
        check_before(false, &[jumps, ("A", &["4 jump B"]), ("B", &["5 ?drop", "6 reject"])], 2);
        check_before(false, &[jumps, ("A", &["4 return", "5 drop"])], 3);
        check_before(true, &[("FORWARD", &["1 goto A", "2 accept"]), ("A", &[])], 1);
    }

    #[test]
    fn what_is_right_stays_and_what_is_not_is_put_right() {
        check(true, &[("FORWARD", &["1 #from", "2 ?drop", "3 #to"])], &[]);
        check(false, &[("FORWARD", &["1 #from", "2 #to", "3 reject"])], &[]);
        let deleted = ["delete 1", "delete 3"];
        check(false, &[("FORWARD", &["1 #from", "2 accept", "3 #to"])], &deleted);
        let anew = [&deleted[..], &["#from before 2", "#to before 2"]].concat();
        check(false, &[("FORWARD", &["1 #from", "2 drop", "3 #to"])], &anew);
        let other = ["delete 1", "#from at the end", "#to at the end"];
        check(true, &[("FORWARD", &["1 #of another version"])], &other);
    }

    #[test]
    fn chains_that_go_round_in_circles_end() {
        let circle = [("FORWARD", &["1 jump A"][..]), ("A", &["2 jump A"])];
        assert_eq!(passage(true, &circle).place(), Some(Place::End));
    }

    #[test]
    fn only_chains_that_all_packets_may_come_to_are_asked_for() {
        let one = [("FORWARD", &["1 ?jump A", "2 jump B"][..])];
        assert_eq!(passage(true, &one).unknown().as_deref(), Some("B"));
        assert_eq!(passage(true, &[one[0], ("B", &[])]).unknown(), None);
    }
}
