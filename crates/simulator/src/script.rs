//! How the containers of a simulated pod go on, as its annotation says: `after=3 exit=1`,
//! `after=2 restarts=3`, `fails=20`, `odd=1`. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::SignedDuration;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of after=SECONDS, exit=CODE, fails=PERCENT, odd=CODE, restarts=COUNT")]
pub(crate) struct Error(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// How long they run, each time.
    pub(crate) after: SignedDuration,
    /// What they end with, at last.
    pub(crate) code: i32,
    /// How often they are started again before.
    pub(crate) restarts: i32,
}

impl Script {
    /// Pods that fail by chance do so by their uid: the same ones whenever they are asked. `index`
    /// is which completion of a Job the pod is for.
    pub(crate) fn parse(text: &str, uid: &str, index: Option<i32>) -> Result<Self, Error> {
        let mut script = Self { after: SignedDuration::from_secs(1), code: 0, restarts: 0 };
        for word in text.split_whitespace() {
            let unknown = || Error(word.to_owned());
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let value: i32 = value.parse().ok().filter(|it| *it >= 0).ok_or_else(unknown)?;
            match key {
                "after" => script.after = SignedDuration::from_secs(i64::from(value)),
                "exit" => script.code = value,
                "odd" if index.is_some_and(|it| it % 2 == 1) => script.code = value,
                "odd" => {}
                "fails" => script.code = i32::from(draw(uid) < value),
                "restarts" => script.restarts = value,
                _ => return Err(unknown()),
            }
        }
        Ok(script)
    }
}

/// From 0 to 99.
fn draw(uid: &str) -> i32 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    i32::try_from(hasher.finish() % 100).expect("less than 100")
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn a_script_says_when_and_how_containers_end() {
        let script = Script::parse("after=3 exit=7 restarts=2", "u", None).unwrap();
        assert_eq!((script.after.as_secs(), script.code, script.restarts), (3, 7, 2));
        let default = Script::parse("", "u", None).unwrap();
        assert_eq!((default.after.as_secs(), default.code, default.restarts), (1, 0, 0));
        for wrong in ["soon", "after=x", "exit=-1", "sleeps=1"] {
            let said = Script::parse(wrong, "u", None).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{wrong:?} is none of")), "{said}");
        }
    }

    #[test]
    fn pods_of_odd_completions_may_end_otherwise() {
        let code = |index: Option<i32>| Script::parse("odd=3", "u", index).unwrap().code;
        assert_eq!((code(Some(0)), code(Some(1)), code(None)), (0, 3, 0));
    }

    #[test]
    fn so_many_of_a_hundred_fail() {
        let failed = |percent: i32| {
            let codes = (0..1000)
                .map(|it| Script::parse(&format!("fails={percent}"), &format!("u{it}"), None));
            codes.filter(|it| it.as_ref().unwrap().code == 1).count()
        };
        assert_eq!((failed(0), failed(100)), (0, 1000));
        assert!((150..250).contains(&failed(20)), "{}", failed(20));
    }
}
