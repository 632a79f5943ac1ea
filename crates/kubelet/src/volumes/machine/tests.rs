//! State in, verb out; and whatever fails, in whatever order, the order of the verbs holds.

use node_api::volumes::{Found, Needs};
use proptest::prelude::*;

use super::{Actual, Desired, Presence, Verb, step};

/// `a` attached, `s` staged, `p` published; a question mark after it: perhaps; `u`: in use.
fn actual(text: &str) -> Actual {
    let presence = |letter: char| match text.split_once(letter) {
        None => Presence::Absent,
        Some((_, rest)) if rest.starts_with('?') => Presence::Uncertain,
        Some(_) => Presence::Present,
    };
    Actual {
        attached: presence('a'),
        staged: presence('s'),
        published: presence('p'),
        is_in_use: text.contains('u'),
    }
}

#[test]
fn each_state_has_one_next_verb() {
    let check = |needs: &str, desired: Desired, state: &str, expected: Option<Verb>| {
        let needs = Needs { attach: needs.contains('a'), stage: needs.contains('s') };
        assert_eq!(step(desired, &actual(state), needs), expected, "{desired:?} {state:?}");
    };
    use Desired::{Absent, Published};
    // An emptyDir.
    check("", Published, "", Some(Verb::Publish));
    check("", Published, "p?", Some(Verb::Publish));
    check("", Published, "p", None);
    check("", Absent, "p", Some(Verb::Unpublish));
    check("", Absent, "p?", Some(Verb::Unpublish));
    check("", Absent, "", None);
    // A disk on the network.
    check("as", Published, "", Some(Verb::Attach));
    check("as", Published, "a", Some(Verb::Stage));
    check("as", Published, "as", Some(Verb::Publish));
    check("as", Published, "asp", None);
    check("as", Published, "a?s?p?", Some(Verb::Attach));
    check("as", Absent, "asp", Some(Verb::Unpublish));
    check("as", Absent, "aspu", None);
    check("as", Absent, "as", Some(Verb::Unstage));
    check("as", Absent, "as?", Some(Verb::Unstage));
    check("as", Absent, "a", Some(Verb::Detach));
    check("as", Absent, "a?", Some(Verb::Detach));
    check("s", Published, "", Some(Verb::Stage));
    check("a", Published, "a", Some(Verb::Publish));
    // What is in it changed.
    check("as", Published, "asp?u", Some(Verb::Publish));
}

/// What really is on the node.
#[derive(Clone, Copy, Debug, Default)]
struct Real {
    is_attached: bool,
    is_staged: bool,
    is_published: bool,
    is_in_use: bool,
}

impl Real {
    /// Whether or not it says that it was good, a verb may have done its work.
    fn apply(&mut self, verb: Verb, needs: Needs, has_effect: bool) {
        let (part, value) = match verb {
            Verb::Attach => (&mut self.is_attached, true),
            Verb::Stage => {
                assert!(self.is_attached || !needs.attach, "staged before it was attached");
                (&mut self.is_staged, true)
            }
            Verb::Publish => {
                assert!(self.is_staged || !needs.stage, "published before it was staged");
                assert!(self.is_attached || !needs.attach, "published before it was attached");
                (&mut self.is_published, true)
            }
            Verb::Unpublish => {
                assert!(!self.is_in_use, "unpublished under a container");
                (&mut self.is_published, false)
            }
            Verb::Unstage => {
                assert!(!self.is_published, "unstaged while it was published");
                (&mut self.is_staged, false)
            }
            Verb::Detach => {
                assert!(!self.is_published && !self.is_staged, "detached while it was in place");
                (&mut self.is_attached, false)
            }
        };
        if has_effect {
            *part = value;
        }
    }

    fn found(&self) -> Found {
        Found {
            name: "data".to_owned(),
            is_attached: self.is_attached,
            is_staged: self.is_staged,
            is_published: self.is_published,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Want(bool),
    /// The next verb: whether it is good, and whether it had an effect if it is not.
    Verb(bool, bool),
    Use(bool),
    /// A new kubelet sees what is there.
    Restart,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        1 => any::<bool>().prop_map(Event::Want),
        6 => (prop::bool::weighted(0.7), any::<bool>())
            .prop_map(|(is_good, has_effect)| Event::Verb(is_good, has_effect)),
        1 => any::<bool>().prop_map(Event::Use),
        1 => Just(Event::Restart),
    ];
    prop::collection::vec(event, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_the_order_holds_and_the_end_is_reached(
        needs in (any::<bool>(), any::<bool>()),
        events in events(),
        is_wanted in any::<bool>(),
    ) {
        let needs = Needs { attach: needs.0, stage: needs.1 };
        let (mut real, mut actual) = (Real::default(), Actual::default());
        let mut desired = Desired::Published;
        for event in events {
            match event {
                Event::Want(true) => desired = Desired::Published,
                Event::Want(false) => desired = Desired::Absent,
                // Only what is published can be used, and a new use needs it to be wanted.
                Event::Use(is_used) => {
                    let can_begin = real.is_published
                        && actual.published == Presence::Present
                        && desired == Desired::Published;
                    real.is_in_use = is_used && (real.is_in_use || can_begin);
                    actual.is_in_use = real.is_in_use;
                }
                Event::Restart => actual = Actual::found(&real.found(), real.is_in_use),
                Event::Verb(is_good, has_effect) => {
                    let Some(verb) = step(desired, &actual, needs) else { continue };
                    real.apply(verb, needs, is_good || has_effect);
                    actual = actual.after(verb, is_good);
                }
            }
        }
        (real.is_in_use, actual.is_in_use) = (false, false);
        let desired = if is_wanted { Desired::Published } else { Desired::Absent };
        let mut n_verbs = 0;
        while let Some(verb) = step(desired, &actual, needs) {
            real.apply(verb, needs, true);
            actual = actual.after(verb, true);
            n_verbs += 1;
            prop_assert!(n_verbs <= 3, "no end");
        }
        prop_assert_eq!(real.is_published, is_wanted);
        let is_gone = !real.is_staged && !real.is_attached;
        prop_assert!(is_wanted || is_gone, "{:?} is left", real);
    }
}
