//! How the containers of a simulated pod go on, as its annotation says. Pure. They end (`after=3
//! exit=1`, `after=2 restarts=3`, `fails=20`, `odd=1`) or run on, not always ready and not always
//! without a restart (`unready=30`, `flaps=20 crashes=5`).

use std::hash::{DefaultHasher, Hash, Hasher as _};

use jiff::SignedDuration;

/// Whoever flaps or crashes decides by chance so often, and is quiet when he has lived through
/// [`PERIODS`] of them: a cluster comes to rest.
const PERIOD: SignedDuration = SignedDuration::from_secs(10);
const PERIODS: i64 = 12;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{0:?} is none of after=SECONDS, exit=CODE, fails=PERCENT, odd=CODE, restarts=COUNT, \
         unready=SECONDS, flaps=PERCENT, crashes=PERCENT"
    )]
    Word(String),
    #[error(
        "containers that end (after, exit, fails, odd, restarts) do not run on (unready, flaps, \
         crashes)"
    )]
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Ends(Ends),
    Runs(Runs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// How long they run, each time.
    pub(crate) after: SignedDuration,
    /// What they end with, at last.
    pub(crate) code: i32,
    /// How often they are started again before.
    pub(crate) restarts: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// From when on they are not ready, for good.
    unready: Option<SignedDuration>,
    /// In how many periods of a hundred they are not ready.
    flaps: i32,
    /// At the beginning of how many periods of a hundred they were started again.
    crashes: i32,
}

/// What should be seen of containers that run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) is_ready: bool,
    /// How often they were started again, and at which age of the pod last.
    pub(crate) restarts: i32,
    pub(crate) since: SignedDuration,
    /// The age at which they look otherwise, perhaps.
    pub(crate) until: Option<SignedDuration>,
}

impl Script {
    /// What happens by chance does so by the pod's uid: the same whenever it is asked. `index` is
    /// which completion of a Job the pod is for.
    pub(crate) fn parse(text: &str, uid: &str, index: Option<i32>) -> Result<Self, Error> {
        let mut ends = Ends { after: SignedDuration::from_secs(1), code: 0, restarts: 0 };
        let mut runs = Runs::default();
        let (mut n_ends, mut n_runs) = (0, 0);
        for word in text.split_whitespace() {
            let unknown = || Error::Word(word.to_owned());
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let value: i32 = value.parse().ok().filter(|it| *it >= 0).ok_or_else(unknown)?;
            let time = SignedDuration::from_secs(i64::from(value));
            match key {
                "after" => ends.after = time,
                "exit" => ends.code = value,
                "odd" if index.is_some_and(|it| it % 2 == 1) => ends.code = value,
                "odd" => {}
                "fails" => ends.code = i32::from(draw(uid) < value),
                "restarts" => ends.restarts = value,
                "unready" => runs.unready = Some(time),
                "flaps" => runs.flaps = value,
                "crashes" => runs.crashes = value,
                _ => return Err(unknown()),
            }
            let is_run = matches!(key, "unready" | "flaps" | "crashes");
            *if is_run { &mut n_runs } else { &mut n_ends } += 1;
        }
        match (n_ends, n_runs) {
            (_, 0) => Ok(Self::Ends(ends)),
            (0, _) => Ok(Self::Runs(runs)),
            _ => Err(Error::Mixed),
        }
    }
}

impl Runs {
    /// Of a pod of this age.
    pub(crate) fn seen(&self, uid: &str, age: SignedDuration) -> Seen {
        let period = age.as_secs().max(0) / PERIOD.as_secs();
        let begins = |it: i64| PERIOD.saturating_mul(i32::try_from(it).unwrap_or(i32::MAX));
        // In the first one they get up.
        let by_chance = 1..=period.min(PERIODS);
        let crashes = by_chance.clone().filter(|it| draw(("crash", uid, *it)) < self.crashes);
        let (restarts, last) = crashes.fold((0, 0), |(count, _), it| (count + 1, it));
        let flaps = by_chance.contains(&period) && draw(("flap", uid, period)) < self.flaps;
        let is_over = self.unready.is_some_and(|it| age >= it);
        let is_random = self.flaps > 0 || self.crashes > 0;
        let next = Some(period + 1).filter(|it| is_random && *it <= PERIODS + 1).map(begins);
        let end = self.unready.filter(|_| !is_over);
        Seen {
            is_ready: !flaps && !is_over,
            restarts,
            since: begins(last),
            until: next.into_iter().chain(end).min(),
        }
    }
}

/// From 0 to 99.
fn draw(of: impl Hash) -> i32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    i32::try_from(hasher.finish() % 100).expect("less than 100")
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::{Ends, Error, PERIODS, Runs, Script};

    fn ends(text: &str, uid: &str, index: Option<i32>) -> Ends {
        match Script::parse(text, uid, index).unwrap() {
            Script::Ends(ends) => ends,
            Script::Runs(runs) => panic!("{text:?} runs on: {runs:?}"),
        }
    }

    fn runs(text: &str) -> Runs {
        match Script::parse(text, "u", None).unwrap() {
            Script::Runs(runs) => runs,
            Script::Ends(ends) => panic!("{text:?} ends: {ends:?}"),
        }
    }

    #[test]
    fn a_script_says_when_and_how_containers_end() {
        let script = ends("after=3 exit=7 restarts=2", "u", None);
        assert_eq!((script.after.as_secs(), script.code, script.restarts), (3, 7, 2));
        let default = ends("", "u", None);
        assert_eq!((default.after.as_secs(), default.code, default.restarts), (1, 0, 0));
        for wrong in ["soon", "after=x", "exit=-1", "sleeps=1", "flaps="] {
            let said = Script::parse(wrong, "u", None).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{wrong:?} is none of")), "{said}");
        }
        assert_eq!(Script::parse("after=3 flaps=10", "u", None), Err(Error::Mixed));
    }

    #[test]
    fn pods_of_odd_completions_may_end_otherwise() {
        let code = |index: Option<i32>| ends("odd=3", "u", index).code;
        assert_eq!((code(Some(0)), code(Some(1)), code(None)), (0, 3, 0));
    }

    #[test]
    fn so_many_of_a_hundred_fail() {
        let failed = |percent: i32| {
            let codes =
                (0..1000).map(|it| ends(&format!("fails={percent}"), &format!("u{it}"), None));
            codes.filter(|it| it.code == 1).count()
        };
        assert_eq!((failed(0), failed(100)), (0, 1000));
        assert!((150..250).contains(&failed(20)), "{}", failed(20));
    }

    #[test]
    fn containers_turn_unready_once_and_stay_so() {
        let seen = |age: i64| runs("unready=7").seen("u", SignedDuration::from_secs(age));
        assert_eq!((seen(6).is_ready, seen(6).until.unwrap().as_secs()), (true, 7));
        assert_eq!((seen(7).is_ready, seen(7).until), (false, None));
        assert!(!seen(100_000).is_ready);
    }

    #[test]
    fn whoever_flaps_or_crashes_is_quiet_after_a_while() {
        let seen = |age: i64| {
            let at = SignedDuration::from_secs(age);
            let all = (0..100).map(|it| runs("flaps=20 crashes=10").seen(&format!("u{it}"), at));
            all.collect::<Vec<_>>()
        };
        assert!(seen(9).iter().all(|it| it.is_ready && it.restarts == 0));
        let unready =
            (1..=PERIODS).map(|it| seen(it * 10).iter().filter(|it| !it.is_ready).count());
        let unready = unready.sum::<usize>();
        assert!((180..300).contains(&unready), "{unready} of 1200");
        let late = seen(PERIODS * 10 + 10);
        assert!(late.iter().all(|it| it.is_ready && it.until.is_none()));
        let restarts = late.iter().map(|it| it.restarts).sum::<i32>();
        assert!((80..160).contains(&restarts), "{restarts} of 1200");
        assert!(seen(100_000).iter().zip(&late).all(|(one, other)| one == other));
        // Nobody sleeps through a change.
        for (one, next) in seen(30).iter().zip(seen(39)) {
            assert_eq!((one, one.until.unwrap().as_secs()), (&next, 40));
        }
    }
}
